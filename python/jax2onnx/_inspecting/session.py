"""Wrap ONNX Runtime's session, so that its exceptions show the user's lines and inputs."""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._config import StrPath
from .._errors import ConfigError, InputSpecError, Jax2OnnxWarning
from .explain import explain, path_or_bytes
from .feeds import Feeds

try:
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
    """A session of ONNX Runtime whose exceptions show your lines and what is wrong with the inputs.

    Use it like `onnxruntime.InferenceSession`. It also accepts an `onnx.ModelProto`. It computes
    everything that ONNX Runtime computes. If ONNX Runtime fails because of a name, a type, a rank
    or a size that does not fit the model, the exception is an `InputSpecError` that says so. It is
    also of the class that ONNX Runtime raised.

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
        self._feeds = Feeds(self.get_inputs(), self.get_outputs())

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> Any:
        """Compute the outputs."""
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
