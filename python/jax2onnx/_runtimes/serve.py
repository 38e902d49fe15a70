"""Run models in one runtime: `python serve.py NAME [PROVIDER …]`.

The process reads one line per run from standard input, the path of a folder, and answers with one
line of JSON on standard output. An empty line asks for the version: `{"version": …}`.

A folder contains `model.onnx`, `inputs.json` with the name, type and shape of each input in order,
`outputs.json` with the names of the outputs, and the elements of input `i` in `input_i.bin`. The
answer is `{"outputs": [{"dtype": …, "shape": …}]}`, with the elements in `output_i.bin`, or
`{"error": …, "log": …}`, where the log is what a program shows that does not catch the error. If
the runtime runs models on a GPU, the answer also has `"fallback"`, the operators that stay on the
CPU. The process keeps a model loaded as long as its file does not change.

This file needs nothing but NumPy and the runtime, because other interpreters run it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
Run: TypeAlias = Callable[[dict[str, Array]], list[Array]]

#: The operators of a loaded model that stay on the CPU, for a runtime that runs models on a GPU.
_FALLBACK: Final[WeakKeyDictionary[Run, list[str]]] = WeakKeyDictionary()
#: How many models stay loaded, and how many on a GPU, where each takes memory.
_KEPT: Final = 64
_KEPT_ON_GPU: Final = 4
#: The numbers that ONNX gives to types that NumPy lacks, and NumPy's type with the same bits.
_AS_BITS: Final = {
    "bfloat16": (16, np.uint16),
    "float8_e4m3fn": (17, np.uint8),
    "float8_e4m3fnuz": (18, np.uint8),
    "float8_e5m2": (19, np.uint8),
    "float8_e5m2fnuz": (20, np.uint8),
}


def load_onnxruntime(model: Path) -> Run:
    """Load a model in ONNX Runtime, with its optimizations on."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    providers = sys.argv[2:] or ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(str(model), options, providers=providers)
    return _runner(session)


def load_onnxruntime_cuda(model: Path) -> Run:
    """Load a model in ONNX Runtime with CUDA, in the precision of the model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    cuda, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
    providers = [(cuda, {"use_tf32": "0"}), cpu]
    session = onnxruntime.InferenceSession(str(model), options, providers=providers)
    if cuda not in session.get_providers():
        raise ValueError("ONNX Runtime cannot load its CUDA provider")
    parts = session.get_provider_graph_assignment_info()
    run = _runner(session)
    _FALLBACK[run] = [
        node.op_type for each in parts if each.ep_name == cpu for node in each.get_nodes()
    ]
    return run


def _runner(session: Any) -> Run:
    import onnxruntime

    types = {f"tensor({name.replace('_', '')})": name for name in _AS_BITS}
    results = [(value.name, types.get(value.type)) for value in session.get_outputs()]

    def run(inputs: dict[str, Array]) -> list[Array]:
        is_plain = not any(each.dtype.name in _AS_BITS for each in inputs.values())
        if is_plain and not any(short for _, short in results):
            found: list[Array] = session.run(None, inputs)
            return found
        binding = session.io_binding()
        for name, array in inputs.items():
            code, bits = _AS_BITS.get(array.dtype.name, (None, array.dtype))
            make = onnxruntime.OrtValue
            value = (
                make.ortvalue_from_numpy(array)
                if code is None
                else make.ortvalue_from_numpy_with_onnx_type(array.view(bits), code)
            )
            binding.bind_ortvalue_input(name, value)
        for name, _ in results:
            binding.bind_output(name)
        session.run_with_iobinding(binding)
        return [
            value.numpy() if short is None else _bits_of(value, short)
            for value, (_, short) in zip(binding.get_outputs(), results, strict=True)
        ]

    return run


def _bits_of(value: Any, name: str) -> Array:
    dtype, shape = _dtype(name), tuple(value.shape())
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    data = ctypes.string_at(value.data_ptr(), size) if size else b""
    return np.frombuffer(data, dtype).reshape(shape)


def load_openvino(model: Path) -> Run:
    """Load a model in OpenVINO on the CPU, in the precision of the model."""
    import openvino

    core = openvino.Core()
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    compiled = core.compile_model(core.read_model(model), "CPU")
    # OpenVINO drops inputs that no node reads.
    known = {name for each in compiled.inputs for name in each.names}

    shorts = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
    types = {name: kind for kind, name in shorts.items()}

    def tensor(array: Array) -> Any:
        kind = types.get(array.dtype.name)
        if kind is None:
            return array
        made = openvino.Tensor(getattr(openvino.Type, kind), list(array.shape))
        bits = _AS_BITS[array.dtype.name][1]
        made.data.view(bits)[...] = array.view(bits)
        return made

    def result(output: Any, array: Array) -> Array:
        # OpenVINO returns numbers of types that NumPy lacks as others with as many bits.
        name = shorts.get(output.element_type.get_type_name())
        return array if name is None else array.view(_AS_BITS[name][1]).view(_dtype(name))

    def run(inputs: dict[str, Array]) -> list[Array]:
        results = compiled({name: tensor(each) for name, each in inputs.items() if name in known})
        return [result(output, results[output]) for output in compiled.outputs]

    return run


def load_reference(model: Path) -> Run:
    """Load a model in the reference evaluator of the `onnx` package."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(model))

    def run(inputs: dict[str, Array]) -> list[Array]:
        return list(evaluator.run(None, inputs))

    return run


