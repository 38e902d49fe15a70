"""How the functions that jax2onnx calls differ between versions of JAX."""

import contextlib
import importlib
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
