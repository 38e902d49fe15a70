"""Read the settings in the `pyproject.toml` of the project around the current directory."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from . import _core
from ._errors import ConfigError
from ._settings import BY_KEY, SETTINGS
from ._words import did_you_mean, quoted

_SECTION: Final = "tool.jax2onnx"
#: How a file with a section mentions it, however the section is written.
_MENTION: Final = b"jax2onnx"
#: A larger file is not read.
_MAX_BYTES: Final = 1 << 24


class Project(NamedTuple):
    """The section `[tool.jax2onnx]`; paths start at the folder of the file."""

    #: The path of the file, relative to the current directory; None if there is no section.
    path: str | None = None
    #: The keys and values by the name of their setting.
    values: Mapping[str, tuple[str, Any]] = MappingProxyType({})


def read() -> Project:
    """Return the section in the nearest `pyproject.toml`, from the current directory upwards."""
    for path in _paths():
        try:
            data = _contents(path)
        except OSError:
            continue
        # Other tools report what is wrong with a file that does not mention jax2onnx.
        return _section(data, path.parent) if _MENTION in data else Project()
    return Project()


def file() -> Path | None:
    """Return the nearest `pyproject.toml`."""
    return next(_paths(), None)


def _paths() -> Iterator[Path]:
    for folder in _folders():
        path = folder / "pyproject.toml"
        # Reading anything but a regular file might not end.
        with suppress(OSError):
            if path.is_file():
                yield path


def _contents(path: Path) -> bytes:
    with path.open("rb") as opened:
        data = opened.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        shown = quoted(os.path.relpath(path))
        raise ConfigError(f"{shown} has more than {_MAX_BYTES} bytes, so it is not read")
    return data


def _folders() -> Iterator[Path]:
    try:
        here = Path.cwd()
    except OSError:
        # The directory was removed.
        return
    yield here
    yield from here.parents


@lru_cache(maxsize=1)
def _parsed(data: bytes) -> Mapping[str, Any]:
    """Return the tables of a file. A program that exports often parses the same file once."""
    import tomllib

    return tomllib.loads(data.decode("utf-8"))


def _section(data: bytes, folder: Path) -> Project:
    path = os.path.relpath(folder / "pyproject.toml")
    where = quoted(path)
    try:
        tools: Any = _parsed(data).get("tool", {})
    except RecursionError as error:
        raise ConfigError(f"{where} is nested too deeply") from error
    except ValueError as error:
        # Also invalid UTF-8, and numbers and dates that Python cannot represent.
        raise ConfigError(f"{where} is not TOML: {_core.clean(str(error))}") from error
    section = tools.get("jax2onnx", {}) if isinstance(tools, dict) else tools
    if not isinstance(section, dict):
        raise ConfigError(f"`{_SECTION}` in {where} is not a table")
    values: dict[str, tuple[str, Any]] = {}
    for key, value in section.items():
        if key not in BY_KEY:
            keys = [setting.key for setting in SETTINGS]
            advice = did_you_mean(key, keys) or f"use {', '.join(keys)}"
            raise ConfigError(f"{quoted(key)} is not a key of `{_SECTION}` in {where}: {advice}")
        setting = BY_KEY[key]
        if not setting.form.type.is_of(value):
            raise ConfigError(
                f"{quoted(key)} of `{_SECTION}` in {where} is not {setting.form.type.words}"
            )
        if setting.name in values:
            raise ConfigError(
                f"`{_SECTION}` in {where} contains both `{values[setting.name][0]}` and "
                f"{quoted(key)}"
            )
        values[setting.name] = (key, _from_folder(setting.kind, value, folder))
    return Project(path, values)


def _from_folder(kind: str, value: Any, folder: Path) -> Any:
    """Make the paths in a value start at the folder of the file."""
    match kind:
        case "code":
            return _code(value, folder)
        case "prefixes":
            return tuple(str(folder / entry) for entry in value)
        case "path":
            return str(folder / value)
    return value


def _code(entries: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return each entry as a path, and also as a package if it could be one."""
    packages = [entry for entry in entries if "/" not in entry]
    return (*packages, *(str(folder / entry) for entry in entries))
