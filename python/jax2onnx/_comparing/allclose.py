"""A model in ONNX Runtime against the function in JAX."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from .._errors import ConfigError, InputSpecError

if TYPE_CHECKING:
    import onnx

    from .arrays import Array, Comparison, OutputComparison
    from .runtime import AnyModel, Session

_CALLSITE: Final = "pkg.jax2onnx.callsite"


def allclose(
    fn: Callable[..., Any],
    onnx_model_path: "AnyModel",
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    rtol: float = 1e-3,
    atol: float = 1e-5,
    *,
    enable_double_precision: bool = False,
    inputs_as_nchw: Sequence[int] | None = None,
    outputs_as_nchw: Sequence[int] | None = None,
) -> "Comparison":
    """Run a model in ONNX Runtime and the function in JAX, and compare all outputs.

    An element `found` of a float matches where `|found - expected| <= atol + rtol * |expected|`,
    or both are NaN, or both the same infinity. Integers and flags match where they are equal.

    Args:
        fn: The function, called as it is.
        onnx_model_path: The model: the path of its file, an `onnx.ModelProto`, an
            `onnx_ir.Model`, or bytes.
        inputs: One argument of `fn` each: arrays, numbers and containers of these. In place of an
            array, a shape or a `jax.ShapeDtypeStruct` is filled with random numbers, the same at
            every call; a size with a name is small.
        input_params: Keyword arguments of `fn`; those that are inputs of the model are fed to it.
        rtol: How far floats may be apart, relative to the result of JAX.
        atol: How far floats may be apart in any case.
        enable_double_precision: Keep 64-bit types in JAX.
        inputs_as_nchw: Positions of images that the model takes as NCHW. `inputs` has them as `fn`
            takes them, NHWC.
        outputs_as_nchw: Positions of images that the model gives as NCHW.

    Returns:
        `(is_match, message)`, true where everything matches. Its `outputs` has for each output the
        worst element: the index, both values, and the call site of the node that makes it.

    Raises:
        InputSpecError: The inputs are not those of the model.
        ConfigError: ONNX Runtime is missing, or an option has a value that it cannot have.
    """
    from .._tracing import call
    from .._tracing.compat import double_precision_kept
    from . import arrays, reference, runtime

    _check_tolerances(rtol, atol)
    session = runtime.Session(onnx_model_path)
    params = dict(input_params or {})
    turned_inputs = call.positions(inputs_as_nchw, "inputs_as_nchw")
    turned_outputs = call.positions(outputs_as_nchw, "outputs_as_nchw")
    with double_precision_kept(enable_double_precision):
        fed = [value for value in session.inputs if value.name not in params]
        arguments = _Arguments(inputs, fed, turned_inputs, double=enable_double_precision)
        feeds = _feeds(fed, reference.leaves(arguments.turned()))
        feeds |= _feeds(
            [value for value in session.inputs if value.name in params],
            [params[value.name] for value in session.inputs if value.name in params],
        )
        want = reference.evaluate(fn, arguments.arrays, params)
    found = session.run(feeds)
    if len(found) != len(want):
        return arrays.Comparison.of(
            False,
            f"the model has {_counted(len(found), 'output')}, and the function "
            f"{_counted(len(want), 'result')}",
        )
    call.check_images(want, turned_outputs, "outputs_as_nchw", "output")
    compared = []
    for place, (value, one, other) in enumerate(
        zip(session.graph.output, want, found, strict=True)
    ):
        given = call.to_nhwc(other) if place in turned_outputs and other.ndim == 4 else other
        result = arrays.compare(value.name, one, _as_complex(given, one), rtol, atol)
        compared.append(_with_maker(result, session))
    is_match = all(output.is_match for output in compared)
    return arrays.Comparison.of(is_match, _message(compared, session, rtol, atol), compared)


class _Arguments:
    """The arguments of the function, with arrays in place of shapes."""

    def __init__(
        self,
        inputs: Sequence[Any],
        fed: Sequence["onnx.ValueInfoProto"],
        turned: Sequence[int],
        *,
        double: bool,
    ) -> None:
        from .._tracing import call
        from .._tracing.specs import arguments
        from . import reference, runtime, samples

        specs = arguments(inputs, double_precision=double)
        count = len(reference.leaves(specs))
        if count != len(fed):
            expected = ", ".join(_described(value) for value in fed) or "none"
            raise InputSpecError(
                f"the model takes {_counted(len(fed), 'input')} ({expected}), and `inputs` has "
                f"{count}"
            )
        call.check_images(specs, turned, "inputs_as_nchw", "input")
        shapes = iter([runtime.sizes_of(value) for value in fed])
        known: dict[str, int] = {}
        for place, spec in enumerate(specs):
            for leaf in reference.leaves(spec):
                sizes = next(shapes)
                if place in turned and len(sizes) == 4:
                    sizes = [sizes[axis] for axis in call.TO_NHWC]
                _learn_sizes(known, sizes, getattr(leaf, "shape", ()))
        self.arrays = samples.filled(inputs, specs, known)
        self._turned = turned

    def turned(self) -> list[Any]:
        """The arguments as the model takes them."""
        from .._tracing import call

        return [
            call.to_nchw(array) if place in self._turned else array
            for place, array in enumerate(self.arrays)
        ]


def _learn_sizes(known: dict[str, int], names: Sequence[int | str], shape: Sequence[Any]) -> None:
    """Note the sizes that the given arrays give to the names of the model."""
    for name, size in zip(names, shape, strict=False):
        if isinstance(name, str) and isinstance(size, int):
            known.setdefault(name, size)


def _feeds(values: Sequence["onnx.ValueInfoProto"], leaves: Sequence[Any]) -> dict[str, "Array"]:
    """What the model is fed with: the arrays as it takes them."""
    import numpy as np

    from . import reference, runtime

    feeds = {}
    for value, leaf in zip(values, leaves, strict=True):
        array, dtype = reference.in_parts(leaf), runtime.dtype_of(value)
        sizes = runtime.sizes_of(value)
        fits = len(sizes) == array.ndim and all(
            isinstance(size, str) or size == there
            for size, there in zip(sizes, array.shape, strict=True)
        )
        if not fits or not (array.dtype == dtype or np.can_cast(array.dtype, dtype, "same_kind")):
            shown = f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
            raise InputSpecError(f"the model takes {_described(value)}, and is given {shown}")
        feeds[value.name] = array.astype(dtype, copy=False)
    return feeds


def _described(value: "onnx.ValueInfoProto") -> str:
    from . import runtime

    sizes = ",".join(str(size or "?") for size in runtime.sizes_of(value))
    return f"`{value.name}` {runtime.dtype_of(value).name}[{sizes}]"


def _as_complex(found: "Array", want: "Array") -> "Array":
    """Complex numbers that the model has as pairs, as JAX has them."""
    is_pairs = found.dtype.kind == "f" and found.shape == (*want.shape, 2)
    if want.dtype.kind != "c" or not is_pairs:
        return found
    pairs: Array = found[..., 0] + 1j * found[..., 1]
    return pairs.astype(want.dtype) if found.dtype.itemsize * 2 == want.dtype.itemsize else pairs


def _with_maker(result: "OutputComparison", session: "Session") -> "OutputComparison":
    """The comparison with the node that makes the output, and the line that asked for it."""
    from dataclasses import replace

    for node in session.graph.node:
        if result.name in node.output:
            sites = [entry.value for entry in node.metadata_props if entry.key == _CALLSITE]
            site = sites[0] if sites else None
            return replace(result, node=node.name, op=node.op_type, callsite=site)
    return result


def _message(
    compared: Sequence["OutputComparison"], session: "Session", rtol: float, atol: float
) -> str:
    total = _counted(len(compared), "output")
    differing = sum(not output.is_match for output in compared)
    if differing:
        verdict = f"{differing} of {total} {'differs' if differing == 1 else 'differ'}"
    else:
        verdict = f"{total} {'matches' if len(compared) == 1 else 'match'}"
    lines = [f"{verdict}, with rtol={rtol} and atol={atol}"]
    lines += [f"  {output}" for output in compared]
    if session.graph.node and not any(output.callsite for output in compared):
        lines.append(
            "the model carries no provenance: export it with `provenance='minimal'` to see lines"
        )
    return "\n".join(lines)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _check_tolerances(rtol: Any, atol: Any) -> None:
    for name, value in (("rtol", rtol), ("atol", atol)):
        if isinstance(value, bool) or not hasattr(value, "__float__") or not float(value) >= 0:
            raise ConfigError(f"`{name}` is {value!r}, and should be a number from 0 on")
