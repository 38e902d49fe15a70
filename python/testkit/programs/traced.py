"""Read what JAX traced of a program, and check whether the trace is right at a size.

JAX takes each symbol to be at least 1 when it traces, and writes the size of `x[1:]` as `N - 1`. At
a smaller size, a traced equation may have a negative size, or a slice that ends behind its array.
`docs/symbolic-shapes.md` lists such sizes, and those for which ONNX Runtime needs elements.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import jax
import numpy as np
from jax.extend import core

from jax2onnx._tracing import specs

from .program import Program, size_at

#: Parameters of equations that are shapes.
SIZE_PARAMS: Final = {"shape", "new_sizes", "slice_sizes"}


def traced(program: Program) -> Any:
    """The jaxpr that is exported."""
    arguments = specs.arguments(program.specs(), double_precision=program.double)
    return jax.make_jaxpr(program)(*arguments)


def rounds_to_float32(function: Callable[[], Any]) -> bool:
    """Return whether JAX computes a part in float32, as in `dot_product_attention`."""
    return any(makes_float32(eqn) for eqn in jax.make_jaxpr(function)().jaxpr.eqns)


def makes_float32(eqn: Any) -> bool:
    """Return whether an equation, or one inside of it, has a result of float32."""
    inner = (
        one for jaxpr in jaxprs_in(list(eqn.params.values())) for one in inner_equations(jaxpr)
    )
    results = (var.aval for one in (eqn, *inner) for var in one.outvars)
    return any(getattr(aval, "dtype", None) == np.float32 for aval in results)


def misfits(jaxpr: Any, size: int) -> list[Any]:
    """The equations of a jaxpr that are not right at a size, or contain such an equation."""
    return [eqn for eqn in jaxpr.eqns if not is_right(eqn, size)]


def failures(jaxpr: Any, size: int) -> list[Any]:
    """The equations that the model need not run: a size that JAX writes below zero is zero in it.

    These are the equations that are not right even so, or that contain such an equation.
    """
    return [eqn for eqn in jaxpr.eqns if not is_right(eqn, size, least=0)]


def is_right(eqn: Any, size: int, least: float = -np.inf) -> bool:
    """Return whether JAX accepts an equation, and those inside, at a size: see `accepts`."""
    inside = (one for jaxpr in jaxprs_in(list(eqn.params.values())) for one in jaxpr.eqns)
    try:
        return accepts(eqn, size, least) and all(is_right(one, size, least) for one in inside)
    except ZeroDivisionError:
        return False


def accepts(eqn: Any, size: int, least: float = -np.inf) -> bool:
    """Return whether JAX accepts an equation at a size, and its windows and indices find elements.

    Smaller sizes than the least one count as that one.
    """

    def bounded(shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(max(extent, least) for extent in shape)  # type: ignore[type-var]

    results = [bounded(shape_at(var.aval, size)) for var in eqn.outvars]
    if any(extent < 0 for shape in results for extent in shape):
        return False
    if any(jaxprs_in(list(eqn.params.values()))) and not eqn.primitive.name.startswith("scatter"):
        return has_windows(eqn, size)
    operands = [var.aval.update(shape=bounded(shape_at(var.aval, size))) for var in eqn.invars]
    params = {name: at(param, size) for name, param in eqn.params.items()}
    for name in SIZE_PARAMS & params.keys():
        params[name] = bounded(params[name]) if params[name] is not None else None
    if eqn.primitive.name == "slice" and least == 0:
        ends = zip(params["start_indices"], params["limit_indices"], strict=True)
        params["limit_indices"] = tuple(map(max, ends))
    try:
        found, _ = eqn.primitive.abstract_eval(*operands, **params)
    except (TypeError, ValueError):
        return False
    shapes = [aval.shape for aval in (found if eqn.primitive.multiple_results else [found])]
    return shapes == results and has_elements(eqn, size) and has_windows(eqn, size)


def has_elements(eqn: Any, size: int) -> bool:
    """Return whether an axis that is indexed has elements, or nothing of it is read or written."""
    name, numbers = eqn.primitive.name, eqn.params.get("dimension_numbers")
    if name != "gather" and not name.startswith("scatter"):
        return True
    array, indices, *rest = (shape_at(var.aval, size) for var in eqn.invars)
    if name == "gather":
        axes = numbers.start_index_map
        extents = dict(enumerate(at(eqn.params["slice_sizes"], size)))
    else:
        axes = numbers.scatter_dims_to_operand_dims
        gone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
        kept = [axis for axis in range(len(array)) if axis not in gone]
        moved = [rest[0][axis] for axis in numbers.update_window_dims]
        extents = dict(zip(kept, moved, strict=True))
    is_empty = 0 in indices or any(extents.get(axis, 1) <= 0 for axis in axes)
    return is_empty or all(array[axis] > 0 for axis in axes)


def has_windows(eqn: Any, size: int) -> bool:
    """Return whether a window has elements along its axes, and a place where it fits."""
    name, params = eqn.primitive.name, eqn.params
    operands = [shape_at(var.aval, size) for var in eqn.invars]
    shapes = [*operands, *(shape_at(var.aval, size) for var in eqn.outvars)]
    if name == "conv_general_dilated":
        numbers = params["dimension_numbers"]
        left, result = numbers.lhs_spec[2:], numbers.out_spec[2:]
        return all(operands[0][axis] > 0 for axis in left) and all(
            shapes[-1][axis] > 0 for axis in result
        )
    window = params.get("window_dimensions")
    if window is None:
        return True
    return all(
        shape[axis] > 0
        for shape in shapes
        if len(shape) == len(window)
        for axis, extent in enumerate(window)
        if extent != 1
    )


def shape_at(aval: Any, size: int) -> tuple[int, ...]:
    return tuple(at(extent, size) for extent in getattr(aval, "shape", ()))


def at(value: Any, size: int) -> Any:
    """A parameter of an equation, with numbers for its symbols."""
    if type(value) in (tuple, list):
        return type(value)(at(one, size) for one in value)
    return size_at(str(value), size) if hasattr(value, "scope") else value


def inner_equations(jaxpr: Any) -> Iterator[Any]:
    """The equations of a jaxpr and of those inside of it."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jaxprs_in(list(eqn.params.values())):
            yield from inner_equations(inner)


