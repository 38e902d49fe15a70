"""The switches, and which of them wins.

An argument of `to_onnx` comes before `with provenance(...)`, that before the environment.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, TypeVar

from ._errors import ConfigError

Level: TypeAlias = Literal["off", "minimal", "full", "indexed"]
PathPolicy: TypeAlias = Literal["relative", "absolute", "basename"]
StrPath: TypeAlias = str | os.PathLike[str]

ENABLE: Final = "JAX2ONNX_ENABLE_STACKTRACE_METADATA"
DETAIL: Final = "JAX2ONNX_STACKTRACE_DETAIL"
PATHS: Final = "JAX2ONNX_STACKTRACE_PATHS"
MODULE_SCOPES: Final = "JAX2ONNX_MODULE_SCOPES"

_Word = TypeVar("_Word", bound=str)

_LEVELS: Final[tuple[Level, ...]] = ("off", "minimal", "full", "indexed")
_DETAILS: Final[tuple[Level, ...]] = ("minimal", "full", "indexed")
_POLICIES: Final[tuple[PathPolicy, ...]] = ("relative", "absolute", "basename")
_OFF: Final = frozenset({"", "0", "false", "off", "no"})


@dataclass(frozen=True)
class Settings:
    """How much provenance is written, and whose code is whose."""

    level: Level
    paths: PathPolicy
    user_code: tuple[str, ...]
    library_code: tuple[str, ...]


@dataclass(frozen=True)
class _Scope:
    """What the enclosing `with provenance(...)` blocks say."""

    level: Level | None = None
    paths: PathPolicy | None = None
    user_code: tuple[str, ...] = ()
    library_code: tuple[str, ...] = ()


_scope: ContextVar[_Scope] = ContextVar("jax2onnx_provenance", default=_Scope())  # noqa: B039


@contextmanager
def provenance(
    level: Level | None = None,
    *,
    paths: PathPolicy | None = None,
    user_code: Iterable[StrPath] = (),
    library_code: Iterable[StrPath] = (),
) -> Iterator[None]:
    """Set how much provenance the exports inside the block write.

    What is left out keeps the value of the enclosing block. Each thread and each task has its own.

    Args:
        level: `"off"`, `"minimal"`, `"full"` or `"indexed"`.
        paths: How files are named: `"relative"`, `"absolute"` or `"basename"`.
        user_code: Files and folders whose lines count as the user's.
        library_code: Files and folders whose lines do not.
    """
    outer = _scope.get()
    inner = replace(
        outer,
        level=outer.level if level is None else _level(level),
        paths=outer.paths if paths is None else _policy(paths),
        user_code=outer.user_code + _places(user_code, "user_code"),
        library_code=outer.library_code + _places(library_code, "library_code"),
    )
    token = _scope.set(inner)
    try:
        yield
    finally:
        _scope.reset(token)


def settings(level: str | None = None, paths: str | None = None) -> Settings:
    """What holds for an export that was given these arguments."""
    scope = _scope.get()
    return Settings(
        level=scope.level or _environment_level() if level is None else _level(level),
        paths=scope.paths or _environment_policy() if paths is None else _policy(paths),
        user_code=scope.user_code,
        library_code=scope.library_code,
    )


def module_scopes() -> bool:
    """Whether nodes of nnx models are named by the path of their module; so unless switched off."""
    return os.environ.get(MODULE_SCOPES, "on").lower() not in _OFF


def _level(word: str) -> Level:
    return _one_of(word, _LEVELS, "a provenance level")


def _policy(word: str) -> PathPolicy:
    return _one_of(word, _POLICIES, "a path policy")


def _environment_level() -> Level:
    if os.environ.get(ENABLE, "").lower() in _OFF:
        return "off"
    detail = os.environ.get(DETAIL) or "minimal"
    return _one_of(detail, _DETAILS, f"a level of detail ({DETAIL})")


def _environment_policy() -> PathPolicy:
    policy = os.environ.get(PATHS) or "relative"
    return _one_of(policy, _POLICIES, f"a path policy ({PATHS})")


def _one_of(word: str, allowed: tuple[_Word, ...], what: str) -> _Word:
    for known in allowed:
        if word == known:
            return known
    raise ConfigError(f"`{word}` is not {what}: use {', '.join(allowed)}")


def _places(places: Iterable[StrPath], argument: str) -> tuple[str, ...]:
    """Make paths absolute; the names of code without a file stay as they are."""
    if isinstance(places, str | os.PathLike):
        raise ConfigError(f"`{argument}` is a list of files and folders: use [{places!r}]")
    names = (os.fspath(place) for place in places)
    return tuple(name if name.startswith("<") else os.path.abspath(name) for name in names)
