"""`@onnx_function`: a Python function or class whose calls become calls of an ONNX function."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, cast, overload

from .._errors import ConfigError
from .._words import quoted

_Target = TypeVar("_Target", bound=Callable[..., Any])

_DEFAULT_DOMAIN: Final = "custom"
#: The attribute of a decorated callable that a second decorator reads.
_MARK: Final = "__onnx_function__"


class OnnxFunction(NamedTuple):
    """The ONNX function that a decorated callable becomes."""

    domain: str
    name: str


@overload
def onnx_function(
    target: None = None,
    *,
    unique: bool = False,
    namespace: str | None = None,
    name: str | None = None,
    type: str | None = None,
) -> Callable[[_Target], _Target]: ...


@overload
def onnx_function(
    target: _Target,
    *,
    unique: bool = False,
    namespace: str | None = None,
    name: str | None = None,
    type: str | None = None,
) -> _Target: ...


def onnx_function(
    target: _Target | None = None,
    *,
    unique: bool = False,
    namespace: str | None = None,
    name: str | None = None,
    type: str | None = None,
) -> _Target | Callable[[_Target], _Target]:
    """Turn every call of a function, or of an instance of a class, into an ONNX function call.

    The results stay the same, also under `jit`, `vmap` and `grad`. Calls with equal bodies share
    one function in the model. Weights that the body reads become inputs of the function.

    Args:
        target: A function, or a class with `__call__`. `onnx_function` replaces `__call__`.
        unique: Has no effect: equal calls always share one definition.
        namespace: The domain of the ONNX function, by default `"custom"`.
        name: The name of the ONNX function, by default that of the Python function or class.
        type: Same as `name`; takes precedence over it.

    Returns:
        The decorated function, or the class itself. Without a target, a decorator.

    Raises:
        ConfigError: The target cannot be called, or is already decorated with other options, or
            an option is not a name that ONNX accepts.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax2onnx
        >>> @jax2onnx.onnx_function
        ... def scale(x):
        ...     return 2 * jnp.tanh(x)
        >>> model = jax2onnx.to_onnx(lambda x: scale(scale(x)), [(3,)])
        >>> [node.op_type for node in model.graph.node]
        ['scale', 'scale']
        >>> [function.name for function in model.functions]
        ['scale']
    """
    # Equal bodies always share one definition, so the flag changes nothing.
    del unique
    if target is None:
        return functools.partial(_decorate, namespace=namespace, name=name, type=type)
    return _decorate(target, namespace=namespace, name=name, type=type)


def _decorate(
    target: _Target, *, namespace: str | None, name: str | None, type: str | None
) -> _Target:
    if not callable(target):
        raise ConfigError(f"`onnx_function` decorates functions and classes, not {target!r}")
    function = OnnxFunction(
        _checked("namespace", namespace) or _DEFAULT_DOMAIN,
        _checked("type", type) or _checked("name", name) or _python_name(target),
    )
    if function.domain == "ai.onnx" or function.domain.startswith("ai.onnx."):
        raise ConfigError(f"`namespace` is '{function.domain}', which belongs to ONNX itself")
    # A class inherits the attribute of its base, but becomes a function of its own.
    decorated: OnnxFunction | None = getattr(target, "__dict__", {}).get(_MARK)
    if decorated is not None:
        if decorated != function:
            raise ConfigError(
                f"`{_python_name(target)}` is already the ONNX function `{'::'.join(decorated)}` "
                f"and cannot be `{'::'.join(function)}` too"
            )
        return target
    if inspect.isclass(target):
        return cast(_Target, _decorated_class(target, function))
    return cast(_Target, _decorated_callable(target, function))


def _checked(option: str, text: Any) -> str | None:
    if text is not None and not (isinstance(text, str) and text):
        raise ConfigError(f"{quoted(option)} is {text!r}, which is not a name")
    return text


def _python_name(target: Any) -> str:
    """Return the name of a function or class, through partials; that of the class for an object."""
    while isinstance(target, functools.partial):
        target = target.func
    name = getattr(target, "__name__", None) or type(target).__name__
    return str(name).strip("<>")


def _decorated_callable(target: Callable[..., Any], function: OnnxFunction) -> Callable[..., Any]:
    @functools.wraps(target, updated=("__dict__",) if inspect.isroutine(target) else ())
    def call(*args: Any, **kwargs: Any) -> Any:
        from . import markers

        return markers.call(function, target, args, kwargs)

    setattr(call, _MARK, function)
    return call


def _decorated_class(target: type[Any], function: OnnxFunction) -> type[Any]:
    """Replace the `__call__` of a class; return the class."""
    methods = (vars(base)["__call__"] for base in target.__mro__ if "__call__" in vars(base))
    method = next(methods, None)
    if method is None:
        raise ConfigError(
            f"{quoted(target.__name__)} has no `__call__`, so it cannot be a function"
        )

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        from . import markers

        return markers.call(function, method.__get__(self, type(self)), args, kwargs)

    target.__call__ = call
    setattr(target, _MARK, function)
    return target
