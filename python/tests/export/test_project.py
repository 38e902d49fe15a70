"""The section `[tool.jax2onnx]`, and `jax2onnx config`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import onnx
import pytest

import jax2onnx
from jax2onnx import __main__, _config
from jax2onnx._settings import SETTINGS


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for setting in SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)
    return tmp_path


def section(text: str) -> None:
    Path("pyproject.toml").write_text(f"[tool.jax2onnx]\n{text}\n")


def predict(x: Any, y: Any) -> Any:
    return jnp.tanh(x @ y)


def export(**options: Any) -> onnx.ModelProto:
    return jax2onnx.to_onnx(predict, [(2, 3), (3, 2)], **options)


def test_every_option_of_the_project_reaches_the_model() -> None:
    section(
        """
        opset = 21
        model-name = "net"
        input-names = ["a", "b"]
        output-names = ["c"]
        enable-double-precision = true
        provenance = "minimal"
        optimize = false
        record-primitive-calls-file = "calls.txt"
        """
    )
    model = export()
    assert model.opset_import[0].version == 21
    assert model.graph.name == "net"
    assert [value.name for value in model.graph.input] == ["a", "b"]
    assert [value.name for value in model.graph.output] == ["c"]
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
    assert "pkg.jax2onnx.callsite" in {entry.key for entry in model.graph.node[0].metadata_props}
    assert "dot_general" in Path("calls.txt").read_text()


def test_an_argument_takes_precedence_also_if_it_is_the_default() -> None:
    section('opset = 21\nprovenance = "full"\nenable-double-precision = true\noptimize = false')
    model = export(opset=23, provenance="off", enable_double_precision=False, optimize=True)
    assert model.opset_import[0].version == 23
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert not model.graph.node[0].metadata_props


def test_the_environment_takes_precedence_over_the_level_of_the_project(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    section('provenance = "full"\nprovenance-paths = "basename"')
    assert _config.settings().provenance == "full"
    assert _config.settings().provenance_paths == "basename"
    monkeypatch.setenv("JAX2ONNX_ENABLE_STACKTRACE_METADATA", "0")
    assert _config.settings().provenance == "off"
    with jax2onnx.provenance("indexed"):
        assert _config.settings().provenance == "indexed"


def test_where_the_weights_and_the_map_go_concerns_files_only() -> None:
    section('weights = "external"\nsource-map = true\nsources = "embed"')
    export()
    fn = lambda x: x @ jnp.ones((3, 100))  # noqa: E731
    jax2onnx.to_onnx(fn, [(2, 3)], return_mode="file", output_path="m.onnx")
    assert Path("m.onnx.map").exists()
    assert list(Path().glob("m.onnx*data"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'provenence = "full"',
            "`provenence` is not a key of `tool.jax2onnx` in `pyproject.toml`: "
            "did you mean `provenance` or `provenance-paths` or `provenance-prefixes`?",
        ),
        (
            "opsets = 21",
            "`opsets` is not a key of `tool.jax2onnx` in `pyproject.toml`: did you mean `opset`?",
        ),
        ("opset = 30", "opset 30 is not supported (`opset` of pyproject.toml): use 16 to 26"),
        ('opset = "21"', "`opset` of `tool.jax2onnx` in `pyproject.toml` is not a number"),
        (
            "optimize = 1",
            "`optimize` of `tool.jax2onnx` in `pyproject.toml` is not true or false",
        ),
        (
            'inputs-as-nchw = ["0"]',
            "`inputs-as-nchw` of `tool.jax2onnx` in `pyproject.toml` is not a list of numbers",
        ),
        (
            'provenance = "loud"',
            "`loud` is not a provenance level (`provenance` of pyproject.toml): "
            "use off, minimal, full, indexed",
        ),
        (
            "path-prefixes = []\nprovenance-prefixes = []",
            "`tool.jax2onnx` in `pyproject.toml` contains both `path-prefixes` and "
            "`provenance-prefixes`",
        ),
    ],
)
def test_a_mistake_in_the_project_is_named(text: str, message: str) -> None:
    section(text)
    with pytest.raises(jax2onnx.ConfigError) as raised:
        export()
    assert str(raised.value) == message


@pytest.mark.parametrize(
    "data",
    [
        b"tool = 3 # jax2onnx",
        b'tool = "jax2onnx"',
        b"[[tool]]\njax2onnx = 1",
        b"[tool]\njax2onnx = 3",
        b"[tool.jax2onnx]\nopset = " + b"9" * 5000,
        b"[tool.jax2onnx]\nopset = 1e400",
        b"[tool.jax2onnx]\nopset = 1979-13-45",
        b"[tool.jax2onnx]\nmodel-name = " + b"[" * 100_000,
        b"[tool.jax2onnx]\nmodel-name = " + b"{a=" * 5000,
        b"[tool.jax2onnx]\n\xff = 1",
        b"[tool.jax2onnx]\n\0",
        b"\xef\xbb\xbf[tool.jax2onnx]",
        b"[tool.jax2onnx]\n[tool.jax2onnx]",
    ],
)
def test_a_broken_project_is_an_error_of_ours(data: bytes) -> None:
    Path("pyproject.toml").write_bytes(data)
    with pytest.raises(jax2onnx.ConfigError, match=r"pyproject\.toml"):
        export()


def test_the_section_may_be_written_in_any_way_of_toml() -> None:
    for text in (
        "[tool]\njax2onnx = {opset = 99}",
        "[ tool . jax2onnx ]\nopset = 99",
        '["tool"."jax2onnx"]\nopset = 99',
        "tool.jax2onnx.opset = 99",
    ):
        Path("pyproject.toml").write_text(text)
        with pytest.raises(jax2onnx.ConfigError, match="opset 99 is not supported"):
            export()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a FIFO")
def test_a_project_file_that_is_no_file_is_ignored() -> None:
    os.mkfifo("pyproject.toml")
    export()
    os.remove("pyproject.toml")
    os.mkdir("pyproject.toml")
    export()


def test_a_key_that_resembles_none_lists_all() -> None:
    section("zzz = 1")
    with pytest.raises(jax2onnx.ConfigError, match=r"`: use opset, target, model-name, "):
        export()


def config(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["jax2onnx", "config", *arguments])
    code = __main__.main()
    return code, *capfd.readouterr()


def test_the_command_shows_each_setting_its_value_and_its_source(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    section('opset = 21\nprovenance = "full"\nuser-code = ["lib/net"]')
    monkeypatch.setenv("JAX2ONNX_NAN", "ignore")
    monkeypatch.setenv("JAX2ONNX_ENABLE_STACKTRACE_METADATA", "off")
    monkeypatch.setenv("JAX2ONNX_USER_CODE", "/other")
    code, out, err = config(monkeypatch, capfd)
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert [row[0] for row in rows if row[1:]] == [setting.key for setting in SETTINGS]
    assert ["opset", "21", "pyproject.toml"] in rows
    assert ["nan", "ignore", "JAX2ONNX_NAN"] in rows
    assert ["provenance", "off", "JAX2ONNX_ENABLE_STACKTRACE_METADATA"] in rows
    assert ["unroll", "32", "default"] in rows
    assert ["user-code", "/other", "JAX2ONNX_USER_CODE,", "pyproject.toml"] in rows
    assert [str(folder / "lib/net")] in rows


def test_the_command_answers_programs_too(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    section('nan = "ignore"\nprovenance-prefixes = [".=proj"]')
    code, out, _ = config(monkeypatch, capfd, "--format", "json")
    answer = json.loads(out)
    assert code == 0
    assert answer["version"] == 1
    settings = {each["key"]: each for each in answer["settings"]}
    assert settings["nan"] == {
        "key": "nan",
        "value": "ignore",
        "from": ["pyproject.toml"],
        "variable": "JAX2ONNX_NAN",
        "default": "exact",
    }
    assert settings["opset"]["value"] == 23
    assert settings["opset"]["from"] == ["default"]
    assert settings["provenance-prefixes"]["value"] == [f"{Path.cwd()}=proj"]


def test_the_command_names_a_mistake(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    section("opset = 3")
    assert config(monkeypatch, capfd) == (
        2,
        "",
        "error: opset 3 is not supported (`opset` of pyproject.toml): use 16 to 26\n",
    )


def test_the_command_line_reads_the_project(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    section("opset = 21\nenable-double-precision = true")
    line = ["jax2onnx", "export", "jax.numpy:sin", "-i", "f64[2]", "-o", "m.onnx", "-q"]
    monkeypatch.setattr(sys, "argv", line)
    assert __main__.main() == 0
    assert "m.onnx: " in capfd.readouterr().out
    model = onnx.load("m.onnx")
    assert model.opset_import[0].version == 21
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
