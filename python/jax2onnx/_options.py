"""The options of an export, as the core reads them."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from . import _cells
from ._pairs import Pair
from ._settings import DEFAULTS
from ._tiers import TierRules
from ._types import Settings

Frame: TypeAlias = tuple[str, int, str]
"""The file, the line and the qualified name of a function."""

EXTERNAL_THRESHOLD: Final = 1 << 30
"""How many bytes of weights a model holds by default. Protobuf allows twice as many."""


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Everything that an export needs besides the jaxpr.

    `crates/python/src/options.rs` reads each field. A field that only one side knows is an error.
    """

    #: The options of the user. The table of `crates/options` says which of them the core reads.
    settings: Settings = DEFAULTS
    #: Which files are the user's, and which are a library's.
    tiers: TierRules
    #: Where the exported function is defined.
    definition: Frame | None = None
    #: The names of the function's arrays, by the identity that `_tracing.weights.identity` returns.
    weight_names: Mapping[Hashable, str] | None = None
    #: The primitives that have plugins, and the function that runs these plugins.
    plugins: Mapping[str, Any] | None = None
    #: Is called with each equation whose primitive has no plugin. Returns the jaxpr of the
    #: primitive's definition, the reason why there is none, or `None`.
    define: Callable[[Any], Any] | None = None
    #: Finds the cells of a notebook, if the program runs in one.
    cells: _cells.Find | None = None

    input_names: Sequence[str] = ()
    output_names: Sequence[str] = ()
    #: The paths of the inputs in the arguments, and of the outputs in the result.
    input_paths: Sequence[str] = ()
    output_paths: Sequence[str] = ()
    #: Whether to read large weights at once. If not, passes assume that no product overflows or
    #: loses digits and that no weight is extremely large, and the core raises `AssumptionError`
    #: when it writes a model for which that is wrong.
    checks_weights: bool = False
    #: Is called with the name of each phase of the passes before it runs.
    on_phase: Callable[[str], object] | None = None
    #: Is called with the jaxpr if it draws random numbers or computes what nothing reads. Then a
    #: layer may be in training mode.
    on_training: Callable[[Any], object] | None = None
    #: Is called with the lines of callbacks that are not part of the model, if there are any.
    on_dropped: Callable[[Sequence[str]], object] | None = None
    #: Is called with the report on the passes.
    explain: Callable[[str], object] | None = None
    #: Is called with what holds each variable of the jaxpr.
    on_pairs: Callable[[Sequence[Pair]], object] | None = None
    #: Is called with a summary of the model, which is then not written.
    summarize: Callable[[Mapping[str, Any]], object] | None = None

    #: The Python stack that called the export, outermost frame first.
    export_stack: Sequence[Frame] = ()

    #: Where to write the model. Without a path, the export returns the model.
    output_path: str | None = None
    #: How many bytes of weights the file of the model may hold.
    external_threshold: int = EXTERNAL_THRESHOLD
    #: Where to write the source map.
    source_map: str | None = None
    #: The files that the program consists of, each with its name in messages. No file may replace
    #: one of them.
    inputs: Sequence[tuple[str, str]] = ()
