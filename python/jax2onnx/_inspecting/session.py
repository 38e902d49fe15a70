"""ONNX Runtime's session, with the lines of the user in its exceptions."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnxruntime

from .._config import StrPath
from .explain import explain, path_or_bytes

if TYPE_CHECKING:
    from .explain import Model


class InferenceSession(onnxruntime.InferenceSession):  # type: ignore[misc]
    """A session of ONNX Runtime whose exceptions show the line of the user.

    It is used as `onnxruntime.InferenceSession` is, and takes an `onnx.ModelProto` too.

    Args:
        model: The path of the model, a model, or its bytes.
        args: As of `onnxruntime.InferenceSession`.
        source_map: The source map of the model, where it is not `<model>.map`.
        source_roots: Where to look for source files, beside the current directory.
        kwargs: As of `onnxruntime.InferenceSession`.
    """

    __module__ = "jax2onnx"

    def __init__(
        self,
        model: "Model",
        *args: Any,
        source_map: StrPath | None = None,
        source_roots: Sequence[StrPath] = (),
        **kwargs: Any,
    ) -> None:
        """Load the model."""
        source = path_or_bytes(model)
        self._explain = explain(source, source_map=source_map, source_roots=source_roots)
        with self._explain:
            super().__init__(source, *args, **kwargs)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> Any:
        """Compute the outputs."""
        with self._explain:
            return super().run(output_names, input_feed, run_options)

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None:
        """Compute what is bound."""
        with self._explain:
            super().run_with_iobinding(iobinding, run_options)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, Any],
        run_options: Any = None,
    ) -> Any:
        """Compute the outputs of values that are on a device."""
        with self._explain:
            return super().run_with_ort_values(output_names, input_dict_ort_values, run_options)
