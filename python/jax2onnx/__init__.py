"""Convert JAX functions to ONNX models in which every node knows its line of Python."""

from typing import TYPE_CHECKING, Any, Final

from ._api import to_onnx
from ._config import provenance
from ._core import PluginInfo, __version__, plugins
from ._errors import (
    ConfigError,
    InputSpecError,
    InternalError,
    Jax2OnnxError,
    Jax2OnnxWarning,
    PluginError,
    SourceMapError,
    UnsupportedError,
    WriteError,
)
from ._plugins.registry import plugin
from ._tracing.onnx_function import onnx_function

if TYPE_CHECKING:
    from ._comparing.allclose import allclose
    from ._comparing.compare import compare
    from ._comparing.nan import NanReport, find_nan
    from ._comparing.report import Report
    from ._inspecting.cost import Cost, cost
    from ._inspecting.explain import Explanation, Finding, Line, explain
    from ._inspecting.placement import Placement, placement
    from ._inspecting.profile import Profile, profile
    from ._inspecting.session import InferenceSession
    from ._inspecting.source_map import Resolution, SourceMap
    from ._inspecting.view import View, view
    from ._precision.lowered import Lowered, LoweredLine, Lowering
    from ._precision.lowering import lower_precision
    from ._precision.sensitivity import SensitiveLine, Sensitivity, sensitivity

__all__ = [
    "ConfigError",
    "Cost",
    "Explanation",
    "Finding",
    "InferenceSession",
    "InputSpecError",
    "InternalError",
    "Jax2OnnxError",
    "Jax2OnnxWarning",
    "Line",
    "Lowered",
    "LoweredLine",
    "Lowering",
    "NanReport",
    "Placement",
    "PluginError",
    "PluginInfo",
    "Profile",
    "Report",
    "Resolution",
    "SensitiveLine",
    "Sensitivity",
    "SourceMap",
    "SourceMapError",
    "UnsupportedError",
    "View",
    "WriteError",
    "__version__",
    "allclose",
    "compare",
    "cost",
    "explain",
    "find_nan",
    "lower_precision",
    "onnx_function",
    "placement",
    "plugin",
    "plugins",
    "profile",
    "provenance",
    "sensitivity",
    "to_onnx",
    "view",
]


#: The modules of what an export does not need. They are imported on first use.
_LAZY: Final = {
    "Cost": "_inspecting.cost",
    "Explanation": "_inspecting.explain",
    "Finding": "_inspecting.explain",
    "InferenceSession": "_inspecting.session",
    "Line": "_inspecting.explain",
    "NanReport": "_comparing.nan",
    "Placement": "_inspecting.placement",
    "Profile": "_inspecting.profile",
    "Report": "_comparing.report",
    "Resolution": "_inspecting.source_map",
    "Lowered": "_precision.lowered",
    "LoweredLine": "_precision.lowered",
    "Lowering": "_precision.lowered",
    "SensitiveLine": "_precision.sensitivity",
    "Sensitivity": "_precision.sensitivity",
    "SourceMap": "_inspecting.source_map",
    "View": "_inspecting.view",
    "allclose": "_comparing.allclose",
    "compare": "_comparing.compare",
    "cost": "_inspecting.cost",
    "explain": "_inspecting.explain",
    "find_nan": "_comparing.nan",
    "lower_precision": "_precision.lowering",
    "placement": "_inspecting.placement",
    "profile": "_inspecting.profile",
    "sensitivity": "_precision.sensitivity",
    "view": "_inspecting.view",
}


def __getattr__(name: str) -> Any:
    """Import a name of `_LAZY`."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f".{_LAZY[name]}", __name__)
    globals()[name] = value = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
