"""The options of an export: Python, Rust and every place of a setting know the same ones."""

from __future__ import annotations

import dataclasses
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import pytest

import jax2onnx
from jax2onnx import _config, _core, _tiers
from jax2onnx._options import ExportOptions
from jax2onnx._settings import DEFAULTS, SETTINGS, Setting
from jax2onnx._tracing import trace
from testkit import ROOT

NAMES = [field.name for field in dataclasses.fields(ExportOptions)]


def options() -> dict[str, Any]:
    return vars(ExportOptions(tiers=_tiers.rules(trace.folders())))


def export(fields: dict[str, Any]) -> bytes | None:
    options = dataclasses.make_dataclass("Options", fields)(**fields)
    return _core.export(jax.make_jaxpr(lambda x: x + 1)(1.0), options)


def test_the_core_reads_every_option() -> None:
    assert export(options())


def test_an_option_that_only_python_knows_is_refused() -> None:
    with pytest.raises(TypeError, match=r"does not read these options: \['added'\]"):
        export({**options(), "added": 1})


@pytest.mark.parametrize("name", NAMES)
def test_an_option_that_only_rust_knows_is_refused(name: str) -> None:
    fewer = options()
    del fewer[name]
    with pytest.raises(TypeError, match=f"`ExportOptions` has no field `{name}`"):
        export(fewer)


def test_a_field_of_another_type_is_named() -> None:
    with pytest.raises(TypeError, match=r"`checks_weights` of `ExportOptions`: .* not an instance"):
        export({**options(), "checks_weights": "new"})


@pytest.mark.parametrize(("name", "value"), [("opset", "new"), ("unroll", -1), ("nan", "no")])
def test_an_option_of_another_type_is_named(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"`Settings` has no `{name}` that the core can read"):
        export({**options(), "settings": DEFAULTS._replace(**{name: value})})


def test_the_generated_files_are_those_of_the_table() -> None:
    command = [sys.executable, str(ROOT / "tools" / "options.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


#: A value of each kind: the argument, the variable, the entry in `pyproject.toml`, the value of the
#: flag, and the setting.
VALUES: dict[str, tuple[Any, str, str, str | None, Any]] = {
    "text": ("net", "net", '"net"', "net", "net"),
    "number": (17, "17", "17", "17", 17),
    "names": (["a", "b"], "a,b", '["a", "b"]', "a,b", ["a", "b"]),
    "targets": (["tract"], "tract", '["tract"]', "tract", ["tract"]),
    "positions": ([0, 2], "0,2", "[0, 2]", "0,2", [0, 2]),
    "path": ("/calls.txt", "/calls.txt", '"/calls.txt"', "/calls.txt", "/calls.txt"),
    "flag or path": (True, "on", "true", None, True),
    "code": (["/lib"], "/lib", '["/lib"]', "/lib", ["/lib"]),
    "prefixes": (["/lib=lib"], "/lib=lib", '["/lib=lib"]', "/lib=lib", [("/lib", "lib")]),
}


def values_of(setting: Setting) -> tuple[Any, str, str, str | None, Any]:
    if setting.kind == "flag":
        # The flag of an option that is on by default turns it off.
        value = not setting.flag.startswith("no-")
        return value, "1" if value else "0", str(value).lower(), None, value
    if setting.name == "provenance":
        # The variable turns provenance on; another variable chooses the level.
        return "minimal", "1", '"minimal"', "minimal", "minimal"
    if setting.kind == "word":
        word = next(word for word in setting.words if word != setting.default)
        return word, word, f'"{word}"', word, word
    return VALUES[setting.kind]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for setting in SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    return tmp_path


def found(setting: Setting, **arguments: Any) -> tuple[Any, list[str]]:
    """Return the value of a setting, and where it comes from."""
    each = next(each for each in _config.found(arguments) if each.setting is setting)
    return plain(each.value), list(each.sources)


def plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return list(value) if isinstance(value, tuple) else value


def flagged(setting: Setting, value: str | None) -> dict[str, Any]:
    """Return the options that the command line passes to Python."""
    line = ["jax2onnx", "export", "m:f", "-o", "m.onnx", f"--{setting.flag}"]
    line += [] if value is None else [value]
    # The flag may need another one.
    line += ["--source-map"] if setting.name == "sources" else []
    passed: dict[str, Any] = {}

    def python(command: str, **keywords: Any) -> int:
        passed.update(keywords["options"])
        return 0

    assert _core.main(line, python) == 0
    return passed


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_an_option_has_an_argument_a_variable_a_key_and_a_flag(
    setting: Setting, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argument, variable, toml, flag, value = values_of(setting)
    assert found(setting) == (plain(setting.default), [])
    parameter = inspect.signature(jax2onnx.to_onnx).parameters[setting.name]
    assert parameter.default is None
    assert f"\n        {setting.name}: " in (jax2onnx.to_onnx.__doc__ or "")
    assert found(setting, **{setting.name: argument}) == (value, ["argument"])
    options = flagged(setting, flag)
    assert found(setting, **options) == (value, ["argument"])
    assert set(options) <= set(inspect.signature(jax2onnx.to_onnx).parameters)
    (folder / "pyproject.toml").write_text(f"[tool.jax2onnx]\n{setting.key} = {toml}\n")
    assert found(setting) == (value, ["pyproject.toml"])
    (folder / "pyproject.toml").unlink()
    monkeypatch.setenv(setting.variable, variable)
    assert found(setting) == (value, [setting.variable])


def test_to_onnx_has_no_other_arguments() -> None:
    one_call = {"fn", "inputs", "input_params", "return_mode", "output_path", "data", "budget"}
    arguments = set(inspect.signature(jax2onnx.to_onnx).parameters)
    assert arguments - one_call == {setting.name for setting in SETTINGS}


def test_a_variable_of_a_file_concerns_only_exports_to_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX2ONNX_WEIGHTS", "external")
    monkeypatch.setenv("JAX2ONNX_SOURCE_MAP", "1")
    jax2onnx.to_onnx(lambda x: x + 1, [(3,)])
    path = folder / "m.onnx"
    jax2onnx.to_onnx(lambda x: x + 1, [(3,)], return_mode="file", output_path=path)
    assert (folder / "m.onnx.map").exists()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("OPSET", "30", r"^opset 30 is not supported \(JAX2ONNX_OPSET\): use 16 to 26$"),
        ("OPSET", "9" * 5000, r"^opset '9+' is not supported \(JAX2ONNX_OPSET\)"),
        (
            "WEIGHTS",
            "here",
            r"^`here` is not a place for weights \(JAX2ONNX_WEIGHTS\): use",
        ),
        ("UNROLL", "-1", r"^`-1` is not a number of nodes \(JAX2ONNX_UNROLL\): use a whole number"),
    ],
)
def test_a_wrong_variable_is_named(
    name: str, text: str, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"JAX2ONNX_{name}", text)
    with pytest.raises(jax2onnx.ConfigError, match=message):
        _config.settings(writes_file=True)
