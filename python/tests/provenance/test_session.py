"""What `jax2onnx.InferenceSession` says about what it is fed."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest

import jax2onnx

B3 = {"token": np.zeros(3, np.int32), "cache.0.k": np.zeros((3, 8), np.float32)}


def decode(token: Any, cache: Any) -> Any:
    return {"logits": cache[0]["k"] + token[:, None], "length": token.sum()}


@pytest.fixture(scope="module")
def session() -> jax2onnx.InferenceSession:
    size = jax.export.symbolic_shape("B")
    token: Any = jax.ShapeDtypeStruct
    model = jax2onnx.to_onnx(decode, [token(size, jnp.int32), [{"k": (*size, 8)}]])
    return quiet(model)


def quiet(model: onnx.ModelProto) -> jax2onnx.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return jax2onnx.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def first_lines(session: Any, feed: Any, outputs: Any = None) -> list[str]:
    """Return the message of a call that fails, without what ONNX Runtime says."""
    with pytest.raises(jax2onnx.InputSpecError) as raised:
        session.run(outputs, feed)
    lines = str(raised.value).splitlines()
    ours = [line for line in lines if line.startswith(("`", "the model has no ", "the input "))]
    assert lines[: len(ours)] == ours
    assert len(lines) > len(ours)
    return ours


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            {"token": np.zeros(3, np.int64)},
            ["`token` is int64[3], but the model takes int32[B]"],
        ),
        (
            {"token": np.zeros(4, np.int32)},
            ["`B` is 4 in `token` and 3 in `cache.0.k`"],
        ),
        (
            {"token": np.zeros((3, 1), np.int32)},
            ["`token` is int32[3,1], but the model takes int32[B]"],
        ),
        (
            {"cache.0.k": np.zeros((3, 9))},
            ["`cache.0.k` is float64[3,9], but the model takes float32[B,8]"],
        ),
        (
            {"cache.0.k": jnp.zeros((3, 8))},
            [
                "`cache.0.k` is of type ArrayImpl, but the model takes float32[B,8]: "
                "use numpy.asarray(cache.0.k)"
            ],
        ),
        ({"token": None}, ["`token` is None, but the model takes int32[B]"]),
        ({"token": 3}, ["`token` is of type int, but the model takes int32[B]"]),
        ({"token": [[1, 2, 3]]}, ["`token` is int32[1,3], but the model takes int32[B]"]),
        (
            {"tokens": np.zeros(3, np.int32)},
            ["the model has no input `tokens`; did you mean `token`?"],
        ),
        ({"x": np.zeros(3, np.int32)}, ["the model has no input `x`"]),
        (
            {"token": np.zeros(3), "cache.0.k": np.zeros(3)},
            [
                "`token` is float64[3], but the model takes int32[B]",
                "`cache.0.k` is float64[3], but the model takes float32[B,8]",
            ],
        ),
    ],
)
def test_a_feed_that_does_not_fit_is_refused_in_the_words_of_the_model(
    session: Any, changes: dict[str, Any], lines: list[str]
) -> None:
    assert first_lines(session, {**B3, **changes}) == lines


def test_a_missing_input_and_an_unknown_one_are_named(session: Any) -> None:
    assert first_lines(session, {"token": B3["token"]}) == [
        "the input `cache.0.k` is missing; the model takes float32[B,8]"
    ]
    assert first_lines(session, {"token": B3["token"], "cache.k": B3["cache.0.k"]}) == [
        "the model has no input `cache.k`; did you mean `cache.0.k`?",
        "the input `cache.0.k` is missing; the model takes float32[B,8]",
    ]


def test_an_unknown_output_is_named(session: Any) -> None:
    assert first_lines(session, B3, ["logit"]) == [
        "the model has no output `logit`; did you mean `logits`?"
    ]


def test_the_error_is_also_the_one_of_onnx_runtime(session: Any) -> None:
    feed = {**B3, "token": np.zeros(3, np.int64)}
    plain: Any = onnxruntime.InferenceSession
    with pytest.raises(Exception, match="Unexpected input data type") as expected:
        plain.run(session, None, feed)
    with pytest.raises(type(expected.value)) as raised:
        session.run(None, feed)
    assert isinstance(raised.value, ValueError)
    assert str(raised.value).endswith(str(expected.value))


def test_values_on_a_device_are_looked_at_too(session: Any) -> None:
    def values(feed: dict[str, Any]) -> dict[str, Any]:
        make = onnxruntime.OrtValue.ortvalue_from_numpy
        return {name: make(value) for name, value in feed.items()}

    assert len(session.run_with_ort_values(None, values(B3))) == 2
    with pytest.raises(
        jax2onnx.InputSpecError, match=r"^`token` is int64\[3\], but the model takes"
    ):
        session.run_with_ort_values(None, values({**B3, "token": np.zeros(3, np.int64)}))
    with pytest.raises(jax2onnx.InputSpecError, match=r"^`B` is 4 in `token` and 3 in `"):
        session.run_with_ort_values(None, values({**B3, "token": np.zeros(4, np.int32)}))


def test_sizes_that_conflict_get_a_warning_if_onnx_runtime_computes_something() -> None:
    session = quiet(jax2onnx.to_onnx(lambda x, y: x + y, [("B", 2), ("B", 2)]))
    one, three = np.ones((1, 2), np.float32), np.ones((3, 2), np.float32)
    with pytest.warns(jax2onnx.Jax2OnnxWarning, match="^`B` is 1 in `x` and 3 in `y`$") as warned:
        (result,) = session.run(None, {"x": one, "y": three})
    assert result.shape == (3, 2)
    assert [each.filename for each in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.run(None, {"x": three, "y": three})


@pytest.mark.parametrize(
    "token", [[1, 2, 3], onnxruntime.OrtValue.ortvalue_from_numpy(B3["token"])]
)
def test_whatever_onnx_runtime_takes_is_taken(session: Any, token: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logits, _ = session.run(["logits", "length"], {**B3, "token": token})
    assert logits.shape == (3, 8)


def test_an_error_that_is_not_about_the_feed_is_unchanged(session: Any) -> None:
    with pytest.raises(AttributeError):
        session.run(None, [B3])


def test_looking_at_the_feed_takes_few_calls(session: Any) -> None:
    def calls(run: Any) -> int:
        count = 0

        def note(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            run(None, B3)
        finally:
            sys.setprofile(None)
        return count

    session.run(None, B3)
    plain = calls(super(type(session), session).run)
    assert calls(session.run) - plain <= 4 * len(B3)


def test_the_session_is_public() -> None:
    assert "InferenceSession" in jax2onnx.__all__
    assert jax2onnx.InferenceSession.__module__ == "jax2onnx"


def test_without_onnx_runtime_only_a_session_fails(tmp_path: Path) -> None:
    (tmp_path / "onnxruntime.py").write_text("raise ImportError")
    code = "from jax2onnx import *; InferenceSession('model.onnx')"
    path = os.pathsep.join([str(tmp_path), os.path.dirname(os.path.dirname(jax2onnx.__file__))])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.stderr.splitlines()[-1] == (
        "jax2onnx.ConfigError: `InferenceSession` needs ONNX Runtime: "
        "pip install 'jax2onnx-rs[runtime]'"
    )
