"""Export a function again, with the settings of a model that was exported from it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import onnx

from .. import _progress
from .._errors import UnsupportedError
from . import graphs
from .graphs import Graph
from .inputs import check_count
from .models import Loaded
from .runtime import sizes_of

if TYPE_CHECKING:
    from .arrays import Array
    from .oracle import JaxValues

#: Metadata of a model that leaves out what NaNs need.
_NAN: Final = "pkg.jax2onnx.nan"
_HALF: Final = "pkg.jax2onnx.half"
_DEQUANTIZE: Final = "pkg.jax2onnx.dequantize"
#: Metadata of a model for other runtimes than by default.
_TARGET: Final = "pkg.jax2onnx.target"
#: Options that a model does not tell, to try if the names of a new export are others.
_OTHER_OPTIONS: Final[tuple[dict[str, Any], ...]] = (
    {"unroll": 0},
    {"normalization_mode": "force_decomposed"},
    {"optimize": False},
)
_SAME_NAMES: Final = 0.9
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
        graph: The main graph of the model.
        values: Knows what JAX computes for the values of the model.
        share: The share of the values of the given model that the new export has, too.
    """

    model: Loaded
    feeds: "dict[str, Array]"
    graph: Graph
    values: "JaxValues"
    share: float


def exported_again(
    fn: Callable[..., Any],
    model: Loaded,
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    double: bool | None,
) -> Fresh:
    """Export a function with the names, sizes, opset and target of a model, and run it in JAX.

    If the names differ, it tries other options.

    Raises:
        InputSpecError: The inputs do not fit the function or the model.
    """
    import jax

    from .. import _api, _pairs
    from .._tracing.compat import double_precision_kept
    from . import reference
    from .inputs import arguments_of, feeds_of
    from .oracle import JaxValues

    graph = model.proto.graph
    if double is None:
        declared = [value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)]
        double = any(code in _WIDE_TYPES for code in declared)
    with double_precision_kept(double):
        weights = {tensor.name for tensor in graph.initializer}
        taken = [value for value in graph.input if value.name not in weights]
        positional, params = arguments_of(fn, inputs, [value.name for value in taken])
        names = sorted(params)
        leaves = reference.leaves([positional, [params[name] for name in names]])
        check_count(taken, len(leaves))
        feeds = feeds_of(model, [reference.in_parts(leaf) for leaf in leaves])
        specs = iter([_spec(leaf, value) for leaf, value in zip(leaves, taken, strict=True)])
        tree = reference.mapped(lambda _: next(specs), [positional, [params[n] for n in names]])
        _progress.stage("exporting")
        count = len(reference.leaves(positional))
        found: list[tuple[Any, Sequence[Any]]] = []
        metadata = {each.key: each.value for each in model.proto.metadata_props}

        def export(**options: Any) -> onnx.ModelProto:
            with _pairs.listening(lambda jaxpr, pairs: found.append((jaxpr, pairs))):
                exported: onnx.ModelProto = _api.to_onnx(
                    fn,
                    tree[0],
                    dict(zip(names, tree[1], strict=True)) or None,
                    opset=_opset(model),
                    enable_double_precision=double,
                    input_names=[value.name for value in taken[:count]],
                    output_names=[value.name for value in graph.output],
                    target=metadata.get(_TARGET, "onnxruntime").split(","),
                    nan="ignore" if _NAN in metadata else "exact",
                    half="fast" if _HALF in metadata else "exact",
                    dequantize="run" if _DEQUANTIZE in metadata else "load",
                    provenance="indexed",
                    provenance_paths="relative",
                    **options,
                )
            return exported

        proto, (jaxpr, pairs) = export(), found.pop()
        share = _share_of_nodes(proto, model.proto)
        for options in _OTHER_OPTIONS if share < _SAME_NAMES else ():
            try:
                other = export(**options)
            except UnsupportedError:
                # The target lacks what another form needs.
                continue
            if _share_of_nodes(other, model.proto) > share:
                proto, (jaxpr, pairs) = other, found[-1]
                share = _share_of_nodes(other, model.proto)
        again = Loaded(proto)
        main = graphs.main(again)
        arrays = [each if hasattr(each, "dtype") else jax.numpy.asarray(each) for each in leaves]
        sizes = {
            name: actual
            for value in proto.graph.input
            for name, actual in zip(sizes_of(value), feeds[value.name].shape, strict=True)
            if isinstance(name, str)
        }
        values = JaxValues(jaxpr, pairs, main, arrays, sizes, double=double)
    return Fresh(again, feeds, main, values, _share_of_names(proto, model.proto))


def _share_of_nodes(fresh: onnx.ModelProto, model: onnx.ModelProto) -> float:
    """Return which share of the nodes of a model a new export has, too.

    Names are numbered, so that the same name of another operator is often another value.
    """
    return _share(list(_nodes(model.graph)), set(_nodes(fresh.graph)))


def _share_of_names(fresh: onnx.ModelProto, model: onnx.ModelProto) -> float:
    """Return which share of the values of a model a new export has, too."""
    names = ([name for _, name in _nodes(each.graph)] for each in (model, fresh))
    wanted, known = names
    return _share(wanted, set(known))


def _share(wanted: Sequence[object], known: set[Any]) -> float:
    return sum(each in known for each in wanted) / max(len(wanted), 1)


def _nodes(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    """Yield the operator and the name of each value that a node computes, also in bodies."""
    for node in graph.node:
        yield from ((node.op_type, name) for name in node.output if name)
        for attribute in node.attribute:
            yield from _nodes(attribute.g)


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
