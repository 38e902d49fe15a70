"""Write the corpus of failures in other runtimes: models, messages, and the lines to blame.

    python tools/runtime_failures.py                 every runtime
    python tools/runtime_failures.py tract rten      these runtimes

The failures are those of `tools/failures.py`, and those in `failing/elsewhere.py`. Each runs in
every runtime of `tools/matrix.py` that is not ONNX Runtime for Python. A message is kept in its
short form, and in the form in which a program shows it that does not catch the error: a traceback
of Python, a stack of JavaScript, a chain of Rust, with what the runtime printed before. Times,
addresses and folders are replaced. TensorRT cannot run without a GPU: `failing/documented.py`
contains its messages in the form that its users report.

A runtime that runs a program is not counted, nor one that ends its process without a word.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from failing import FAILURES, Build, Failing, lines_to_blame
from failing.elsewhere import ELSEWHERE
from failing.objections import OBJECTIONS
from failures import CORPUS, MODEL, ROOT, export
from google.protobuf.message import DecodeError
from runtimes.installed import runtimes
from runtimes.process import Process, RefusalError

TO = ROOT / "crates/inspect/tests/runtimes"
#: The maximum length of a message. The error is at its end.
LONGEST = 3000
#: What differs between runs, and its replacement.
_CHANGING = [
    (re.compile(re.escape(f"{ROOT}/")), ""),
    (re.compile(r"\[\d\d:\d\d:\d\d\]"), "[00:00:00]"),
    (re.compile(r"0x[0-9a-f]{6,}"), "0x7f0000000000"),
    (re.compile(r"main' \(\d+\)"), "main' (1)"),
    (re.compile(r"\S*/(?:\.cargo/registry/src/[^/\s]+|\.venvs/runtimes|site-packages)/"), ""),
    (re.compile(r"(?:file://)?/[^\s(]*/(?=tools/runtimes/|node_modules/)"), ""),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+"), "2026-01-01 00:00:00.000000"),
    (re.compile(r"/(?:[\w.-]+/)+lib/python3[\w./-]*/"), ""),
]
#: IREE compiles a model for seconds: these failures run in it.
_IN_IREE = {
    *("activations_of_three_lines", "attention", "axis_of_the_second_join"),
    *("bias_of_the_second_layer", "bits_of_two_lines", "largest_by_index", "loop_with_a_condition"),
    *("one_sided_spectrum", "operator_in_a_branch", "operator_in_a_scan"),
    *("operator_of_the_third_layer", "scan_that_captures", "sizes_in_a_branch"),
    *("sizes_of_the_second_product", "type_of_the_second_sum", "unsigned_constants"),
    *("value_of_the_second_layer", "weight_of_the_third_layer", "attention_of_other_keys"),
    *("attribute_that_is_missing", "axis_out_of_range", "concatenate_rows", "function_of_nobody"),
    *("operator_of_nobody", "permutation_of_another_rank", "shapes_in_a_branch"),
    *("shapes_of_a_product", "two_types_in_one_sum", "value_that_nobody_makes"),
}
#: Runtimes whose messages are those of ONNX Runtime for Python, which `tools/failures.py` collects.
_SAME = ("onnxruntime", "onnxruntime-node", "reference")
#: Refusals of the programs below `runtimes/workers`, which are not messages of a runtime.
_OWN = re.compile(
    r"^(Error: \")?no tensors of |data type '\w+' not understood|^no answer in |with code -?\d+: $"
    r"|^(Traceback(.|\n)*)?ValueError: the converter wrote no file\s*$"
)


def main(names: list[str]) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        exported = {}
        for key, build in {**FAILURES, **ELSEWHERE}.items():
            place = folder / key
            place.mkdir()
            export(build(), place)
            exported[key] = place
        TO.mkdir(exist_ok=True)
        for runtime in runtimes():
            if runtime.name in ("onnxruntime", "reference") or (
                names and runtime.name not in names
            ):
                continue
            runtime.install()
            with Process(runtime) as process:
                messages = [
                    message
                    for key, build in {**FAILURES, **ELSEWHERE}.items()
                    if runtime.name != "iree" or key in _IN_IREE
                    for message in provoke(process, key, build, exported[key])
                ]
            head = {"runtime": runtime.name, "version": runtime.version}
            text = json.dumps({**head, "messages": messages}, indent=1, ensure_ascii=False)
            (TO / f"{runtime.name}.json").write_text(text + "\n")
            print(f"{runtime.name} {runtime.version}: {len(messages)} messages", flush=True)
    return 0


def provoke(process: Process, key: str, build: Build, place: Path) -> list[dict[str, Any]]:
    """Return the messages of a runtime about a failure, the short one first."""
    runtime = process.runtime
    run = place / runtime.name
    run.mkdir(exist_ok=True)
    for data in place.glob("*.data"):
        shutil.copy(data, run)
    try:
        process.run(place / MODEL, arrays(build(), place / MODEL), run)
        return []
    except RefusalError as error:
        said = str(error)
        texts = [said, error.log] if not _OWN.search(said) else [error.log]
    except (KeyError, ValueError, TypeError, DecodeError):
        # The model or its inputs cannot be given to a runtime.
        return []
    file = Path(build.__code__.co_filename).resolve().relative_to(ROOT).as_posix()
    lines = [f"{file}:{line}" for line in blamed(runtime.name, key, build)]
    texts = [clean(text, place) for text in texts if text.strip()]
    return [
        {"model": stored(key, place), "lines": lines, "text": text}
        for text in dict.fromkeys(text[-LONGEST:] for text in texts)
        if not _OWN.search(text)
    ]


def blamed(runtime: str, key: str, build: Build) -> list[int]:
    """Return the numbers of the lines to which a runtime objects."""
    parts = OBJECTIONS.get(runtime, {}).get(key)
    if parts is None:
        return lines_to_blame(build, runtime)
    lines, start = inspect.getsourcelines(build)
    # A helper is above the failures of its module.
    above = Path(build.__code__.co_filename).read_text().splitlines()[: start - 1]
    found = [
        [at for at, line in enumerate(lines, start) if part in line]
        or [at for at, line in enumerate(above, 1) if part in line]
        for part in parts
    ]
    assert all(len(each) == 1 for each in found), (runtime, key, found)
    return [each[0] for each in found]


def stored(key: str, place: Path) -> str:
    """Return where the corpus has the model of a failure, and put it there if it is new."""
    same = CORPUS / f"{key}.onnx"
    if same.exists() and without_metadata(same) == without_metadata(place / MODEL):
        return f"../{CORPUS.name}/{key}.onnx"
    for file in (MODEL, f"{MODEL}.map"):
        if (place / file).exists():
            shutil.copy(place / file, TO / file.replace("model", key))
    return f"{key}.onnx"


def without_metadata(path: Path) -> onnx.ModelProto:
    """Return what a model computes: the corpora are not written at the same time."""
    model = onnx.load(path, load_external_data=False)
    del model.metadata_props[:]
    model.producer_version = ""
    for graph in (model.graph, *model.functions):
        strip(graph)
    return model


def strip(graph: onnx.GraphProto | onnx.FunctionProto) -> None:
    del graph.metadata_props[:]
    for value in graph.value_info:
        del value.metadata_props[:]
    if isinstance(graph, onnx.GraphProto):
        for each in (*graph.input, *graph.output, *graph.initializer):
            del each.metadata_props[:]
    for node in graph.node:
        del node.metadata_props[:]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                strip(attribute.g)


def clean(text: str, place: Path) -> str:
    text = text.replace(f"{place.parent}/", "").replace(str(place), "model")
    for changing, fixed in _CHANGING:
        text = changing.sub(fixed, text)
    return text


def arrays(failing: Failing, model: Path) -> list[np.ndarray]:
    """Return what a failure feeds, or ones if its model must not load."""
    graph = onnx.load(model, load_external_data=False).graph
    if failing.feeds is not None:
        return [np.asarray(failing.feeds[value.name]) for value in graph.input]
    return [ones(value) for value in graph.input]


def ones(value: onnx.ValueInfoProto) -> np.ndarray:
    kind = value.type.tensor_type
    sizes = [size.dim_value or 2 for size in kind.shape.dim]
    return np.ones(sizes, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
