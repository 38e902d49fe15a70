"""`jax2onnx doctor`: what is installed, in a report that never fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jax
import onnxruntime
import pytest

import jax2onnx
from jax2onnx import __main__
from jax2onnx._command import doctor


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(monkeypatch: Any, capfd: Any, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["jax2onnx", "doctor", *arguments])
    assert __main__.main() == 0
    out, err = capfd.readouterr()
    assert err == ""
    return str(out)


def test_versions_switches_and_opsets_are_shown(monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.setenv("JAX2ONNX_NAN", "ignore")
    monkeypatch.setenv("JAX_ENABLE_CHECKS", "0")
    out = ask(monkeypatch, capfd)
    rows = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert rows["jax2onnx"] == jax2onnx.__version__
    assert rows["jax"] == jax.__version__
    assert rows["onnxruntime"] == onnxruntime.__version__
    assert rows["opsets"].startswith("16 to 26; the installed onnx supports up to ")
    assert "CPUExecutionProvider" in rows["providers"]
    assert "nan=ignore (JAX2ONNX_NAN)" in rows["settings"]
    assert "JAX_ENABLE_CHECKS=0" in rows["variables"]


def test_programs_get_the_same_as_json(monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.setenv("JAX2ONNX_NAN", "ignore")
    answer = json.loads(ask(monkeypatch, capfd, "--format", "json"))
    assert (answer["version"], answer["jax2onnx"]) == (1, jax2onnx.__version__)
    assert answer["packages"]["jax"] == jax.__version__
    assert answer["opsets"]["onnxruntime"] in range(16, 27)
    found = {each["key"]: (each["value"], each["from"]) for each in answer["settings"]}
    assert found["nan"] == ("ignore", ["JAX2ONNX_NAN"])


def test_a_setting_that_is_wrong_is_shown(monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.setenv("JAX2ONNX_NAN", "perhaps")
    assert "settings     unknown: ConfigError: " in ask(monkeypatch, capfd)


def test_a_package_that_is_missing_or_broken_is_shown(monkeypatch: Any, capfd: Any) -> None:
    def version(package: str) -> str | None:
        return None if package in ("onnxruntime", "onnx-ir") else "1.0"

    def raise_error() -> None:
        raise OSError("the disk is broken")

    monkeypatch.setattr(doctor, "_version", version)
    monkeypatch.setattr(doctor, "_plugins", raise_error)
    out = ask(monkeypatch, capfd)
    assert "not installed: `allclose`, `compare`, `profile` and `InferenceSession` need it" in out
    assert "plugins      unknown: OSError: the disk is broken" in out
