"""Wrap ONNX Runtime's session so that exceptions show the lines and inputs of the user."""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._errors import ConfigError, InputSpecError, Jax2OnnxWarning
from .._native import imported
from .._types import StrPath
from .explain import explain, path_or_bytes
from .feeds import Feeds

try:
    imported("onnxruntime")
    from onnxruntime import InferenceSession as _Session
except ImportError:

    class _Session:  # type: ignore[no-redef]
        """Stands for ONNX Runtime's session, so that `from jax2onnx import *` needs no runtime."""

        def __init__(self, *_args: Any, **_kwargs: Any) -> None:
            raise ConfigError(
                "`InferenceSession` needs ONNX Runtime: pip install 'jax2onnx-rs[runtime]'"
            )


if TYPE_CHECKING:
    from .explain import Model


class InferenceSession(_Session):  # type: ignore[misc]
    """Runs a model in ONNX Runtime, and shows your lines and wrong inputs if a run fails.

    Use it like `onnxruntime.InferenceSession`, which is its base class. It also accepts an
    `onnx.ModelProto`. If ONNX Runtime fails because an input has a wrong name, type, rank or size,
    the session raises an `InputSpecError` that describes the mistake. The exception is also an
    instance of the class that ONNX Runtime raised. The session never rejects an input that ONNX
    Runtime accepts.

    Args:
        model: The path of the model, an `onnx.ModelProto`, or bytes.
        args: Positional arguments of `onnxruntime.InferenceSession`.
        source_map: The source map of the model, by default `<model>.map`.
        source_roots: Folders with source files, in addition to the current directory.
        kwargs: Keyword arguments of `onnxruntime.InferenceSession`.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax2onnx
        >>> import numpy as np
        >>> model = jax2onnx.to_onnx(jnp.negative, ["x=f32[B]"])
        >>> session = jax2onnx.InferenceSession(model)
        >>> session.run(None, {"x": np.ones(2, np.float32)})
        [array([-1., -1.], dtype=float32)]
        >>> try:
        ...     session.run(None, {"x": np.ones(2)})
        ... except jax2onnx.InputSpecError as error:
        ...     print(str(error).splitlines()[0])
        `x` is float64[2], but the model takes float32[B]
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
        self._feeds = Feeds(self.get_inputs(), self.get_outputs())

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> Any:
        """Run the model.

        Args:
            output_names: The names of the outputs to compute, or None for all outputs.
            input_feed: The inputs, by name.
            run_options: The `onnxruntime.RunOptions` of this run.

        Returns:
            The outputs, in the order of `output_names` or of the model.
        """
        try:
            results = super().run(output_names, input_feed, run_options)
        except Exception as error:
            self._raise_mistakes(error, output_names, input_feed)
            raise
        conflict = self._feeds.conflict(input_feed)
        if conflict is not None:
            warnings.warn(conflict, Jax2OnnxWarning, stacklevel=2)
        return results

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None:
        """Run the model with inputs and outputs that are bound to memory."""
        with self._explain:
            super().run_with_iobinding(iobinding, run_options)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, Any],
        run_options: Any = None,
    ) -> Any:
        """Run the model with `OrtValue`s, which may be on a device."""
        try:
            return super().run_with_ort_values(output_names, input_dict_ort_values, run_options)
        except Exception as error:
            self._raise_mistakes(error, output_names, input_dict_ort_values)
            raise

    def _raise_mistakes(
        self, error: Exception, output_names: Sequence[str] | None, feed: Any
    ) -> None:
        """Explain an exception. If something is wrong with the feed, raise one that says so."""
        self._explain.annotate(error)
        mistakes = self._feeds.mistakes(output_names, feed)
        if mistakes:
            raised = _input_error(type(error))("\n".join([*mistakes, str(error)]))
            for note in getattr(error, "__notes__", ()):
                raised.add_note(note)
            raise raised from None


def _input_error(kind: type[Exception]) -> type[Exception]:
    """Return an `InputSpecError` that is also a class of ONNX Runtime."""
    if issubclass(InputSpecError, kind):
        return InputSpecError
    return type(InputSpecError.__name__, (InputSpecError, kind), {"__module__": "jax2onnx"})
