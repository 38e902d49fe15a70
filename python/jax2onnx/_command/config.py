"""Run `jax2onnx config`, which the command line passes to Python."""

from collections.abc import Sequence
from typing import Any, Final

from .. import _config
from .._errors import ConfigError
from .._words import lines
from . import console

_NOT_UNDERSTOOD: Final = 2
_DEFAULT: Final = "default"


def run(*, json: bool) -> int:
    """Print each setting, its value, and where the value comes from. Return the exit code."""
    try:
        found = list(_config.found({}))
    except ConfigError as error:
        console.error(error)
        if json:
            console.error_for_programs(error)
        return _NOT_UNDERSTOOD
    if json:
        console.answer_for_programs(_summary(found))
    else:
        console.answer(_table(found))
    return 0


def _summary(found: Sequence[_config.Found]) -> dict[str, Any]:
    """Return the settings for programs."""
    return {
        "version": 1,
        "settings": [
            {
                "key": each.setting.key,
                "value": _plain(each.value),
                "from": list(each.sources) or [_DEFAULT],
                "variable": each.setting.variable,
                "default": _plain(each.setting.default),
            }
            for each in found
        ],
    }


def _plain(value: Any) -> Any:
    """Return a value as `pyproject.toml` would contain it."""
    if isinstance(value, tuple):
        return [f"{each[0]}={each[1]}" if isinstance(each, tuple) else each for each in value]
    return value


def _table(found: Sequence[_config.Found]) -> str:
    """Return the settings for people: one line each, and one for each further entry of a list."""
    rows = []
    for each in found:
        values = _shown(each.value)
        sources = ", ".join(each.sources) or _DEFAULT
        rows.append((each.setting.key, values[0], sources))
        rows += [("", value, "") for value in values[1:]]
    key = max(len(row[0]) for row in rows)
    # A long path does not move the last column of the other lines.
    value = max(len(row[1]) for row in rows if len(row[1]) <= _MAX_VALUE)
    return lines(f"{row[0]:{key}}  {row[1]:{value}}  {row[2]}".rstrip() for row in rows)


_MAX_VALUE: Final = 24


def _shown(value: Any) -> list[str]:
    if value is None or value == ():
        return ["-"]
    if isinstance(value, bool):
        return [str(value).lower()]
    if isinstance(value, list | tuple):
        return [str(entry) for entry in _plain(tuple(value))]
    return [str(value)]
