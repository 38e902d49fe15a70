"""Compare a model in ONNX Runtime with its function in JAX."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from .._errors import ConfigError, InputSpecError
from .._words import counted, quoted
from .inputs import arguments_of

if TYPE_CHECKING:
    import onnx

    from .arrays import Array, Comparison, OutputComparison
    from .runtime import AnyModel, Session

_CALLSITE: Final = "pkg.jax2onnx.callsite"


def allclose(
    fn: Callable[..., Any],
    onnx_model_path: "AnyModel",
    inputs: Mapping[str, Any] | Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    rtol: float = 1e-3,
    atol: float = 1e-5,
    *,
    enable_double_precision: bool = False,
    inputs_as_nchw: Sequence[int] | None = None,
    outputs_as_nchw: Sequence[int] | None = None,
) -> "Comparison":
    """Run a model in ONNX Runtime and the function in JAX, and compare all outputs.

    A float `found` matches if `|found - expected| <= atol + rtol * |expected|`, or if both are NaN
    or the same infinity. Integers and booleans match if they are equal.

    Args:
        fn: The function that the model was exported from.
        onnx_model_path: The model: the path of its file, an `onnx.ModelProto`, an
            `onnx_ir.Model`, or bytes.
        inputs: The arguments of `fn`, in order or by name: arrays, numbers and containers of these.
            The name is that of a parameter or of an input of the model. Instead of an array,
            you can pass a shape or a `jax.ShapeDtypeStruct`. `allclose` fills it with random
            numbers, the same in every call, and chooses small values for named sizes.
        input_params: Keyword arguments of `fn`. `allclose` also feeds the model those that are its
            inputs.
        rtol: The tolerance for floats, relative to the result of JAX.
        atol: The absolute tolerance for floats.
        enable_double_precision: Whether to keep 64-bit types in JAX.
        inputs_as_nchw: The positions of images that the model takes as NCHW. In `inputs`, pass them
            as NHWC, as `fn` takes them.
        outputs_as_nchw: The positions of images that the model returns as NCHW.

    Returns:
        `(is_match, message)`, true if everything matches. Its `outputs` contains the worst element
        of each output: the index, both values, and the call site of the node that computes it.

    Raises:
        InputSpecError: The inputs do not match the model.
        ConfigError: ONNX Runtime is missing, or an option has an invalid value.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax2onnx
        >>> model = jax2onnx.to_onnx(jnp.negative, [("B", 3)])
        >>> is_match, message = jax2onnx.allclose(jnp.negative, model, [(2, 3)])
        >>> is_match
        True
    """
    from .._tracing import call
    from .._tracing.compat import double_precision_kept
    from . import arrays, reference, runtime

    _check_tolerances(rtol, atol)
    session = runtime.Session(onnx_model_path)
    arguments_given, named = arguments_of(fn, inputs, [value.name for value in session.inputs])
    params = named | dict(input_params or {})
    nchw_inputs = call.positions(inputs_as_nchw, "inputs_as_nchw")
    nchw_outputs = call.positions(outputs_as_nchw, "outputs_as_nchw")
    with double_precision_kept(enable_double_precision):
        fed = [value for value in session.inputs if value.name not in params]
        arguments = _Arguments(arguments_given, fed, nchw_inputs, double=enable_double_precision)
        feeds = _feeds(fed, reference.leaves(arguments.in_model_layout()))
        feeds |= _feeds(
            [value for value in session.inputs if value.name in params],
            [params[value.name] for value in session.inputs if value.name in params],
        )
        want = reference.evaluate(fn, arguments.arrays, params)
    found = session.run(feeds)
    if len(found) != len(want):
        return arrays.Comparison.of(
            False,
            f"the model has {counted(len(found), 'output')}, but the function returns "
            f"{counted(len(want), 'result')}",
        )
    call.check_images(want, nchw_outputs, "outputs_as_nchw", "output")
    lines = _lines_of(onnx_model_path)
    compared = []
    for place, (value, one, other) in enumerate(
        zip(session.graph.output, want, found, strict=True)
    ):
        given = call.to_nhwc(other) if place in nchw_outputs and other.ndim == 4 else other
        result = arrays.compare(value.name, one, _as_complex(given, one), rtol, atol)
        compared.append(_with_producer(result, session, lines))
    is_match = all(output.is_match for output in compared)
    return arrays.Comparison.of(is_match, _message(compared, session, rtol, atol), compared)


class _Arguments:
    """The arguments of the function, with arrays instead of shapes."""

    def __init__(
        self,
        inputs: Sequence[Any],
        fed: Sequence["onnx.ValueInfoProto"],
        nchw: Sequence[int],
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
                f"the model takes {counted(len(fed), 'input')} ({expected}), but `inputs` has "
                f"{count}"
            )
        call.check_images(specs, nchw, "inputs_as_nchw", "input")
        shapes = iter([runtime.sizes_of(value) for value in fed])
        known: dict[str, int] = {}
        for place, spec in enumerate(specs):
            for leaf in reference.leaves(spec):
                sizes = next(shapes)
                if place in nchw and len(sizes) == 4:
                    sizes = [sizes[axis] for axis in call.TO_NHWC]
                _learn_sizes(known, sizes, getattr(leaf, "shape", ()))
        self.arrays = samples.filled(inputs, specs, known)
        self._nchw = nchw

    def in_model_layout(self) -> list[Any]:
        """Return the arguments in the layout of the model."""
        from .._tracing import call

        return [
            call.to_nchw(array) if place in self._nchw else array
            for place, array in enumerate(self.arrays)
        ]


def _learn_sizes(known: dict[str, int], names: Sequence[int | str], shape: Sequence[Any]) -> None:
    """Learn the named sizes of the model from the shapes of the given arrays."""
    for name, size in zip(names, shape, strict=False):
        if isinstance(name, str) and isinstance(size, int):
            known.setdefault(name, size)


def _feeds(values: Sequence["onnx.ValueInfoProto"], leaves: Sequence[Any]) -> dict[str, "Array"]:
    """Return the arrays for the inputs of the model, with its types."""
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
            raise InputSpecError(f"the model takes {_described(value)}, but got {shown}")
        feeds[value.name] = array.astype(dtype, copy=False)
    return feeds


def _described(value: "onnx.ValueInfoProto") -> str:
    from . import runtime

    sizes = ",".join(str(size or "?") for size in runtime.sizes_of(value))
    return f"{quoted(value.name)} {runtime.dtype_of(value).name}[{sizes}]"


def _as_complex(found: "Array", want: "Array") -> "Array":
    """Convert pairs of floats to the complex numbers that JAX has."""
    is_pairs = found.dtype.kind == "f" and found.shape == (*want.shape, 2)
    if want.dtype.kind != "c" or not is_pairs:
        return found
    pairs: Array = found[..., 0] + 1j * found[..., 1]
    return pairs.astype(want.dtype) if found.dtype.itemsize * 2 == want.dtype.itemsize else pairs


def _lines_of(model: "AnyModel") -> Callable[[int], str | None]:
    """Return a function that returns the line of a node by its number, if the line is known."""
    from . import graphs
    from .lines import Lines
    from .models import Loaded

    loaded = Loaded(model)
    lines, main = Lines(loaded), graphs.main(loaded)

    def of_node(number: int) -> str | None:
        return next(map(str, lines.of_node(main, number)), None)

    return of_node


def _with_producer(
    result: "OutputComparison", session: "Session", lines: Callable[[int], str | None]
) -> "OutputComparison":
    """Add the node that computes the output, and the line that asked for it."""
    from dataclasses import replace

    for number, node in enumerate(session.graph.node):
        if result.name in node.output:
            sites = [entry.value for entry in node.metadata_props if entry.key == _CALLSITE]
            site = sites[0] if sites else None
            line = lines(number)
            return replace(result, node=node.name, op=node.op_type, callsite=site, line=line)
    return result


def _message(
    compared: Sequence["OutputComparison"], session: "Session", rtol: float, atol: float
) -> str:
    total = counted(len(compared), "output")
    differing = sum(not output.is_match for output in compared)
    if differing:
        verdict = f"{differing} of {total} {'differs' if differing == 1 else 'differ'}"
    else:
        verdict = f"{total} {'matches' if len(compared) == 1 else 'match'}"
    lines = [f"{verdict}, with rtol={rtol} and atol={atol}"]
    lines += [f"  {output}" for output in compared]
    if session.graph.node and not any(output.line for output in compared):
        lines.append(
            "the model has no provenance: export it with `provenance='indexed'` to see lines"
        )
    return "\n".join(lines)


def _check_tolerances(rtol: Any, atol: Any) -> None:
    for name, value in (("rtol", rtol), ("atol", atol)):
        if isinstance(value, bool) or not hasattr(value, "__float__") or not float(value) >= 0:
            raise ConfigError(
                f"{quoted(name)} is {value!r}, which is not a number greater than or equal to 0"
            )
