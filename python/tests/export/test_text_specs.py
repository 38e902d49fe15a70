"""Input specs as text, in Python and on the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import onnx
import pytest

import jax2onnx
from jax2onnx import __main__, testing, to_onnx


def predict(x: Any, y: Any) -> Any:
    return x + y


def decode(token: Any, cache: Any, *, scale: Any = 1.0) -> Any:
    keys = [layer["k"] * scale for layer in cache]
    return token.astype(jnp.float32)[:, None] + sum(keys)


def inputs(model: onnx.ModelProto) -> dict[str, str]:
    return {value.name: testing.value_type(value.type) for value in model.graph.input}


@pytest.mark.parametrize(
    ("fn", "specs", "expected"),
    [
        (predict, ["f32[B,3]", "f32[B,3]"], {"x": "f32[B,3]", "y": "f32[B,3]"}),
        (predict, ["y=f32[B,3]", "x=f16[3]"], {"x": "f16[3]", "y": "f32[B,3]"}),
        (predict, ["f32[B,3]", ("B", 3)], {"x": "f32[B,3]", "y": "f32[B,3]"}),
        (predict, ["x=i32[]", "y=i32[2*B + 1]"], {"x": "i32[]", "y": "i32[2*B + 1]"}),
        (
            decode,
            ["token=i32[B]", "cache.0.k=f32[B,8]", "cache.1.k=f32[B,8]", "scale=f32[]"],
            {
                "token": "i32[B]",
                "cache.0.k": "f32[B,8]",
                "cache.1.k": "f32[B,8]",
                "scale": "f32[]",
            },
        ),
        (decode, ["i32[B]", [{"k": "f32[B,8]"}]], {"token": "i32[B]", "cache.0.k": "f32[B,8]"}),
        (lambda *args: args[0] - args[1], ["a=f32[2]", "b=f32[2]"], {"a": "f32[2]", "b": "f32[2]"}),
    ],
)
def test_python_reads_the_specs_of_the_command_line(
    fn: Any, specs: Any, expected: dict[str, str]
) -> None:
    assert inputs(to_onnx(fn, specs)) == expected


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (
            ["f33[B]"],
            "`f33[B]` is not an input spec: `f33` is not a type: use bool, i4, i8, i16, i32, i64, "
            "u4, u8, u16, u32, u64, f8e4m3fn, f8e5m2, bf16, f16, f32, f64, c64, c128"
            "\n\n  f33[B]\n  ^^^",
        ),
        (
            ["f32[2]", "z=f32[2]"],
            "`predict` has no parameter `z`; its parameters are: x, y",
        ),
        (["x.0=f32[2]", "x=f32[2]"], "the input `x` appears more than once"),
        (["x=f32[2]", "x.0=f32[2]"], "the input `x.0` appears more than once"),
        (["x.a=f32[2]", "x.a=f32[2]"], "the input `x.a` appears more than once"),
        (
            ["f32[2]", ["a=f32[2]"]],
            "inputs[1][0] has the name `a`: only whole inputs have names",
        ),
    ],
)
def test_a_text_that_is_wrong_is_refused(specs: Any, message: str) -> None:
    with pytest.raises((jax2onnx.InputSpecError, jax2onnx.ConfigError)) as raised:
        to_onnx(predict, specs)
    assert str(raised.value) == message


def test_a_wide_type_as_text_is_mentioned() -> None:
    with pytest.warns(jax2onnx.Jax2OnnxWarning, match=r"^inputs\[0\] is float64, but the model"):
        to_onnx(jnp.sin, ["f64[2]"])


def test_parts_that_do_not_count_from_zero_are_a_dictionary() -> None:
    def fn(x: Any) -> Any:
        return x["1"] + x["a"]["b"]

    assert inputs(to_onnx(fn, ["x.1=f32[2]", "x.a.b=f32[2]"])) == {
        "x.1": "f32[2]",
        "x.a.b": "f32[2]",
    }


def test_the_command_line_exports_nested_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.onnx"
    line = ["jax2onnx", "export", f"{__file__}:decode", "-i", "token=i32[B]", "-q"]
    line += ["-i", "cache.0.k=f32[B,8]", "-i", "cache.1.k=f32[B,8]", "-o", str(path)]
    monkeypatch.setattr(sys, "argv", line)
    assert __main__.main() == 0, capfd.readouterr().err
    assert "  in   cache.1.k f32[B,8]\n" in capfd.readouterr().out
    model = onnx.load(path)
    arrays = [jnp.arange(2), [{"k": jnp.ones((2, 8))}, {"k": jnp.ones((2, 8))}]]
    assert jax2onnx.allclose(decode, model, jax.tree.map(lambda leaf: leaf, arrays))


COMMANDS = ("export", "inspect", "where", "blame", "diff", "check", "explain", "profile", "config")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_the_help_can_be_pasted_into_bash(
    command: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["jax2onnx", command, "--help"])
    assert __main__.main() == 0
    text = capfd.readouterr().out
    examples = re.findall(r"^  (jax2onnx .*|python .*)$", text.partition("Examples:")[2], re.M)
    assert examples
    for example in examples:
        done = subprocess.run(["bash", "-n", "-c", example], capture_output=True, check=False)
        assert done.returncode == 0, example
        # Brackets and parentheses are quoted.
        bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", example)
        assert not set("[](){}*?;") & set(bare), example
        assert len(example) + 2 <= 88, example


def run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["jax2onnx", *arguments])
    code = __main__.main()
    return code, *capfd.readouterr()


def test_several_models_are_exported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first = ["jax.numpy:sin", "-i", "f32[B]", "-o", "a.onnx"]
    second = ["jax.numpy:add", "-i", "f32[2]", "-i", "f32[2]", "-o", "b.onnx"]
    code, out, _ = run(monkeypatch, capfd, "export", *first, "--and", *second)
    assert code == 0
    assert [line.partition(":")[0] for line in out.splitlines() if line.startswith(("a", "b"))] == [
        "a.onnx",
        "b.onnx",
    ]
    code, _, err = run(monkeypatch, capfd, "export", "jax.numpy:nope", *first[1:], "--and", *second)
    assert code == 2
    assert err.startswith("error: module `jax.numpy` has no `nope`")


def step(state: Any) -> Any:
    return {"state": state + 1}


def test_a_warning_of_an_export_is_a_message_and_part_of_the_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text = (
        "the output `state` has the name of an input: the model calls it `state_out`; "
        "choose names with `output_names`"
    )
    line = ["export", f"{__file__}:step", "-i", "f32[2]", "-o", str(tmp_path / "m.onnx"), "-q"]
    _, out, err = run(monkeypatch, capfd, *line, "--format", "json")
    assert json.loads(out)["warnings"] == [text]
    assert err == f"warning: {text}\n"
    _, out, err = run(monkeypatch, capfd, *line, "--output-names", "y", "--format", "json")
    assert json.loads(out)["warnings"] == []
    assert err == ""


def fails(x: Any) -> Any:
    return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("target", "kind", "code"),
    [
        (f"{__file__}:fails", "TracerBoolConversionError", 1),
        ("jax.numpy:nope", "ConfigError", 2),
        ("jax.lax.linalg:eig", "UnsupportedError", 1),
    ],
)
def test_an_error_of_an_export_is_json_if_the_summary_would_be(
    target: str,
    kind: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    line = ["export", target, "-i", "f32[2,2]", "-o", str(tmp_path / "m.onnx")]
    found, out, err = run(monkeypatch, capfd, *line, "--format", "json")
    assert found == code
    error = json.loads(out)["error"]
    assert error["kind"] == kind
    assert not error["message"].startswith("error: ")
    assert f"error: {error['message']}" in err or error["message"] in err
    assert (kind == "TracerBoolConversionError") == ("hint: " in "".join(error["notes"]))


def test_the_stack_of_python_m_starts_with_the_users_module(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(
        "import jax2onnx, jax.numpy as jnp\n"
        "model = jax2onnx.to_onnx(jnp.sin, [(2,)], provenance='full')\n"
        "data = {each.key: each.value for each in model.graph.node[0].metadata_props}\n"
        "print(data['pkg.jax2onnx.stacktrace'])\n"
    )
    package = os.path.dirname(os.path.dirname(jax2onnx.__file__))
    done = subprocess.run(
        [sys.executable, "-m", "made"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": package},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[0] == "made.py:2 in <module>"
    assert "runpy" not in done.stdout
