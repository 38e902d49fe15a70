"""`@onnx_function`: a Python function or class whose calls become calls of an ONNX function."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, cast, overload

from .._errors import ConfigError

_Target = TypeVar("_Target", bound=Callable[..., Any])

_DEFAULT_DOMAIN: Final = "custom"
#: Where a decorated callable says what it is; a second decorator reads it.
_MARK: Final = "__onnx_function__"


class OnnxFunction(NamedTuple):
    """What a decorated callable becomes."""

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
    """Make every call of a function or of the instances of a class a call of an ONNX function.

    What the body computes stays as it is, under `jit`, `vmap` and `grad` too. In the model, calls
    whose bodies are equal call one function; weights that the body reads become inputs of it.

    Args:
        target: The function, or a class with `__call__`, whose `__call__` is replaced.
        unique: Ask for one definition for equal calls. They share one in any case.
        namespace: The domain of the function, `"custom"` where it is left out.
        name: The name of the function, that of the Python function or class where it is left out.
        type: The same as `name`, and comes before it.

    Returns:
        The decorated function, or the class itself; without a target, a decorator.

    Raises:
        ConfigError: The target cannot be called, is decorated with other options already, or an
            option is not a text that ONNX takes.
    """
    # One definition for equal bodies is all that there is, so the flag has nothing to change.
    del unique
    if target is None:
        return functools.partial(_decorate, namespace=namespace, name=name, type=type)
    return _decorate(target, namespace=namespace, name=name, type=type)


def _decorate(
    target: _Target, *, namespace: str | None, name: str | None, type: str | None
) -> _Target:
    if not callable(target):
        raise ConfigError(f"`onnx_function` decorates functions and classes, and not {target!r}")
    function = OnnxFunction(
        _checked("namespace", namespace) or _DEFAULT_DOMAIN,
        _checked("type", type) or _checked("name", name) or _python_name(target),
    )
    if function.domain == "ai.onnx" or function.domain.startswith("ai.onnx."):
        raise ConfigError(f"`namespace` is '{function.domain}', which is ONNX's own")
    # A class inherits the mark of its base, and is one of its own.
    decorated: OnnxFunction | None = getattr(target, "__dict__", {}).get(_MARK)
    if decorated is not None:
        if decorated != function:
            raise ConfigError(
                f"`{_python_name(target)}` is the ONNX function `{'::'.join(decorated)}` already, "
                f"and cannot be `{'::'.join(function)}` too"
            )
        return target
    if inspect.isclass(target):
        return cast(_Target, _decorated_class(target, function))
    return cast(_Target, _decorated_callable(target, function))


def _checked(option: str, text: Any) -> str | None:
    if text is not None and not (isinstance(text, str) and text):
        raise ConfigError(f"`{option}` is {text!r}, which is not a name")
    return text


def _python_name(target: Any) -> str:
    """The name of a function or class, of what a partial binds, or of the class of an instance."""
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
    """The class itself, with another `__call__`."""
    methods = (vars(base)["__call__"] for base in target.__mro__ if "__call__" in vars(base))
    method = next(methods, None)
    if method is None:
        raise ConfigError(f"`{target.__name__}` has no `__call__`, so it cannot be a function")

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        from . import markers

        return markers.call(function, method.__get__(self, type(self)), args, kwargs)

    target.__call__ = call
    setattr(target, _MARK, function)
    return target
