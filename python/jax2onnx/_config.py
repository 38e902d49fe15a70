"""Read the settings, and decide which of them wins.

An argument of `to_onnx` takes precedence over `with provenance(...)`, which takes precedence over
the environment, which takes precedence over the section `[tool.jax2onnx]` of `pyproject.toml`.
`user_code`, `library_code` and prefixes add up instead.
"""

import importlib.util
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from . import _project
from ._errors import ConfigError

Level: TypeAlias = Literal["off", "minimal", "full", "indexed"]
PathPolicy: TypeAlias = Literal["relative", "absolute", "basename"]
NanMode: TypeAlias = Literal["exact", "ignore"]
StrPath: TypeAlias = str | os.PathLike[str]
Prefixes: TypeAlias = Iterable[str] | Mapping[str, str]

ENABLE: Final = "JAX2ONNX_ENABLE_STACKTRACE_METADATA"
DETAIL: Final = "JAX2ONNX_STACKTRACE_DETAIL"
PATHS: Final = "JAX2ONNX_STACKTRACE_PATHS"
PREFIXES: Final = "JAX2ONNX_STACKTRACE_PREFIXES"
USER_CODE: Final = "JAX2ONNX_USER_CODE"
LIBRARY_CODE: Final = "JAX2ONNX_LIBRARY_CODE"
NAN: Final = "JAX2ONNX_NAN"
UNROLL: Final = "JAX2ONNX_UNROLL"
MODULE_SCOPES: Final = "JAX2ONNX_MODULE_SCOPES"

_Word = TypeVar("_Word", bound=str)

_LEVELS: Final[tuple[Level, ...]] = ("off", "minimal", "full", "indexed")
_DETAILS: Final[tuple[Level, ...]] = ("minimal", "full", "indexed")
_POLICIES: Final[tuple[PathPolicy, ...]] = ("relative", "absolute", "basename")
_NAN_MODES: Final[tuple[NanMode, ...]] = ("exact", "ignore")
UNROLLED_NODES: Final = 32
"""How many nodes the rounds of a loop may become by default."""
_OFF: Final = frozenset({"", "0", "false", "off", "no"})


class Settings(NamedTuple):
    """How much provenance to write, whose code is whose, and what the graph may look like."""

    level: Level
    paths: PathPolicy
    user_code: tuple[str, ...]
    library_code: tuple[str, ...]
    #: Folders, and the names to write in their place.
    prefixes: tuple[tuple[str, str], ...]
    nan: NanMode = "exact"
    unroll: int = UNROLLED_NODES


class _Scope(NamedTuple):
    """The settings of the enclosing `with provenance(...)` blocks."""

    level: Level | None = None
    paths: PathPolicy | None = None
    user_code: tuple[str, ...] = ()
    library_code: tuple[str, ...] = ()
    prefixes: tuple[tuple[str, str], ...] = ()


_scope: ContextVar[_Scope] = ContextVar("jax2onnx_provenance", default=_Scope())  # noqa: B039


@contextmanager
def provenance(
    level: Level | None = None,
    *,
    paths: PathPolicy | None = None,
    user_code: Iterable[StrPath] = (),
    library_code: Iterable[StrPath] = (),
    prefixes: Prefixes = (),
) -> Iterator[None]:
    """Set how much provenance the exports inside the block write.

    An option that you leave out keeps the value of the enclosing block. Each thread and each task
    has its own settings.

    Args:
        level: `"off"`, `"minimal"`, `"full"` or `"indexed"`.
        paths: How to write the paths of files: `"relative"`, `"absolute"` or `"basename"`.
        user_code: Packages, files and folders whose lines count as yours.
        library_code: Packages, files and folders whose lines count as a library's.
        prefixes: Folders, and the names to write in their place: `["/home/x/proj=proj"]`, or a
            dictionary.
    """
    outer = _scope.get()
    inner = outer._replace(
        level=outer.level if level is None else _level(level),
        paths=outer.paths if paths is None else _policy(paths),
        user_code=outer.user_code + _places(user_code, "user_code"),
        library_code=outer.library_code + _places(library_code, "library_code"),
        prefixes=_prefixes(prefixes, "prefixes") + outer.prefixes,
    )
    token = _scope.set(inner)
    try:
        yield
    finally:
        _scope.reset(token)


