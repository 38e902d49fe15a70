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
from typing import Any, NamedTuple, TypeAlias

from . import _core, _project
from ._errors import ConfigError
from ._settings import BY_NAME, SETTINGS, Setting
from ._types import Level, PathPolicy, Settings, StrPath
from ._words import quoted

Prefixes: TypeAlias = Iterable[str] | Mapping[str, str]


class _Value(NamedTuple):
    """A value of a setting, and where it comes from."""

    value: Any
    #: An argument, a variable or a key, as messages about an entry of a list show it.
    name: str
    #: The same for messages about the value; empty for an argument.
    where: str
    #: The variable or the file.
    source: str


class Found(NamedTuple):
    """The value of a setting, and where it comes from."""

    setting: Setting
    value: Any
    #: Such as `JAX2ONNX_NAN` or `pyproject.toml`; empty for the default.
    sources: tuple[str, ...]


class _Scope(NamedTuple):
    """The settings of the enclosing `with provenance(...)` blocks."""

    provenance: Level | None = None
    provenance_paths: PathPolicy | None = None
    user_code: tuple[str, ...] = ()
    library_code: tuple[str, ...] = ()
    provenance_prefixes: tuple[tuple[str, str], ...] = ()


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
        prefixes: Folders, and the names to write instead of them: `["/home/me/proj=proj"]`, or a
            dictionary.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax2onnx
        >>> with jax2onnx.provenance("minimal"):
        ...     model = jax2onnx.to_onnx(jnp.sin, [(3,)])
        >>> sorted(prop.key for prop in model.graph.node[0].metadata_props)
        ['pkg.jax2onnx.callsite', 'pkg.jax2onnx.plugin']
    """
    outer = _scope.get()
    inner = outer._replace(
        provenance=outer.provenance if level is None else _checked("provenance", level),
        provenance_paths=outer.provenance_paths
        if paths is None
        else _checked("provenance_paths", paths),
        user_code=outer.user_code + _places(user_code, "user_code"),
        library_code=outer.library_code + _places(library_code, "library_code"),
        provenance_prefixes=_prefixes(prefixes, "prefixes") + outer.provenance_prefixes,
    )
    token = _scope.set(inner)
    try:
        yield
    finally:
        _scope.reset(token)


def settings(*, writes_file: bool = False, **arguments: Any) -> Settings:
    """Return the settings of an export with these arguments. None stands for "not given"."""
    return Settings(
        **{each.setting.name: each.value for each in found(arguments, writes_file=writes_file)}
    )


def found(arguments: Mapping[str, Any], *, writes_file: bool = True) -> Iterator[Found]:
    """Yield the value of each setting."""
    every = list(_found(arguments, writes_file=writes_file))
    target = next(each for each in every if each.setting.name == "target")
    for each in every:
        is_opset = each.setting.name == "opset" and not each.sources
        yield _newest_opset(each, target) if is_opset else each


def _newest_opset(opset: Found, target: Found) -> Found:
    """Return an opset that all runtimes load."""
    newest = _core.target_opset(target.value)
    if newest is None or newest >= opset.value:
        return opset
    return Found(opset.setting, newest, target.sources)


def _found(arguments: Mapping[str, Any], *, writes_file: bool) -> Iterator[Found]:
    scope = _scope.get()
    project = _project.read()
    for setting in SETTINGS:
        values = _values(setting, arguments, scope, project, writes_file=writes_file)
        if setting.form.adds_up:
            all_values = list(values)
            parse = _prefixes if setting.kind == "prefixes" else _places
            parsed: list[Any] = [
                entry for each in all_values for entry in parse(each.value, each.name)
            ]
            yield Found(setting, tuple(parsed), tuple(each.source for each in all_values))
        elif (first := next(values, None)) is not None:
            # Another value may be wrong, but it does not count.
            yield Found(setting, setting.check(first.value, first.where), (first.source,))
        else:
            yield Found(setting, setting.default, ())


def _values(
    setting: Setting,
    arguments: Mapping[str, Any],
    scope: "_Scope",
    project: _project.Project,
    *,
    writes_file: bool,
) -> Iterator[_Value]:
    """Yield the values of a setting, the one that wins first."""
    argument = arguments.get(setting.name)
    if argument is not None:
        yield _Value(argument, setting.name, "", "argument")
    block = getattr(scope, setting.name, None)
    if block is not None and block != ():
        yield _Value(block, setting.name, "", "provenance(...)")
    if setting.needs_file and not writes_file:
        return
    variable = setting.from_environment()
    if variable is not None:
        yield _Value(variable, setting.variable, setting.variable, setting.variable)
    if setting.name in project.values:
        key, value = project.values[setting.name]
        yield _Value(value, key, f"{quoted(key)} of pyproject.toml", project.path or "")


def _checked(name: str, value: Any) -> Any:
    return BY_NAME[name].check(value, "")


def _places(places: Iterable[StrPath], argument: str) -> tuple[str, ...]:
    """Make paths absolute and packages folders; keep names of code without a file."""
    if isinstance(places, str | os.PathLike):
        raise ConfigError(
            f"{quoted(argument)} must be a list of packages, files and folders: use [{places!r}]"
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
        raise ConfigError(f"{quoted(argument)} must be a list of `folder=name`: use [{prefixes!r}]")
    if isinstance(prefixes, Mapping):
        return tuple((os.path.abspath(folder), name) for folder, name in prefixes.items())
    pairs = []
    for entry in prefixes:
        if isinstance(entry, tuple):
            pairs.append(entry)
            continue
        folder, sign, name = entry.rpartition("=")
        if not sign or not folder:
            raise ConfigError(f"{quoted(entry)} of {quoted(argument)} is not `folder=name`")
        pairs.append((os.path.abspath(folder), name))
    return tuple(pairs)
