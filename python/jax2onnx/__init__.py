"""Turn a JAX function into an ONNX model in which every node knows its line of Python."""

from ._allclose import allclose
from ._api import to_onnx
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
from ._function import onnx_function
from ._plugin import plugin
from ._source_map import Resolution, SourceMap

__all__ = [
    "ConfigError",
    "InputSpecError",
    "InternalError",
    "Jax2OnnxError",
    "PluginError",
    "PluginInfo",
    "Resolution",
    "SourceMap",
    "SourceMapError",
    "UnsupportedError",
    "WriteError",
    "__version__",
    "allclose",
    "onnx_function",
    "plugin",
    "plugins",
    "provenance",
    "to_onnx",
]
