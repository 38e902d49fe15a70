"""How the functions that jax2onnx calls differ between versions of JAX."""

import contextlib
import functools
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import jax

from .._errors import ConfigError
from .._words import quoted


def double_precision_kept(wanted: bool) -> contextlib.AbstractContextManager[Any]:
    """Return a block in which JAX keeps 64-bit types, if wanted.

    JAX 0.6 has `enable_x64` in `jax.experimental` only.
    """
    if not wanted:
        return contextlib.nullcontext()
    enable: Any = getattr(jax, "enable_x64", None)
    if enable is None:
        enable = importlib.import_module("jax.experimental").enable_x64
    manager: contextlib.AbstractContextManager[Any] = enable(True)
    return manager


def bind_params(primitive: Any, params: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the functions and the parameters that a primitive is bound with.

    From JAX 0.10 on, functions are parameters.
    """
    bound = primitive.get_bind_params(params)
    return bound if isinstance(bound, tuple) else ([], bound)


def export_module() -> Any:
    """Import `jax.export`. It is slow, and JAX 0.6.0 and 0.6.1 do not install all that it needs."""
    try:
        return importlib.import_module("jax.export")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"JAX {jax.__version__} needs {quoted(error.name)} for symbolic sizes, but does not "
            "install it: run `pip install absl-py`, or install JAX 0.6.2 or newer"
        ) from error


def lowered_functions(primitive: Any) -> Iterator[Any]:
    """Yield the functions that `mlir.lower_fun` turned into lowering rules of a primitive.

    The rule for CPUs comes first, because JAX prefers it there. If a version of JAX keeps its rules
    elsewhere, there are none.
    """
    mlir = importlib.import_module("jax._src.interpreters.mlir")
    tables = [
        getattr(mlir, "_platform_specific_lowerings", {}).get("cpu", {}),
        getattr(mlir, "_lowerings", {}),
    ]
    for table in tables:
        entry = table.get(primitive)
        # From JAX 0.7 on, an entry has the rule and an option.
        function = _lowered_function(getattr(entry, "rule", entry))
        if function is not None:
            yield function


def _lowered_function(rule: Any) -> Any:
    """Return the function inside a rule that `mlir.lower_fun` made; `None` for any other rule."""
    params: dict[str, Any] = {}
    while isinstance(rule, functools.partial) and not rule.args:
        params = {**rule.keywords, **params}
        rule = rule.func
    rule = inspect.unwrap(rule) if callable(rule) else rule
    if getattr(rule, "__qualname__", None) != "lower_fun.<locals>.f_lowered":
        return None
    cells = dict(zip(rule.__code__.co_freevars, rule.__closure__ or (), strict=True))
    function = cells["fun"].cell_contents if "fun" in cells else None
    return functools.partial(function, **params) if params and function else function


def traced_in(eqn: Any) -> contextlib.AbstractContextManager[Any]:
    """Return a block in which JAX traces as it did for an equation: with its mesh and settings."""
    manager: Any = getattr(getattr(eqn, "ctx", None), "manager", None)
    return contextlib.nullcontext() if manager is None else manager


def sharding_of(aval: Any) -> Any:
    """Return the sharding in the type of an array; `None` if no mesh is explicit there."""
    sharding = getattr(aval, "sharding", None)
    mesh = getattr(sharding, "mesh", None)
    return None if mesh is None or mesh.empty or not mesh.are_all_axes_explicit else sharding