def load_iree(model: Path) -> Run:
    """Compile a model with IREE for the CPU."""
    import onnx
    from iree import compiler, runtime
    from iree.compiler.tools.import_onnx import __main__ as importer

    # IREE's integers have no sign, so that it may return `uint32` as `int32` with the same bits.
    graph = onnx.load(str(model), load_external_data=False).graph
    codes = [value.type.tensor_type.elem_type for value in graph.output]
    types = [onnx.helper.tensor_dtype_to_np_dtype(code) for code in codes]
    text = model.with_suffix(".mlir")
    importer.main(importer.parse_arguments([str(model), "-o", str(text)]))
    binary = compiler.compile_file(
        str(text),
        input_type="onnx",
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host"],
    )
    config = runtime.Config("local-sync")
    module = runtime.VmModule.copy_buffer(config.vm_instance, binary)
    context = runtime.SystemContext(config=config)
    context.add_vm_module(module)
    loaded = context.modules[module.name]
    names = [name for name in module.function_names if name != "__init"]
    entry = next(name for name in names if not name.endswith("$async"))

    def run(inputs: dict[str, Array]) -> list[Array]:
        results = loaded[entry](*inputs.values())
        several = results if isinstance(results, list | tuple) else [results]
        # A view of an array of IREE does not keep the memory of the array.
        hosted = [np.array(each.to_host()) for each in several]
        return [
            each.view(dtype) if _differ_in_sign(each.dtype, dtype) else each
            for each, dtype in zip(hosted, types, strict=True)
        ]

    return run


def _differ_in_sign(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    return {one.kind, other.kind} == {"i", "u"} and one.itemsize == other.itemsize


def load_mnn(model: Path) -> Run:
    """Convert a model to MNN's format, and load it."""
    import resource

    import _tools
    from MNN import expr, nn

    # A number that MNN takes for a size must not use up the memory of the machine.
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    model = model.resolve()
    converted = model.with_suffix(".mnn")
    converted.unlink(missing_ok=True)
    # If the converter dies, it leaves files in the working directory.
    os.chdir(model.parent)
    _tools.mnnconvert(["", "-f", "ONNX", "--modelFile", str(model), "--MNNModel", str(converted)])
    if not converted.exists():
        raise ValueError("the converter wrote no file")
    folder = model.parent
    inputs = [one["name"] for one in json.loads((folder / "inputs.json").read_text("utf-8"))]
    outputs = json.loads((folder / "outputs.json").read_text("utf-8"))
    loaded = nn.load_module_from_file(str(converted), inputs, outputs)
    kinds = {"float32": expr.float, "int32": expr.int, "uint8": expr.uint8}

    def variable(array: Array) -> Any:
        kind = array.dtype.name
        if kind not in kinds:
            kind = "int32" if array.dtype.kind in "biu" else "float32"
            cast = array.astype(kind)
            if not np.array_equal(cast.astype(array.dtype), array, equal_nan=kind == "float32"):
                raise ValueError(f"MNN has no tensors of {array.dtype.name}")
            array = cast
        return expr.const(array, list(array.shape), expr.NCHW, kinds[kind])

    def run(inputs: dict[str, Array]) -> list[Array]:
        results = loaded.forward([variable(each) for each in inputs.values()])
        return [np.asarray(each.read()) for each in results]

    return run


#: How to load a model, and the module that has the version.
_LOADERS: Final[dict[str, tuple[Callable[[Path], Run], str]]] = {
    "onnxruntime": (load_onnxruntime, "onnxruntime"),
    "onnxruntime-cuda": (load_onnxruntime_cuda, "onnxruntime"),
    "openvino": (load_openvino, "openvino"),
    "onnx.reference": (load_reference, "onnx"),
    "iree": (load_iree, "iree.compiler"),
    "mnn": (load_mnn, "MNN"),
}


def _dtype(name: str) -> np.dtype[Any]:
    if name not in _AS_BITS:
        return np.dtype(name)
    import ml_dtypes

    short: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return short


def _version(module: str) -> str:
    __import__(module)
    return str(getattr(sys.modules[module], "__version__", ""))


def _inputs(folder: Path) -> dict[str, Array]:
    described = json.loads((folder / "inputs.json").read_text("utf-8"))
    return {
        one["name"]: np.fromfile(folder / f"input_{i}.bin", _dtype(one["dtype"])).reshape(
            one["shape"]
        )
        for i, one in enumerate(described)
    }


def _answer(folder: Path, kept: OrderedDict[Any, Run], load: Callable[[Path], Run]) -> Any:
    model = folder / "model.onnx"
    key = folder, model.stat().st_mtime_ns
    if key not in kept:
        kept[key] = load(model)
    kept.move_to_end(key)
    if len(kept) > (_KEPT_ON_GPU if _FALLBACK else _KEPT):
        kept.popitem(last=False)
    outputs = [np.asarray(each) for each in kept[key](_inputs(folder))]
    for i, each in enumerate(outputs):
        np.ascontiguousarray(each).tofile(folder / f"output_{i}.bin")
    described = [{"dtype": each.dtype.name, "shape": each.shape} for each in outputs]
    fallback = _FALLBACK.get(kept[key])
    return {"outputs": described} | ({} if fallback is None else {"fallback": fallback})


def main() -> None:
    """Answer until standard input ends."""
    # The output of a runtime must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    load, module = _LOADERS[sys.argv[1]]
    kept: OrderedDict[Any, Run] = OrderedDict()
    for line in sys.stdin:
        text = line.strip()
        try:
            answer = _answer(Path(text), kept, load) if text else {"version": _version(module)}
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            answer = {"error": said, "log": traceback.format_exc()}
        with contextlib.suppress(Exception):
            # The output of a runtime must be in its file before the answer.
            ctypes.CDLL(None).fflush(None)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
