"""Write the guilty nodes alone, with a script that runs them.

The script is the same for every model. Everything that comes from a model is data beside it, so no
name in a model can become code.
"""

import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx

from .. import _core, _files
from .._errors import ConfigError, WriteError
from .arrays import Array
from .executors import with_weights
from .graphs import Graph

if TYPE_CHECKING:
    from .report import Report

_FORMAT: Final = "jax2onnx reproducer"
_MODEL: Final = "model.onnx"
_INPUTS: Final = "inputs.npz"
_EXPECTED: Final = "expected.npy"
_SCRIPT: Final = "run.py"
_CASE: Final = "case.json"
_MAX_CASE: Final = 1 << 24
"""The largest description that is read."""

_TEXT: Final = '''"""Run one model and compare its output with the expected one: python run.py"""

import json
from pathlib import Path

import numpy as np

folder = Path(__file__).parent
case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
with np.load(folder / "inputs.npz") as arrays:
    inputs = {name: arrays[key] for key, name in case["inputs"].items()}
expected = np.load(folder / "expected.npy")
model = str(folder / "model.onnx")
if case["runtime"] == "onnxruntime":
    import onnxruntime

    providers = [tuple(each) if isinstance(each, list) else each for each in case["providers"]]
    session = onnxruntime.InferenceSession(model, providers=providers)
    (got,) = session.run([case["output"]], inputs)
elif case["runtime"] == "openvino":
    import openvino

    precision = {"INFERENCE_PRECISION_HINT": "f32"}
    got = openvino.Core().compile_model(model, "CPU", precision)(inputs)[0]
elif case["runtime"] == "onnx.reference":
    from onnx.reference import ReferenceEvaluator

    (got,) = ReferenceEvaluator(model).run(None, inputs)
else:
    raise SystemExit(f"run model.onnx with inputs.npz in {case['runtime']}")
print(case["about"])
print("expected", expected)
print("got     ", got)
if expected.shape != got.shape:
    print("the shapes differ:", expected.shape, got.shape)
else:
    error = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    print("largest difference", np.nanmax(error) if error.size else 0.0)
'''


@dataclass(frozen=True)
class Case:
    """The guilty nodes, what they are fed, and what is expected."""

    graph: Graph
    model: onnx.ModelProto
    feeds: Mapping[str, Array]
    expected: Array
    output: str
    providers: tuple[Any, ...]
    runtime: str = "onnxruntime"

    def save(self, folder: str, report: "Report", inputs: Sequence[_files.Named]) -> str:
        """Write the files. Returns the path of the script."""
        check_folder(folder)
        keys = {f"input_{number}": name for number, name in enumerate(self.feeds)}
        arrays = {key: self.feeds[name] for key, name in keys.items()}
        contents = {
            _MODEL: self._whole_model(),
            _INPUTS: _archive(arrays),
            _EXPECTED: _array(self.expected),
            _SCRIPT: _TEXT.encode(),
        }
        case = {
            "format": _FORMAT,
            "about": _core.clean(str(report).partition("\n")[0].removeprefix("error: ")),
            "inputs": keys,
            "output": self.output,
            "providers": list(self.providers),
            "runtime": self.runtime,
            # They tell whether somebody changed the files.
            "sha256": {name: _sha256(data) for name, data in contents.items()},
        }
        contents[_CASE] = json.dumps(case, indent=2, default=str).encode()
        with _files.folder(folder):
            _files.write(
                *(
                    _files.Output(f"`{name}` of the reproducer", os.path.join(folder, name), data)
                    for name, data in contents.items()
                ),
                inputs=inputs,
            )
        return os.path.join(folder, _SCRIPT)

    def _whole_model(self) -> bytes:
        """Return the model with all weights inside."""
        try:
            data: bytes = with_weights(self.model, self.graph.model).SerializeToString()
        except Exception as error:
            raise ConfigError(
                "the reproducer is too large: one ONNX file holds at most 2 GiB"
            ) from error
        return data


def check_folder(folder: str) -> None:
    """Refuse a folder with files other than those of an unchanged reproducer.

    Raises:
        ConfigError: The folder contains something else.
        WriteError: The folder cannot be read.
    """
    try:
        found = os.listdir(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise WriteError(error.errno, error.strerror, folder) from None
    if found and not _is_reproducer(folder, found):
        raise ConfigError(
            f"cannot write a reproducer to `{_core.clean(folder)}`: the folder contains other "
            "files: use a new or an empty folder"
        )


def _is_reproducer(folder: str, found: Sequence[str]) -> bool:
    """Return whether a folder contains only the files of a reproducer, as they were written."""
    if sorted(found) != sorted([_MODEL, _INPUTS, _EXPECTED, _SCRIPT, _CASE]):
        return False
    paths = {name: os.path.join(folder, name) for name in found}
    if any(os.path.islink(path) or not os.path.isfile(path) for path in paths.values()):
        return False
    try:
        if os.path.getsize(paths[_CASE]) > _MAX_CASE:
            return False
        with open(paths[_CASE], encoding="utf-8") as file:
            case = json.load(file)
        if not isinstance(case, dict) or case.get("format") != _FORMAT:
            return False
        hashes = case.get("sha256")
        return isinstance(hashes, dict) and all(
            hashes.get(name) == _sha256_of_file(path)
            for name, path in paths.items()
            if name != _CASE
        )
    except (OSError, ValueError, RecursionError):
        return False


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _sha256_of_file(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _archive(arrays: Mapping[str, Array]) -> bytes:
    file = io.BytesIO()
    plain: dict[str, Any] = {key: _without_objects(array) for key, array in arrays.items()}
    np.savez(file, **plain)
    return file.getvalue()


def _array(array: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, _without_objects(array), allow_pickle=False)
    return file.getvalue()


def _without_objects(array: Array) -> Array:
    """Return texts as an array without Python objects, which NumPy would have to pickle."""
    plain = np.asarray(array)
    return plain.astype(np.str_) if plain.dtype == object else plain
