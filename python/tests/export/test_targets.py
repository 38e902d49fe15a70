"""Models for other runtimes: what `target` accepts, and that its rewrites keep the numbers."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from jax import lax

import jax2onnx

RUNTIMES = ("onnxruntime-web", "openvino", "tract", "rten", "iree", "mnn")


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


def running_sums(x: Any) -> Any:
    def step(total: Any, row: Any) -> Any:
        total = jnp.tanh(total + row)
        return total, total * 2

    return lax.scan(step, jnp.zeros(x.shape[1]), x, reverse=True)


def scan_that_captures(x: Any) -> Any:
    scale = jnp.sin(x[0])
    return lax.scan(lambda s, row: (s * scale + row, s), jnp.ones(x.shape[1]), x)


def counting(x: Any) -> Any:
    return lax.fori_loop(0, 40, lambda i, v: jnp.sin(v) + 1, x)


def activations(x: Any) -> Any:
    functions = (
        jax.nn.mish,
        jax.nn.selu,
        jax.nn.softplus,
        jax.nn.hard_swish,
        jax.nn.gelu,
        jax.nn.relu,
    )
    return [function(x * 20) for function in functions]


def sorting(x: Any) -> Any:
    rounded = jnp.round(x)
    return jnp.sort(x), jnp.argsort(rounded, axis=0), lax.top_k(rounded, 3)


def extremes(x: Any) -> Any:
    return jnp.maximum(x, 0.5), jnp.minimum(x, x[0]), jnp.clip(x, -1, 1), x.argmax(1), x.argmin(0)


def flags(x: Any) -> Any:
    positive = x > 0
    return positive.any(1), positive.all(0), positive == (x > 1), jnp.where(x[0] >= x[:, :1], x, 0)


def positions(x: Any) -> Any:
    start = jnp.int32(jnp.abs(x[0, 0])) + 1
    return lax.dynamic_slice(x, (start, 0), (2, 3)), x.at[start].set(0.0), x.at[start, 1].set(1.0)


def vectors(x: Any) -> Any:
    return jnp.stack([x, x]) @ x[0], jnp.fft.rfft(x).real, jnp.squeeze(x[:1, :1])


def uniform(key: Any) -> Any:
    return jax.random.uniform(key, (5,)), jax.random.bits(key, (3,))


PROGRAMS = (
    running_sums, scan_that_captures, counting, activations, sorting, extremes, flags, positions,
    vectors,
)  # fmt: skip


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_model_for_another_runtime_has_the_same_numbers(
    program: Callable[[Any], Any], runtime: str
) -> None:
    check(program, floats(5, 4), runtime)


@pytest.mark.parametrize("runtime", ["onnxruntime-web", "openvino", "tract"])
def test_random_numbers_are_the_same_for_another_runtime(runtime: str) -> None:
    check(uniform, np.array([7, 3_000_000_000], np.uint32), runtime)


def test_unsigned_remainders_are_the_same_for_a_runtime_that_divides_in_float32() -> None:
    x = np.array([0, 1, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1], np.uint32)

    def remainders(x: Any) -> Any:
        divisors = (2, 12, 97, 255, 256, 257, 40503, 65535, 65536)
        return [part for by in divisors for part in (x // by, x % by)]

    check(remainders, x, "openvino")
    model = jax2onnx.to_onnx(remainders, [x], target="openvino")
    kinds = {v.name: v.type.tensor_type.elem_type for v in model.graph.value_info}
    divided = [node.input[0] for node in model.graph.node if node.op_type == "Div"]
    assert divided
    assert {kinds[name] for name in divided} == {onnx.TensorProto.INT32}


def test_large_integers_are_divided_in_float32_without_a_loss() -> None:
    generator = np.random.default_rng(5)
    a = generator.integers(-(2**31), 2**31, 20000)
    b = generator.integers(-(2**31), 2**31, 20000) >> generator.integers(0, 32, 20000)
    ends = [-(2**31), -(2**31) + 1, -1, 1, 2, 3, 2**24 + 1, 2**30, 2**30 + 1, 2**31 - 1, 0]
    a[:121], b[:121] = np.repeat(ends, 11), np.tile(ends, 11)
    # Quotients that are almost whole.
    a[200:9000] = (a[200:9000] // 2 // b[200:9000].clip(1)) * b[200:9000] - np.sign(b[200:9000])
    x = np.stack([a.clip(-(2**31), 2**31 - 1), np.where(b == 0, 1, b)]).astype(np.int32)

    def quotients(x: Any) -> Any:
        return x[0] // x[1], x[0] % x[1], lax.rem(x[0], x[1]), x[0] // 1000

    check(quotients, x, "openvino")
    model = jax2onnx.to_onnx(quotients, [x], target="openvino")
    kinds = {v.name: v.type.tensor_type.elem_type for v in model.graph.value_info}
    divided = [node.input[0] for node in model.graph.node if node.op_type == "Div"]
    assert divided
    assert {kinds[name] for name in divided} == {onnx.TensorProto.FLOAT}


def test_bits_are_shifted_by_computed_distances_for_another_runtime() -> None:
    x = np.array([[0, 1, 2**31, 2**32 - 1, 123456789, 2**31 - 1, 77, 2**31 + 9], range(8)])
    more = [x + np.array([[0], [distance]]) for distance in (11, 24)]
    x = np.concatenate([x, x[:, ::-1], *more], axis=1).astype(np.uint32)

    def shifts(x: Any) -> Any:
        number, distance = x
        small, by = number.astype(jnp.uint8), distance.astype(jnp.uint8)
        return number >> distance, number << distance, -number, small << by, small >> by

    check(shifts, x, "openvino")
    kinds = [node.op_type for node in jax2onnx.to_onnx(shifts, [x], target="openvino").graph.node]
    assert kinds.count("BitShift") == 2


def test_a_transform_stays_float32_without_onnx_runtime() -> None:
    def spectrum(x: Any) -> Any:
        return jnp.fft.irfft(jnp.fft.rfft(x) * 2)

    kinds = {
        target: {
            value.type.tensor_type.elem_type
            for value in jax2onnx.to_onnx(spectrum, [(28,)], target=target).graph.value_info
        }
        for target in ("openvino", "onnxruntime")
    }
    assert onnx.TensorProto.DOUBLE in kinds["onnxruntime"]
    assert onnx.TensorProto.DOUBLE not in kinds["openvino"]


def test_nan_is_kept_in_runtimes_that_drop_it() -> None:
    x = np.array([[np.nan, 1.0], [-np.inf, np.nan]], np.float32)
    check(
        lambda x: (jnp.maximum(x, 0), jax.nn.relu(x), jnp.clip(x, 0, 1), jnp.exp(x)), x, "openvino"
    )


def check(program: Callable[[Any], Any], x: np.ndarray, runtime: str) -> None:
    """Compares the numbers in ONNX Runtime, or expects a refusal that names a line of this file."""
    refused: jax2onnx.UnsupportedError | None = None
    try:
        model = jax2onnx.to_onnx(program, [x], target=runtime)
    except jax2onnx.UnsupportedError as error:
        refused = error
    if refused is not None:
        assert "test_targets.py" in str(refused)
        assert any(operation.line for operation in refused.operations)
        return
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found = session.run(None, {model.graph.input[0].name: x})
    expected = jax.tree.leaves(jax.jit(program)(x))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, 2e-5, 2e-5)


def test_a_program_that_a_runtime_cannot_run_is_refused_with_the_line() -> None:
    def until_small(x: Any) -> Any:
        return lax.while_loop(lambda v: v.sum() > 1, lambda v: v / 2, x)

    with pytest.raises(jax2onnx.UnsupportedError, match=r"tract 0\.23 has no `Loop`") as caught:
        jax2onnx.to_onnx(until_small, [(3,)], target="tract")
    refusal = caught.value.operations[0]
    assert Path(refusal.file).name == "test_targets.py"
    assert "lax.while_loop" in Path(__file__).read_text().splitlines()[refusal.line - 1]


@pytest.mark.parametrize("target", ["nowhere", "onnxruntime>=9", ["openvino", "tracts"]])
def test_an_unknown_target_is_refused(target: str | list[str]) -> None:
    with pytest.raises(jax2onnx.ConfigError, match="is not a target"):
        jax2onnx.to_onnx(jnp.sin, [(3,)], target=target)


def test_a_model_for_several_runtimes_uses_what_all_of_them_have() -> None:
    def total(x: Any) -> Any:
        return lax.scan(lambda s, row: (s + row, s), jnp.zeros(4), x)

    operators = {
        target: {
            node.op_type for node in jax2onnx.to_onnx(total, [(5, 4)], target=target).graph.node
        }
        for target in (("tract",), ("tract", "onnxruntime"))
    }
    assert "Scan" in operators["tract",]
    assert "Scan" in operators["tract", "onnxruntime"]
    with pytest.raises(jax2onnx.UnsupportedError, match=r"rten 0\.27 has no `Scan`"):
        jax2onnx.to_onnx(total, [(5, 4)], target=["tract", "rten"])


def test_the_default_is_the_promised_onnx_runtime() -> None:
    default, named = (
        jax2onnx.to_onnx(activations, [(5, 4)], target=target) for target in (None, "onnxruntime")
    )
    assert default == named


def test_check_finds_what_a_runtime_lacks_by_line(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    jax2onnx.to_onnx(
        running_sums, [(5, 4)], provenance="indexed", return_mode="file", output_path=model
    )
    command = [sys.executable, "-m", "jax2onnx", "check", model, "--format", "json", "--target"]
    done = subprocess.run([*command, "rten"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    found = [
        each for each in json.loads(done.stdout)["findings"] if each["rule"] == "target-missing"
    ]
    assert "rten 0.27 has no `Scan`" in [each["message"] for each in found]
    assert all("test_targets.py" in each["callsite"]["file"] for each in found)
    done = subprocess.run([*command, "onnxruntime"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    done = subprocess.run([*command, "nowhere"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "`nowhere` is not a target" in done.stderr


def test_check_warns_about_integers_that_may_be_too_large_for_a_runtime(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"

    def warnings(fn: Callable[..., object], dtype: str, target: str) -> list[str]:
        spec = jax.ShapeDtypeStruct((4,), dtype)
        jax2onnx.to_onnx(fn, [spec], return_mode="file", output_path=model)
        command = [sys.executable, "-m", "jax2onnx", "check", model, "--format", "json"]
        done = subprocess.run([*command, "--target", target], capture_output=True, check=False)
        findings = json.loads(done.stdout)["findings"]
        return [each["message"] for each in findings if each["severity"] == "warning"]

    assert warnings(lambda x: x * 1000, "int32", "mnn") == [
        "MNN 3.6 computes `Mul` of i32 wrongly for large numbers"
    ]
    assert warnings(lambda x: x.sum(), "int32", "openvino") == [
        "OpenVINO 2026.4 computes `ReduceSum` of i64 wrongly for large numbers"
    ]
    assert warnings(lambda x: x.astype("int32") * 1000, "int8", "mnn") == []


def test_shifts_for_a_runtime_without_them_are_products_and_quotients() -> None:
    spec = jax.ShapeDtypeStruct((4,), "int32")
    model = jax2onnx.to_onnx(lambda x: (x << 3, x >> 3), [spec], target="rten")
    assert [node.op_type for node in model.graph.node] == ["Mul", "Mod", "Sub", "Div"]


def test_a_sort_for_a_runtime_that_shortens_doubles_has_none() -> None:
    model = jax2onnx.to_onnx(jnp.sort, [(7,)], target="rten")
    types = [attribute.i for node in model.graph.node for attribute in node.attribute]
    assert onnx.TensorProto.DOUBLE not in types
    model = jax2onnx.to_onnx(jnp.sort, [(7,)])
    types = [attribute.i for node in model.graph.node for attribute in node.attribute]
    assert onnx.TensorProto.DOUBLE in types
