"""Run parts of models in ONNX Runtime."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx

from .._errors import ConfigError
from .._words import quoted
from .arrays import Array
from .models import Loaded
from .runtime import AS_BITS, onnxruntime_for, to_numpy

#: ONNX Runtime's names of the element types of tensors that Python can hold.
_TYPES: Final = {
    "float": "float32",
    "double": "float64",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
}


class Runner:
    """A model in ONNX Runtime.

    Attributes:
        types: The type of each output that is a tensor of a type that NumPy has.
    """

    def __init__(
        self,
        model: onnx.ModelProto | str,
        loaded: Loaded,
        *,
        optimize: bool = True,
        providers: Sequence[Any] = ("CPUExecutionProvider",),
        disabled: Sequence[str] = (),
    ) -> None:
        """Load the model; the files of its weights are those of `loaded`."""
        runtime = onnxruntime_for("compare")
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if not optimize:
            options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.add_session_config_entry("session.disable_prepacking", "1")
        if loaded.folder is not None:
            options.add_session_config_entry(
                "session.model_external_initializers_file_folder_path", loaded.folder
            )
        source = model if isinstance(model, str) else model.SerializeToString()
        self._runtime = runtime
        self._session = runtime.InferenceSession(
            source, options, providers=list(providers), disabled_optimizers=list(disabled)
        )
        self.types = {
            value.name: dtype
            for value in self._session.get_outputs()
            if (dtype := _dtype(value.type)) is not None
        }
        self.ranks = {
            value.name: None if value.shape is None else len(value.shape)
            for value in self._session.get_outputs()
        }
        self._fed = {value.name: _dtype(value.type) for value in self._session.get_inputs()}
        self._names = list(self.types)
        self._is_plain = not any(
            dtype in AS_BITS for dtype in (*self.types.values(), *self._fed.values())
        )

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Compute all outputs that are tensors, by name."""
        fed = {name: feeds[name] for name in self._fed}
        if self._is_plain:
            return dict(zip(self._names, self._session.run(self._names, fed), strict=True))
        binding = self._session.io_binding()
        for name, array in fed.items():
            known = np.require(array, requirements="C")
            bits = known.view(AS_BITS.get(known.dtype) or known.dtype)
            code = onnx.helper.np_dtype_to_tensor_dtype(known.dtype)
            make = self._runtime.OrtValue.ortvalue_from_numpy_with_onnx_type
            binding.bind_ortvalue_input(name, make(bits, code))
        for name in self._names:
            binding.bind_output(name)
        self._session.run_with_iobinding(binding)
        codes = [onnx.helper.np_dtype_to_tensor_dtype(self.types[name]) for name in self._names]
        return {
            name: to_numpy(value, code)
            for name, value, code in zip(self._names, binding.get_outputs(), codes, strict=True)
        }


def tensor_type(dtype: Any, shape: Sequence[int] | None = None) -> onnx.TypeProto:
    """Return the type of an input."""
    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    kind = onnx.TypeProto()
    kind.tensor_type.elem_type = code
    if shape is not None:
        for size in shape:
            kind.tensor_type.shape.dim.add(dim_value=size)
        if not shape:
            kind.tensor_type.shape.SetInParent()
    return kind


def check_providers(providers: Sequence[Any]) -> None:
    """Refuse providers that this ONNX Runtime does not have."""
    from .._words import did_you_mean

    known = onnxruntime_for("compare").get_available_providers()
    for provider in providers:
        name = provider[0] if isinstance(provider, tuple) else provider
        if name not in known:
            hint = did_you_mean(name, known, ": ") or f": it has {', '.join(known)}"
            raise ConfigError(f"this ONNX Runtime has no provider {quoted(name)}{hint}")


def _dtype(kind: str) -> np.dtype[Any] | None:
    """Return the type of the elements of a tensor; None if NumPy has none."""
    import ml_dtypes

    if not kind.startswith("tensor("):
        return None
    name = kind[len("tensor(") : -1]
    name = _TYPES.get(name, name)
    if name == "string":
        return np.dtype(object)
    if name.startswith(("int4", "uint4", "int2", "uint2", "float4")):
        return None
    known: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name, name))
    return known
