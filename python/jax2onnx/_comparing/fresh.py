"""Export a function again, with the settings of a model that was exported from it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import onnx

from .. import _progress
from .._errors import InputSpecError
from .inputs import described
from .models import Loaded
from .runtime import sizes_of

if TYPE_CHECKING:
    from .arrays import Array
    from .graphs import Graph

#: Metadata of a model that leaves out what NaNs need.
_NAN: Final = "pkg.jax2onnx.nan"
_WIDE_TYPES: Final = (
    onnx.TensorProto.DOUBLE,
    onnx.TensorProto.INT64,
    onnx.TensorProto.UINT64,
)


@dataclass(frozen=True)
class Fresh:
    """A new export of a function.

    Attributes:
        model: The model, with provenance.
        feeds: The inputs of the model, by name.
        oracle: Knows what JAX computes.
    """

    model: Loaded
    feeds: "dict[str, Array]"
    oracle: "Results"


class Results:
    """Knows the results of JAX, as the outputs of the main graph."""

    def __init__(self, results: "Mapping[str, Array]") -> None:
        """Keep the results, by the name of the output."""
        self._results = results
        self.given: dict[Any, frozenset[str]] = {(): frozenset(results)}

    def values(self) -> "Mapping[str, Array]":
        """Return the results by name."""
        return self._results

    def body(self, graph: "Graph", iteration: int | None) -> None:
        """Know nothing about bodies."""


def exported_again(
    fn: Callable[..., Any],
    model: Loaded,
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    double: bool | None,
) -> Fresh:
    """Export a function with the names, sizes and opset of a model, and run it in JAX.

    Raises:
        InputSpecError: The inputs do not fit the function or the model.
    """
    from .. import _api
    from .._tracing.binding import bound
    from .._tracing.compat import double_precision_kept
    from . import reference
    from .inputs import feeds_of

    graph = model.proto.graph
    if double is None:
        declared = [value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)]
        double = any(code in _WIDE_TYPES for code in declared)
    with double_precision_kept(double):
        params: dict[str, Any] = {}
        if isinstance(inputs, Mapping):
            positional, params, _ = bound(fn, list(inputs.items()))
        else:
            positional = list(inputs)
        names = sorted(params)
        leaves = reference.leaves([positional, [params[name] for name in names]])
        weights = {tensor.name for tensor in graph.initializer}
        taken = [value for value in graph.input if value.name not in weights]
        if len(leaves) != len(taken):
            expected = ", ".join(map(described, taken)) or "none"
            raise InputSpecError(
                f"the model takes {len(taken)} inputs ({expected}), but `inputs` has {len(leaves)}"
            )
        feeds = feeds_of(model, [reference.in_parts(leaf) for leaf in leaves])
        specs = iter([_spec(leaf, value) for leaf, value in zip(leaves, taken, strict=True)])
        tree = reference.mapped(lambda _: next(specs), [positional, [params[n] for n in names]])
        _progress.stage("exporting")
        count = len(reference.leaves(positional))
        proto = _api.to_onnx(
            fn,
            tree[0],
            dict(zip(names, tree[1], strict=True)) or None,
            opset=_opset(model),
            enable_double_precision=double,
            input_names=[value.name for value in taken[:count]],
            output_names=[value.name for value in graph.output],
            nan="ignore" if _ignores_nan(model) else "exact",
            provenance="indexed",
            provenance_paths="relative",
        )
        _progress.stage("running JAX")
        results = reference.evaluate(fn, positional, params)
    named = zip([value.name for value in proto.graph.output], results, strict=True)
    known = {name: reference.in_parts(each) for name, each in named}
    return Fresh(Loaded(proto), feeds, Results(known))


def _spec(leaf: Any, value: Any) -> Any:
    """Return what an input is traced with: its type, and the sizes that the model names."""
    import jax

    if isinstance(leaf, bool | int | float | complex):
        return leaf
    sizes = sizes_of(value)
    shape = tuple(
        name if isinstance(name, str) and name else size
        for name, size in zip(sizes, leaf.shape, strict=False)
    )
    struct: Any = jax.ShapeDtypeStruct
    return struct(shape, jax.numpy.asarray(leaf).dtype if hasattr(leaf, "dtype") else None)


def _opset(model: Loaded) -> int:
    versions: list[int] = [each.version for each in model.proto.opset_import if each.domain == ""]
    return min(max([*versions, 16]), 26)


def _ignores_nan(model: Loaded) -> bool:
    return any(each.key == _NAN for each in model.proto.metadata_props)