def jaxprs_in(value: Any) -> Iterator[Any]:
    """The jaxprs in a parameter of an equation."""
    if isinstance(value, core.ClosedJaxpr):
        yield value.jaxpr
    elif isinstance(value, core.Jaxpr):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from jaxprs_in(one)


def results_at(program: Program, size: int) -> list[np.ndarray]:
    """Return what the traced program computes at a size.

    It differs from what JAX computes where JAX asks for a size when it traces: `jnp.array_equal`
    takes arrays of `N` and `2*N` elements to be different.
    """
    inputs = program.inputs(size)
    function = core.jaxpr_as_fun(jaxpr_at(traced(program), size))
    return [np.asarray(value) for value in jax.jit(function)(*inputs)]


def jaxpr_at(closed: Any, size: int) -> Any:
    """A jaxpr with numbers for its symbols."""
    made: dict[Any, Any] = {}
    literal: Any = core.Literal

    def known(var: Any) -> Any:
        if isinstance(var, core.Literal):
            return var
        if var not in made:
            made[var] = copy.copy(var)
            if hasattr(var.aval, "shape"):
                made[var].aval = var.aval.update(shape=shape_at(var.aval, size))
        return made[var]

    def inside(value: Any) -> Any:
        if isinstance(value, core.ClosedJaxpr):
            return jaxpr_at(value, size)
        if isinstance(value, core.Jaxpr):
            return jaxpr_at(core.ClosedJaxpr(value, []), size).jaxpr
        if type(value) in (tuple, list):
            return type(value)(map(inside, value))
        if hasattr(value, "_fields"):
            return type(value)(*map(inside, value))
        return at(value, size)

    jaxpr = closed.jaxpr
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dim_as_value":
            (result,) = eqn.outvars
            number = np.asarray(at(eqn.params["dim"], size), result.aval.dtype)
            made[result] = literal(number, result.aval)
    equations = [
        eqn.replace(
            invars=[known(var) for var in eqn.invars],
            outvars=[known(var) for var in eqn.outvars],
            params={name: inside(param) for name, param in eqn.params.items()},
        )
        for eqn in jaxpr.eqns
        if eqn.primitive.name != "dim_as_value"
    ]
    names = ("invars", "constvars", "outvars")
    ends = {name: [known(var) for var in getattr(jaxpr, name)] for name in names}
    return core.ClosedJaxpr(jaxpr.replace(eqns=equations, **ends), closed.consts)
