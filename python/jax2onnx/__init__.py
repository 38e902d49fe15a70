"""Convert JAX functions to ONNX models in which every node knows its line of Python."""

from typing import TYPE_CHECKING, Any

from ._api import to_onnx
from ._comparing.allclose import allclose
from ._config import provenance
from ._core import PluginInfo, __version__, plugins
from ._errors import (
    ConfigError,
    InputSpecError,
    InternalError,
    Jax2OnnxError,
    PluginError,
    SourceMapError,
    UnsupportedError,
    WriteError,
)
from ._inspecting.explain import Explanation, Finding, Line, explain
from ._inspecting.profile import Profile, profile
from ._inspecting.source_map import Resolution, SourceMap
from ._plugins.registry import plugin
from ._tracing.onnx_function import onnx_function

if TYPE_CHECKING:
    from ._inspecting.session import InferenceSession as InferenceSession

__all__ = [
    "ConfigError",
    "Explanation",
    "Finding",
    "InputSpecError",
    "InternalError",
    "Jax2OnnxError",
    "Line",
    "PluginError",
    "PluginInfo",
    "Profile",
    "Resolution",
    "SourceMap",
    "SourceMapError",
    "UnsupportedError",
    "WriteError",
    "__version__",
    "allclose",
    "explain",
    "onnx_function",
    "plugin",
    "plugins",
    "profile",
    "provenance",
    "to_onnx",
]


def __getattr__(name: str) -> Any:
    """Import `InferenceSession`, which needs ONNX Runtime, on first use."""
    if name != "InferenceSession":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from ._inspecting.session import InferenceSession
    except ImportError as error:
        raise ConfigError(
            "`InferenceSession` needs ONNX Runtime: pip install 'jax2onnx-rs[runtime]'"
        ) from error
    return InferenceSession
