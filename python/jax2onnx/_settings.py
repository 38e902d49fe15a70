"""The settings of an export: the table of `crates/options`, and how each place writes a value."""

import os
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from . import _core
from ._errors import ConfigError
from ._types import Settings

DETAIL: Final = "JAX2ONNX_STACKTRACE_DETAIL"
"""The variable that chooses the level if the variable of `provenance` turns provenance on."""
_OFF: Final = frozenset({"", "0", "false", "off", "no"})
_ON: Final = frozenset({"1", "true", "on", "yes"})
#: Longer numbers are out of range.
_MAX_DIGITS: Final = 18


class TomlType(NamedTuple):
    """The type of a value in `pyproject.toml`."""

    words: str
    is_of: Callable[[Any], bool]


def _list_of(words: str, entry: TomlType) -> TomlType:
    return TomlType(
        f"a list of {words}", lambda value: isinstance(value, list) and all(map(entry.is_of, value))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_STRING: Final = TomlType("a string", lambda value: isinstance(value, str))
_NUMBER: Final = TomlType("a number", _is_number)
_FLAG: Final = TomlType("true or false", lambda value: isinstance(value, bool))
_STRINGS: Final = _list_of("strings", _STRING)


def _entries(text: str, separator: str = os.pathsep) -> list[str]:
    """Return the entries of a variable."""
    return [entry for entry in text.split(separator) if entry]


def _number(text: str) -> Any:
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else text


def _flag(text: str) -> bool:
    return text.lower() not in _OFF


class Form(NamedTuple):
    """The form of the values of a kind in `pyproject.toml` and in the environment."""

    type: TomlType
    #: Reads the text of a variable. The result is checked.
    read: Callable[[str], Any] = str
    #: Whether the values of all places add up; otherwise, one value wins.
    adds_up: bool = False


_FORMS: Final = {
    "flag": Form(_FLAG, _flag),
    "text": Form(_STRING),
    "number": Form(_NUMBER, _number),
    "word": Form(_STRING),
    "names": Form(_STRINGS, lambda text: _entries(text, ",")),
    "targets": Form(
        TomlType("a string, or a list of strings", lambda v: _STRING.is_of(v) or _STRINGS.is_of(v)),
        lambda text: _entries(text, ","),
    ),
    "positions": Form(
        _list_of("numbers", _NUMBER), lambda text: list(map(_number, _entries(text, ",")))
    ),
    "path": Form(_STRING),
    "flag or path": Form(_FLAG, lambda text: _flag(text) if text.lower() in _OFF | _ON else text),
    "code": Form(_STRINGS, _entries, adds_up=True),
    "prefixes": Form(_STRINGS, _entries, adds_up=True),
}


class Setting(NamedTuple):
    """A row of the table of options."""

    #: The argument of `to_onnx`. With dashes, it is the key in `pyproject.toml`.
    name: str
    #: The documentation of the argument.
    doc: str
    kind: str
    default: Any
    #: The flag of `jax2onnx export`.
    flag: str
    #: The variable of the environment.
    variable: str
    #: Another key in `pyproject.toml`.
    alias: str | None
    #: Whether an export that writes no file ignores the environment and the project.
    needs_file: bool
    #: The name of the type of words.
    type_alias: str = ""
    words: tuple[str, ...] = ()
    limits: tuple[int, int] = (0, 0)
    #: The message about a wrong value, and which values to use.
    refusal: str = ""
    advice: str = ""

    @property
    def key(self) -> str:
        """The key in `pyproject.toml`."""
        return self.name.replace("_", "-")

    @property
    def form(self) -> Form:
        """Return the value as places write it."""
        return _FORMS[self.kind]

    def check(self, value: Any, where: str) -> Any:
        """Check a value that comes from a place. The place is empty for an argument."""
        match self.kind:
            case "text" if not isinstance(value, str):
                raise ConfigError(
                    f"`{self.name}` is {value!r}, which is not a string{_place(where)}"
                )
            case "targets":
                return _targets(value, where)
            case "word" if value not in self.words:
                raise self._refused(value, where)
            case "number" if not (_is_number(value) and self.limits[0] <= value <= self.limits[1]):
                # An argument has no place. The message names the option in any case.
                name = "" if self.name in self.refusal else f"`{self.name}`"
                raise self._refused(value, where or name)
        return value

    def _refused(self, value: Any, where: str) -> ConfigError:
        text = _core.clean(self.refusal.format(value))
        return ConfigError(f"{text}{_place(where)}: use {self.advice}")

    def from_environment(self) -> Any:
        """Return the value of the variable. None stands for "not set"."""
        text = os.environ.get(self.variable, "")
        if not text:
            return None
        return _level(text) if self.name == "provenance" else self.form.read(text)


def _targets(value: Any, where: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value)
    try:
        _core.target_opset(names)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{_core.clean(str(error))}{_place(where)}") from None
    return names


def _place(where: str) -> str:
    return f" ({where})" if where else ""


def _level(enabled: str) -> str:
    """Return the level that the two variables of the environment ask for."""
    if not _flag(enabled):
        return "off"
    detail = os.environ.get(DETAIL) or "minimal"
    levels = tuple(word for word in BY_NAME["provenance"].words if word != "off")
    if detail not in levels:
        text = _core.clean(f"`{detail}` is not a level of detail ({DETAIL})")
        raise ConfigError(f"{text}: use {', '.join(levels)}")
    return detail


def _setting(row: dict[str, Any]) -> Setting:
    if row["name"] == "module_scopes":
        # On Python 3.11, it takes longer than the trace.
        row["default"] = hasattr(sys, "monitoring")
    return Setting(**row)


#: Every setting, in the order in which `jax2onnx config` shows them.
SETTINGS: Final = tuple(map(_setting, _core.options()))
BY_NAME: Final = {setting.name: setting for setting in SETTINGS}
BY_KEY: Final = {
    key: setting for setting in SETTINGS for key in (setting.key, setting.alias) if key is not None
}
DEFAULTS: Final = Settings(**{setting.name: setting.default for setting in SETTINGS})
OPSETS: Final = range(BY_NAME["opset"].limits[0], BY_NAME["opset"].limits[1] + 1)
