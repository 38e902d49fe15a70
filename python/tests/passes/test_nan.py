"""`nan="ignore"`: fewer nodes, the same finite numbers, and a model that says so."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax

import jax2onnx
from testkit import bench

KEY = "pkg.jax2onnx.nan"
X = np.array([[3.0, -np.inf, 0.0, 2.5], [-0.0, 1.0, np.inf, -1e30]], np.float32)
FINITE = np.array([[3.0, 1e-40, 0.0, 2.5], [-0.0, 0.0, 7.9, -1e9]], np.float32)

#: Each operation that spends nodes on NaN: how many nodes it is with `exact` and with `ignore`.
GUARDED: dict[str, tuple[Callable[..., Any], tuple[int, int]]] = {
    "reduce_max": (lambda x: x.max(1), (4, 1)),
    "reduce_min": (lambda x: x.min(), (4, 1)),
    "argmax": (lambda x: jnp.argmax(x, 1), (7, 2)),
    "argmin": (lambda x: jnp.argmin(x, 0), (7, 2)),
    "max_pool": (
        lambda x: lax.reduce_window(
            x[None, None], -jnp.inf, lax.max, (1, 1, 1, 2), (1, 1, 1, 2), "VALID"
        ),
        (9, 5),
    ),
    "sort": (lambda x: jnp.sort(x, 1), (6, 1)),
    "argsort": (lambda x: jnp.argsort(x, 1), (6, 2)),
    "top_k": (lambda x: lax.top_k(x, 2), (10, 7)),
    "scatter_max": (lambda x: x.at[jnp.array([0, 0])].max(x), (6, 1)),
    "astype(int32)": (lambda x: x.astype(jnp.int32), (7, 5)),
    "nextafter": (lambda x: jnp.nextafter(x, jnp.float32(1)), (16, 13)),
}


@pytest.mark.parametrize("name", GUARDED)
def test_ignoring_nan_takes_fewer_nodes_and_keeps_the_other_numbers(name: str) -> None:
    fn, counts = GUARDED[name]
    x = FINITE if name in ("astype(int32)", "nextafter") else X
    exact = bench.convert(fn, (x,))
    ignoring = bench.convert(fn, (x,), nan="ignore")
    assert (len(exact.graph.node), len(ignoring.graph.node)) == counts
    for model in (exact, ignoring):
        for found, want in zip(bench.run(model, (x,)), bench.expected(fn, (x,)), strict=True):
            bench.assert_same(found, want)
    assert not any(node.op_type == "IsNaN" for node in ignoring.graph.node)


@pytest.mark.parametrize("level", ["off", "minimal", "full", "indexed"])
def test_the_metadata_says_that_nan_is_ignored_at_every_level(level: Any) -> None:
    for nan, want in (("exact", None), ("ignore", "ignore")):
        model = jax2onnx.to_onnx(jnp.sin, [(2,)], nan=nan, provenance=level)  # type: ignore[call-overload]
        assert _said(model) == want


def test_stripping_a_model_keeps_what_it_says_about_nan(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = jax2onnx.to_onnx(jnp.sin, [(2,)], nan="ignore", provenance="full")
    path.write_bytes(model.SerializeToString())
    stripped = tmp_path / "stripped.onnx"
    _command("strip", path, "--output", stripped)
    assert _said(onnx.load(stripped)) == "ignore"


def test_the_argument_wins_over_the_environment_and_that_over_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JAX2ONNX_NAN", raising=False)
    assert _said(jax2onnx.to_onnx(jnp.sin, [(2,)])) is None
    (tmp_path / "pyproject.toml").write_text('[tool.jax2onnx]\nnan = "ignore"\n')
    assert _said(jax2onnx.to_onnx(jnp.sin, [(2,)])) == "ignore"
    monkeypatch.setenv("JAX2ONNX_NAN", "exact")
    assert _said(jax2onnx.to_onnx(jnp.sin, [(2,)])) is None
    assert _said(jax2onnx.to_onnx(jnp.sin, [(2,)], nan="ignore")) == "ignore"


def test_another_mode_is_an_error_that_lists_the_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = r"^`no` is not a NaN mode: use exact, ignore$"
    with pytest.raises(jax2onnx.ConfigError, match=message):
        jax2onnx.to_onnx(jnp.sin, [(2,)], nan="no")  # type: ignore[call-overload]
    monkeypatch.setenv("JAX2ONNX_NAN", "no")
    with pytest.raises(jax2onnx.ConfigError, match=r"JAX2ONNX_NAN\): use exact, ignore$"):
        jax2onnx.to_onnx(jnp.sin, [(2,)])
    monkeypatch.delenv("JAX2ONNX_NAN")
    (tmp_path / "pyproject.toml").write_text('[tool.jax2onnx]\nnan = "no"\n')
    with pytest.raises(jax2onnx.ConfigError, match=r"pyproject.toml\): use exact, ignore$"):
        jax2onnx.to_onnx(jnp.sin, [(2,)])
    (tmp_path / "pyproject.toml").write_text("[tool.jax2onnx]\nnan = false\n")
    with pytest.raises(
        jax2onnx.ConfigError, match=r"^`nan` of `tool.jax2onnx` .* is not a string$"
    ):
        jax2onnx.to_onnx(jnp.sin, [(2,)])


def test_the_command_line_takes_the_two_modes_and_refuses_another(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    spec = ("export", "jax.numpy:sin", "--input", "f32[2]", "--output", path, "--quiet")
    _command(*spec, "--nan", "ignore")
    assert _said(onnx.load(path)) == "ignore"
    refused = _command(*spec, "--nan", "no", code=2)
    assert "possible values: exact, ignore" in refused


def test_a_fusion_is_the_same_where_nan_is_ignored() -> None:
    model = bench.convert(jax.nn.softmax, (X,), nan="ignore")
    assert [node.op_type for node in model.graph.node] == ["Softmax"]


def _said(model: onnx.ModelProto) -> str | None:
    return {entry.key: entry.value for entry in model.metadata_props}.get(KEY)


def _command(*words: Any, code: int = 0) -> str:
    run = subprocess.run(
        [sys.executable, "-m", "jax2onnx", *map(str, words)], capture_output=True, text=True
    )
    assert run.returncode == code, run.stderr
    return run.stderr
