"""Read the settings in the `pyproject.toml` of the project around the current directory."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ._errors import ConfigError
from ._settings import BY_KEY, SETTINGS
from ._words import did_you_mean

_SECTION: Final = "tool.jax2onnx"


class Project(NamedTuple):
    """The section `[tool.jax2onnx]`; paths start at the folder of the file."""

    #: The path of the file, relative to the current directory; None if there is no section.
    path: str | None = None
    #: The keys and values by the name of their setting.
    values: Mapping[str, tuple[str, Any]] = MappingProxyType({})


def read() -> Project:
    """Return the section in the nearest `pyproject.toml`, from the current directory upwards."""
    for folder in _folders():
        try:
            text = (folder / "pyproject.toml").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        # Other tools report what is wrong with a file that does not mention jax2onnx.
        if _SECTION not in text:
            return Project()
        return _section(text, folder)
    return Project()


def _folders() -> Iterator[Path]:
    try:
        here = Path.cwd()
    except OSError:
        # The directory was removed.
        return
    yield here
    yield from here.parents


def _section(text: str, folder: Path) -> Project:
    import tomllib

    path = os.path.relpath(folder / "pyproject.toml")
    try:
        section = tomllib.loads(text).get("tool", {}).get("jax2onnx", {})
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"`{path}` is not TOML: {error}") from error
    if not isinstance(section, dict):
        raise ConfigError(f"`{_SECTION}` in `{path}` is not a table")
    values: dict[str, tuple[str, Any]] = {}
    for key, value in section.items():
        if key not in BY_KEY:
            keys = [setting.key for setting in SETTINGS]
            advice = did_you_mean(key, keys) or f"use {', '.join(keys)}"
            raise ConfigError(f"`{key}` is not a key of `{_SECTION}` in `{path}`: {advice}")
        setting = BY_KEY[key]
        if not setting.type.is_of(value):
            raise ConfigError(f"`{key}` of `{_SECTION}` in `{path}` is not {setting.type.words}")
        if setting.name in values:
            raise ConfigError(
                f"`{_SECTION}` in `{path}` contains both `{values[setting.name][0]}` and `{key}`"
            )
        values[setting.name] = (key, _from_folder(setting.name, value, folder))
    return Project(path, values)


def _from_folder(name: str, value: Any, folder: Path) -> Any:
    """Make the paths in a value start at the folder of the file."""
    match name:
        case "user_code" | "library_code":
            return _code(value, folder)
        case "provenance_prefixes":
            return tuple(str(folder / entry) for entry in value)
        case "record_primitive_calls_file":
            return str(folder / value)
    return value


def _code(entries: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return each entry as a path, and also as a package if it could be one."""
    packages = [entry for entry in entries if "/" not in entry]
    return (*packages, *(str(folder / entry) for entry in entries))
