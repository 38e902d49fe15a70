"""Trace the definitions of primitives that have no plugin.

A library may define a primitive by JAX code: as its lowering rule, by `mlir.lower_fun`, or as its
`impl`. Equinox, lineax, s2fft and `jax.experimental.sparse` do so for primitives that only have
rules of differentiation and of batching of their own. From version 0.12 on, JAX defines functions
such as `jnp.searchsorted` by `to_lojax`.
"""

import functools
import inspect
from collections.abc import Iterator
from typing import Any, Final

import jax

from .compat import double_precision_kept, lowered_functions, sharding_of, traced_in

#: Modules of JAX whose functions users take as the `impl` of their own primitives. Any other `impl`
#: of JAX is one that runs the primitive itself.
_PUBLIC: Final = tuple(
    f"{package}.{name}" for package in ("jax", "jax._src") for name in ("nn", "numpy", "scipy")
)
_MAX_WRAPPERS: Final = 100
_MAX_REASON: Final = 200

_struct: Any = jax.ShapeDtypeStruct


def definition(eqn: Any, *, double_precision: bool) -> Any:
    """Return the definition of the primitive of an equation, for the operands of the equation.

    Args:
        eqn: An equation of JAX.
        double_precision: Whether JAX keeps 64-bit types.

    Returns:
        A closed jaxpr; `None` if the primitive has no definition; the reason, as text, if the
        definition cannot be used.
    """
    if eqn.effects:
        return None
    reasons = []
    for function in _functions(eqn.primitive):
        found = _traced(function, eqn, double_precision)
        if isinstance(found, str):
            reasons.append(found)
        elif not _is_only(found, eqn.primitive):
            return found
    return reasons[0] if reasons else None


def _functions(primitive: Any) -> Iterator[Any]:
    """Yield the functions that compute a primitive by JAX code, the one that `jit` takes first."""
    # The method of the class raises.
    to_lojax = vars(primitive).get("to_lojax")
    if to_lojax is not None:
        yield to_lojax
    yield from lowered_functions(primitive)
    impl = getattr(primitive, "impl", None)
    if impl is not None and not _runs_the_primitive(impl):
        yield impl


def _traced(function: Any, eqn: Any, double_precision: bool) -> Any:
    """Return the jaxpr of a function for the operands of an equation, or why there is none."""
    try:
        with double_precision_kept(double_precision), traced_in(eqn):
            operands = [_spec(atom.aval) for atom in eqn.invars]
            # JAX has no trace of a new partial, so none from another export is reused.
            closed_jaxpr = jax.make_jaxpr(functools.partial(function, **eqn.params))(*operands)
    except Exception as error:
        text = (str(error).strip() or repr(error)).splitlines()[0]
        return f"{type(error).__name__}: {text}"[:_MAX_REASON]
    found = [_type(aval) for aval in closed_jaxpr.out_avals]
    expected = [_type(var.aval) for var in eqn.outvars]
    if found != expected:
        return f"it returns {', '.join(found)}, but JAX expects {', '.join(expected)}"
    return closed_jaxpr


def _runs_the_primitive(impl: Any) -> bool:
    """Return whether an `impl` is JAX's own, which compiles the primitive or calls Python."""
    for _ in range(_MAX_WRAPPERS):
        if isinstance(impl, functools.partial):
            impl = impl.func
        elif inspect.ismethod(impl):
            impl = impl.__func__
        else:
            break
    module: str = getattr(impl, "__module__", None) or ""
    is_of_jax = module == "jax" or module.startswith("jax.")
    return is_of_jax and not module.startswith(_PUBLIC)


def _spec(aval: Any) -> Any:
    return _struct(
        aval.shape,
        aval.dtype,
        weak_type=getattr(aval, "weak_type", False),
        sharding=sharding_of(aval),
    )


def _type(aval: Any) -> str:
    return f"{aval.dtype.name}[{','.join(map(str, aval.shape))}]"


def _is_only(closed_jaxpr: Any, primitive: Any) -> bool:
    """Return whether a jaxpr is one equation of a primitive, perhaps inside `jit`."""
    eqns = closed_jaxpr.jaxpr.eqns
    while len(eqns) == 1:
        (eqn,) = eqns
        if eqn.primitive is primitive:
            return True
        if eqn.primitive.name not in ("jit", "pjit"):
            return False
        eqns = eqn.params["jaxpr"].jaxpr.eqns
    return False