def settings(
    level: str | None = None,
    paths: str | None = None,
    *,
    user_code: Iterable[StrPath] = (),
    prefixes: Prefixes = (),
    nan: str | None = None,
    unroll: int | None = None,
) -> Settings:
    """Return the settings of an export with these arguments."""
    scope = _scope.get()
    project = _project.read()
    return Settings(
        level=scope.level or _environment_level() if level is None else _level(level),
        paths=scope.paths or _environment_policy() if paths is None else _policy(paths),
        user_code=_places(user_code, "user_code")
        + scope.user_code
        + _places(_listed(USER_CODE), USER_CODE)
        + _places(project.user_code, _project.USER_CODE),
        library_code=scope.library_code
        + _places(_listed(LIBRARY_CODE), LIBRARY_CODE)
        + _places(project.library_code, _project.LIBRARY_CODE),
        prefixes=_prefixes(prefixes, "provenance_prefixes")
        + scope.prefixes
        + _prefixes(_listed(PREFIXES), PREFIXES)
        + _prefixes(project.prefixes, _project.PREFIXES),
        nan=_nan(nan, project.nan),
        unroll=_unroll(unroll, project.unroll),
    )


def module_scopes() -> bool:
    """Return whether nodes of nnx and equinox models are named by the path of their module."""
    return os.environ.get(MODULE_SCOPES, "on").lower() not in _OFF


def _level(word: str) -> Level:
    return _one_of(word, _LEVELS, "a provenance level")


def _policy(word: str) -> PathPolicy:
    return _one_of(word, _POLICIES, "a path policy")


def _nan(argument: str | None, project: str | None) -> NanMode:
    if argument is not None:
        return _one_of(argument, _NAN_MODES, "a NaN mode")
    if variable := os.environ.get(NAN):
        return _one_of(variable, _NAN_MODES, f"a NaN mode ({NAN})")
    if project is not None:
        return _one_of(project, _NAN_MODES, f"a NaN mode (`{_project.NAN}` of pyproject.toml)")
    return "exact"


def _unroll(argument: int | None, project: int | None) -> int:
    if argument is not None:
        return _count(argument, "`unroll`")
    if variable := os.environ.get(UNROLL):
        return _count(int(variable) if variable.isdecimal() else variable, UNROLL)
    if project is not None:
        return _count(project, f"`{_project.UNROLL}` of pyproject.toml")
    return UNROLLED_NODES


def _count(value: object, where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ConfigError(f"`{value}` is not a number of nodes ({where}): use 0 to keep all loops")


def _environment_level() -> Level:
    if os.environ.get(ENABLE, "").lower() in _OFF:
        return "off"
    detail = os.environ.get(DETAIL) or "minimal"
    return _one_of(detail, _DETAILS, f"a level of detail ({DETAIL})")


def _environment_policy() -> PathPolicy:
    policy = os.environ.get(PATHS) or "relative"
    return _one_of(policy, _POLICIES, f"a path policy ({PATHS})")


def _listed(variable: str) -> list[str]:
    """Return the entries of an environment variable, which `os.pathsep` separates."""
    return [entry for entry in os.environ.get(variable, "").split(os.pathsep) if entry]


def _one_of(word: str, allowed: tuple[_Word, ...], what: str) -> _Word:
    for known in allowed:
        if word == known:
            return known
    raise ConfigError(f"`{word}` is not {what}: use {', '.join(allowed)}")


def _places(places: Iterable[StrPath], argument: str) -> tuple[str, ...]:
    """Make paths absolute and packages folders; keep names of code without a file."""
    if isinstance(places, str | os.PathLike):
        raise ConfigError(
            f"`{argument}` is a list of packages, files and folders: use [{places!r}]"
        )
    found: list[str] = []
    for place in places:
        name = os.fspath(place)
        if name.startswith("<"):
            found.append(name)
        else:
            # A name may be both a package and a folder in the current directory.
            found += _package_folders(name)
            found.append(os.path.abspath(name))
    return tuple(dict.fromkeys(found))


def _package_folders(name: str) -> list[str]:
    """Return the folders, or the file, of a module, without importing it."""
    top, *inner = name.split(".")
    if not all(part.isidentifier() for part in (top, *inner)):
        return []
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        return [os.path.abspath(spec.origin)] if spec.has_location and spec.origin else []
    places = [os.path.abspath(os.path.join(p, *inner)) for p in spec.submodule_search_locations]
    return [place if os.path.isdir(place) else f"{place}.py" for place in places]


def _prefixes(prefixes: Prefixes, argument: str) -> tuple[tuple[str, str], ...]:
    if isinstance(prefixes, str):
        raise ConfigError(f"`{argument}` is a list of `folder=name`: use [{prefixes!r}]")
    if isinstance(prefixes, Mapping):
        return tuple((os.path.abspath(folder), name) for folder, name in prefixes.items())
    pairs = []
    for entry in prefixes:
        folder, sign, name = entry.rpartition("=")
        if not sign or not folder:
            raise ConfigError(f"`{entry}` of `{argument}` is not `folder=name`")
        pairs.append((os.path.abspath(folder), name))
    return tuple(pairs)
