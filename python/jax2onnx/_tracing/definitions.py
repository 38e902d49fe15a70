"""Trace the definitions of primitives that have no plugin.

A library may define a primitive by JAX code: its `impl`. Equinox and lineax do so for primitives
that only have rules of differentiation and of batching of their own. From version 0.12 on, JAX
defines functions such as `jnp.searchsorted` like this, by `to_lojax`.
"""

import functools
import inspect
from typing import Any, Final

import jax

from .compat import double_precision_kept

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
    # The method of the class raises.
    impl = vars(eqn.primitive).get("to_lojax")
    if impl is None:
        impl = getattr(eqn.primitive, "impl", None)
        if impl is None or _runs_the_primitive(impl):
            return None
    if eqn.effects:
        return None
    try:
        with double_precision_kept(double_precision):
            operands = [_spec(atom.aval) for atom in eqn.invars]
            # JAX has no trace of a new partial, so none from another export is reused.
            closed_jaxpr = jax.make_jaxpr(functools.partial(impl, **eqn.params))(*operands)
    except Exception as error:
        text = (str(error).strip() or repr(error)).splitlines()[0]
        return f"{type(error).__name__}: {text}"[:_MAX_REASON]
    if _is_only(closed_jaxpr, eqn.primitive):
        return None
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
    return _struct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))


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
