"""Wrap ONNX Runtime's session, so that its exceptions show the user's lines."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnxruntime

from .._config import StrPath
from .explain import explain, path_or_bytes

if TYPE_CHECKING:
    from .explain import Model


class InferenceSession(onnxruntime.InferenceSession):  # type: ignore[misc]
    """A session of ONNX Runtime whose exceptions show your lines.

    Use it like `onnxruntime.InferenceSession`. It also accepts an `onnx.ModelProto`.

    Args:
        model: The path of the model, an `onnx.ModelProto`, or bytes.
        args: Arguments of `onnxruntime.InferenceSession`.
        source_map: The source map of the model, by default `<model>.map`.
        source_roots: Folders with source files, in addition to the current directory.
        kwargs: Keyword arguments of `onnxruntime.InferenceSession`.
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
        """Compute the bound outputs."""
        with self._explain:
            super().run_with_iobinding(iobinding, run_options)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, Any],
        run_options: Any = None,
    ) -> Any:
        """Compute the outputs from values on a device."""
        with self._explain:
            return super().run_with_ort_values(output_names, input_dict_ort_values, run_options)
