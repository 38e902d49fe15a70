"""Read the settings in the `pyproject.toml` of the project around the current directory."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ._errors import ConfigError

USER_CODE: Final = "user-code"
LIBRARY_CODE: Final = "library-code"
PREFIXES: Final = "path-prefixes"
NAN: Final = "nan"
UNROLL: Final = "unroll"

_SECTION: Final = "tool.jax2onnx"
_KEYS: Final = (USER_CODE, LIBRARY_CODE, PREFIXES, NAN, UNROLL)


class Project(NamedTuple):
    """The section `[tool.jax2onnx]`; paths start at the folder of the file."""

    user_code: tuple[str, ...] = ()
    library_code: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    nan: str | None = None
    unroll: int | None = None


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
        raise ConfigError(f"`{_SECTION}` of `{path}` is not a section")
    for key, value in section.items():
        if key not in _KEYS:
            raise ConfigError(
                f"`{key}` is not a key of `{_SECTION}` in `{path}`: use {', '.join(_KEYS)}"
            )
        if key == NAN:
            if not isinstance(value, str):
                raise ConfigError(f"`{key}` of `{_SECTION}` in `{path}` is not a string")
        elif key == UNROLL:
            if not isinstance(value, int):
                raise ConfigError(f"`{key}` of `{_SECTION}` in `{path}` is not a number")
        elif not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise ConfigError(f"`{key}` of `{_SECTION}` in `{path}` is not a list of strings")
    return Project(
        user_code=_code(section.get(USER_CODE, []), folder),
        library_code=_code(section.get(LIBRARY_CODE, []), folder),
        prefixes=tuple(str(folder / entry) for entry in section.get(PREFIXES, [])),
        nan=section.get(NAN),
        unroll=section.get(UNROLL),
    )


def _code(entries: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Return each entry as a path, and also as a package if it could be one."""
    packages = [entry for entry in entries if "/" not in entry]
    return (*packages, *(str(folder / entry) for entry in entries))
