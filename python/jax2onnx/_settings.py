"""The settings of an export: one table for arguments, the environment and `pyproject.toml`."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from ._errors import ConfigError
from ._words import quoted

ENABLE: Final = "JAX2ONNX_ENABLE_STACKTRACE_METADATA"
DETAIL: Final = "JAX2ONNX_STACKTRACE_DETAIL"
PATHS: Final = "JAX2ONNX_STACKTRACE_PATHS"
PREFIXES: Final = "JAX2ONNX_STACKTRACE_PREFIXES"
USER_CODE: Final = "JAX2ONNX_USER_CODE"
LIBRARY_CODE: Final = "JAX2ONNX_LIBRARY_CODE"
NAN: Final = "JAX2ONNX_NAN"
UNROLL: Final = "JAX2ONNX_UNROLL"
MODULE_SCOPES: Final = "JAX2ONNX_MODULE_SCOPES"

UNROLLED_NODES: Final = 32
"""The default limit of the number of nodes of an unrolled loop."""
OPSETS: Final = range(16, 27)
_OFF: Final = frozenset({"", "0", "false", "off", "no"})

Check: TypeAlias = Callable[[Any, str], Any]
"""Checks a value that comes from a place. The place is empty for an argument."""


class TomlType(NamedTuple):
    """The type of a value in `pyproject.toml`."""

    words: str
    is_of: Callable[[Any], bool]


_STRING: Final = TomlType("a string", lambda value: isinstance(value, str))
_NUMBER: Final = TomlType("a number", lambda value: type(value) is int)
_FLAG: Final = TomlType("true or false", lambda value: isinstance(value, bool))
_STRINGS: Final = TomlType(
    "a list of strings",
    lambda value: isinstance(value, list) and all(map(_STRING.is_of, value)),
)
_NUMBERS: Final = TomlType(
    "a list of numbers",
    lambda value: isinstance(value, list) and all(map(_NUMBER.is_of, value)),
)


def _unchecked(value: Any, _where: str) -> Any:
    return value


class Setting(NamedTuple):
    """A setting that `pyproject.toml` may contain."""

    #: The argument of `to_onnx`. With dashes, it is the key in `pyproject.toml`.
    name: str
    default: Any
    type: TomlType
    check: Check = _unchecked
    #: The variable of the environment, if any.
    variable: str | None = None
    #: Reads the text of the variable. The result is checked. None stands for "not set".
    read: Callable[[str], Any] = str
    #: Whether values add up; otherwise, one value wins.
    adds_up: bool = False
    #: Whether an export that writes no file ignores the value of the project.
    needs_file: bool = False
    #: Other keys in `pyproject.toml`.
    aliases: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The key in `pyproject.toml`."""
        return self.name.replace("_", "-")


def _one_of(what: str, *allowed: str) -> Check:
    def check(value: Any, where: str) -> Any:
        if value in allowed:
            return value
        raise ConfigError(f"{quoted(value)} is not {what}{_place(where)}: use {', '.join(allowed)}")

    return check


def _opset(value: Any, where: str) -> Any:
    if type(value) is int and value in OPSETS:
        return value
    raise ConfigError(
        f"opset {value!r} is not supported{_place(where)}: use {OPSETS[0]} to {OPSETS[-1]}"
    )


def _count_of_nodes(value: Any, where: str) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    place = _place(where or "`unroll`")
    raise ConfigError(
        f"{quoted(value)} is not a number of nodes{place}: use a whole number, or 0 to keep all "
        "loops"
    )


def _name(value: Any, where: str) -> Any:
    if isinstance(value, str):
        return value
    raise ConfigError(f"`model_name` is {value!r}, which is not a string{_place(where)}")


def _place(where: str) -> str:
    return f" ({where})" if where else ""


def _entries(text: str) -> list[str]:
    """Return the entries of a variable, which `os.pathsep` separates."""
    return [entry for entry in text.split(os.pathsep) if entry]


def _number(text: str) -> Any:
    return int(text) if text.isdecimal() else text


def _level(enabled: str) -> str | None:
    """Return the level that the two variables of the environment ask for."""
    if not enabled:
        return None
    if enabled.lower() in _OFF:
        return "off"
    detail = os.environ.get(DETAIL) or "minimal"
    check = _one_of("a level of detail", "minimal", "full", "indexed")
    level: str = check(detail, DETAIL)
    return level


#: Every setting, in the order in which `jax2onnx config` shows them. The arguments of `to_onnx`
#: that are not here describe one call: the function, its inputs, and what to do with the model.
SETTINGS: Final[Sequence[Setting]] = (
    Setting("opset", 23, _NUMBER, _opset),
    Setting("model_name", "jax_model", _STRING, _name),
    Setting("input_names", None, _STRINGS),
    Setting("output_names", None, _STRINGS),
    Setting("inputs_as_nchw", None, _NUMBERS),
    Setting("outputs_as_nchw", None, _NUMBERS),
    Setting("enable_double_precision", False, _FLAG),
    Setting("export_mode", "standard", _STRING, _one_of("an export mode", "standard", "web")),
    Setting(
        "weights",
        "auto",
        _STRING,
        _one_of("a place for weights", "inline", "external", "auto"),
        needs_file=True,
    ),
    Setting(
        "normalization_mode",
        "auto",
        _STRING,
        _one_of("a normalization mode", "auto", "prefer_native", "force_decomposed"),
    ),
    Setting("optimize", True, _FLAG),
    Setting("nan", "exact", _STRING, _one_of("a NaN mode", "exact", "ignore"), NAN),
    Setting("unroll", UNROLLED_NODES, _NUMBER, _count_of_nodes, UNROLL, _number),
    Setting("explain_passes", False, _FLAG),
    Setting("record_primitive_calls_file", None, _STRING),
    Setting(
        "provenance",
        "off",
        _STRING,
        _one_of("a provenance level", "off", "minimal", "full", "indexed"),
        ENABLE,
        _level,
    ),
    Setting(
        "provenance_paths",
        "relative",
        _STRING,
        _one_of("a path policy", "relative", "absolute", "basename"),
        PATHS,
    ),
    Setting(
        "provenance_prefixes",
        (),
        _STRINGS,
        variable=PREFIXES,
        read=_entries,
        adds_up=True,
        aliases=("path-prefixes",),
    ),
    Setting("user_code", (), _STRINGS, variable=USER_CODE, read=_entries, adds_up=True),
    Setting("library_code", (), _STRINGS, variable=LIBRARY_CODE, read=_entries, adds_up=True),
    Setting("source_map", False, _FLAG, needs_file=True),
    Setting(
        "sources",
        "hash",
        _STRING,
        _one_of("a way to keep sources", "hash", "embed"),
        needs_file=True,
    ),
    Setting(
        "module_scopes",
        # On Python 3.11, it takes longer than the trace.
        hasattr(sys, "monitoring"),
        _FLAG,
        variable=MODULE_SCOPES,
        read=lambda text: text.lower() not in _OFF,
    ),
)

BY_NAME: Final = {setting.name: setting for setting in SETTINGS}
BY_KEY: Final = {key: setting for setting in SETTINGS for key in (setting.key, *setting.aliases)}
