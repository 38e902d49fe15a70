"""The Rust core."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar, final

from ._cells import Find
from ._options import ExportOptions, Frame
from ._tiers import TierRules

__all__ = [
    "AssumptionError",
    "CoreError",
    "Parts",
    "PluginInfo",
    "Resolver",
    "__version__",
    "check_outputs",
    "clean",
    "clean_lines",
    "cost_summary",
    "explain_log",
    "export",
    "inside",
    "jaxpr_text",
    "locate_weights",
    "main",
    "model_inputs",
    "model_lines",
    "operators",
    "options",
    "placement_summary",
    "plugins",
    "profile_summary",
    "read_input",
    "recorded_calls",
    "restoring",
    "rewrites",
    "target_opset",
    "view_page",
    "worth",
    "write_files",
]

__version__: str

_T = TypeVar("_T")

class AssumptionError(Exception):
    """Raised if what was assumed of large weights is wrong."""

class CoreError(Exception):
    """The name of a class of `_errors`, and its arguments."""

@final
class Parts:
    """Leaves out the attributes that hold nothing."""

    def __new__(cls, is_plain: Callable[[type], bool], hidden: Sequence[str]) -> Parts: ...
    def of(self, attributes: dict[Any, Any]) -> list[tuple[str, Any]]: ...

def inside(managers: Sequence[AbstractContextManager[Any]], body: Callable[[], _T]) -> _T:
    """Call a function inside context managers."""

def restoring(body: Callable[[], _T], restore: Callable[[], None]) -> _T:
    """Call a function, and then another one that restores what it changes."""

def options() -> list[dict[str, Any]]:
    """Return the rows of the table of options."""

def target_opset(names: Sequence[str]) -> int | None:
    """Return the newest opset that all runtimes load.

    Raises:
        ValueError: A name stands for no runtime.
    """

def export(
    closed_jaxpr: object, options: ExportOptions, *, without: str | None = None
) -> bytes | None: ...
def rewrites() -> list[str]: ...
def worth(
    closed_jaxpr: object, options: ExportOptions
) -> tuple[int, list[tuple[str, int, int]]]: ...
def explain_log(
    model: str | bytes,
    log: str,
    *,
    source_map: str | None = None,
    source_roots: Sequence[str] = ...,
) -> tuple[str, str, bool]: ...
def model_lines(
    model: str | bytes,
    *,
    source_map: str | None = None,
    source_roots: Sequence[str] = ...,
) -> str:
    """The lines of all nodes and weights, as JSON."""

def view_page(
    model: str | bytes,
    *,
    has_source: bool = ...,
    profile: str | None = None,
    report: str | None = None,
    sensitivity: str | None = None,
    cost: Mapping[str, int] | None = None,
    against: str | bytes | None = None,
    source_map: str | None = None,
    source_roots: Sequence[str] = ...,
) -> tuple[str, list[tuple[str, str]]]: ...
def placement_summary(
    model: str | bytes,
    assigned: Sequence[tuple[str, str, str]],
    *,
    is_optimized: bool,
    top: int,
    source_map: str | None = None,
    exported: str | None = None,
    source_roots: Sequence[str] = ...,
) -> tuple[str, str]: ...
def cost_summary(
    model: str | bytes,
    sizes: Mapping[str, int],
    *,
    by: str,
    order: str,
    top: int,
    profile: str | None = None,
    warmup: int | None = None,
    machine: tuple[float, float] | None = None,
    source_map: str | None = None,
    source_roots: Sequence[str] = ...,
) -> tuple[str, str, str | None]: ...
def profile_summary(
    model: str | bytes,
    profile: str,
    *,
    by: str,
    top: int,
    warmup: int | None = None,
    assigned: Sequence[tuple[str, str, str]] | None = None,
    source_map: str | None = None,
    exported: str | None = None,
    source_roots: Sequence[str] = ...,
) -> tuple[str, str, str, str, str, list[tuple[str, str]]]: ...
def jaxpr_text(
    closed_jaxpr: object,
    *,
    tiers: TierRules,
    names: Mapping[Hashable, str] | None = None,
) -> str: ...
def check_outputs(
    outputs: Sequence[tuple[str, str]], inputs: Sequence[tuple[str, str]]
) -> None: ...
def write_files(
    outputs: Sequence[tuple[str, str, bytes]], inputs: Sequence[tuple[str, str]]
) -> None: ...
def model_inputs(
    model: str,
    *,
    what: str,
    source_map: str | None = None,
    source_roots: Sequence[str] = ...,
) -> list[tuple[str, str]]: ...
def locate_weights(folder: str, location: str) -> str: ...
def clean(text: str) -> str: ...
def clean_lines(text: str) -> str: ...
def recorded_calls(
    closed_jaxpr: object,
    *,
    tiers: TierRules,
    path_policy: str,
    definition: Frame | None = None,
    cells: Find | None = None,
) -> str: ...

@final
class PluginInfo:
    """Describes a primitive that jax2onnx converts.

    Attributes:
        primitive: The name of the primitive.
        name: The name of its plugin, as in the metadata of a model.
        file: The source file of the plugin.
        line: The line of the plugin in the file.
        limits: What the plugin does not support, one sentence each.
        ops: The ONNX operators that the plugin may emit.
        complex_ops: Further operators that it may emit for complex numbers.
    """

    primitive: str
    name: str
    file: str
    line: int
    limits: list[str]
    ops: list[str]
    complex_ops: list[str]

@final
class Resolver:
    """A source map, and what answers with it."""

    debug_id: str
    #: For each file of the table: its name, its hash, its text.
    sources: list[tuple[str, str | None, str | None]]

    @staticmethod
    def of_map(text: str) -> Resolver: ...
    @staticmethod
    def of_model(model: bytes) -> Resolver: ...
    def table(self) -> str:
        """The provenance table, as JSON."""
    def nodes(self) -> list[tuple[str, str, int | None]]:
        """The name, the operator and the origin of each node."""
    def resolve(self, name: str) -> tuple[str, list[int]]:
        """How sure the answer is, and the numbers of the origins."""
    def resolve_model(self, model: bytes) -> list[tuple[str, str, list[str], str, list[int]]]:
        """For each node its name, its operator, its outputs, and the answer."""

def operators(property: str) -> list[str]:
    """List the operators of ONNX that are `exact`, `rounds_once` or `quantized`."""

def plugins() -> list[PluginInfo]:
    """List the primitives that jax2onnx converts, with their operators and limits.

    Examples:
        >>> import jax2onnx
        >>> {plugin.primitive: plugin.ops for plugin in jax2onnx.plugins()}["floor"]
        ['Cast', 'Floor']
    """

def read_input(text: str) -> tuple[str | None, tuple[str, tuple[int | str, ...]]]:
    """Read an input spec such as `x=f32[B,784]`."""

def main(arguments: Sequence[str], python: Callable[..., int] | None = None) -> int: ...
