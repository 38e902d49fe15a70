"""Models for ONNX Runtime on a GPU, run on the CPU, where their numbers are the same."""

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from flax import nnx
from jax import lax

import jax2onnx

RANDOM = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def whole(below: int, *shape: int, dtype: Any = np.int32) -> np.ndarray:
    return RANDOM.integers(0, below, shape).astype(dtype)


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes(attribute.g)


def check(program: Callable[..., Any], *arguments: np.ndarray) -> onnx.ModelProto:
    """Exports for a GPU, and compares the numbers with JAX, with optimizations on and off."""
    model = jax2onnx.to_onnx(program, list(arguments), target="onnxruntime-cuda")
    expected = [np.asarray(each) for each in jax.tree.leaves(jax.jit(program)(*arguments))]
    levels = onnxruntime.GraphOptimizationLevel
    for level in (levels.ORT_ENABLE_ALL, levels.ORT_DISABLE_ALL):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        names = [value.name for value in session.get_inputs()]
        found = session.run(None, dict(zip(names, arguments, strict=True)))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    return model


def with_edges(*shape: int) -> np.ndarray:
    """Returns floats with NaN, infinities and zeros of both signs."""
    x = floats(*shape)
    x.ravel()[:6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-6]
    return x


#: Programs with an operator that CUDA lacks for some type, and the operators that must be gone.
PROGRAMS: dict[str, tuple[Callable[..., Any], list[np.ndarray], set[str]]] = {
    "lookup": (lambda t, i: t[i], [floats(7, 3), whole(7, 5)], {"Clip"}),
    "any and all": (lambda x: (jnp.any(x > 1, 1), jnp.all(x > -1, 0)), [floats(6, 5)], set()),
    "argmax": (lambda x: jnp.argmax(x, 1), [with_edges(6, 5)], set()),
    "pool": (
        lambda x: nnx.max_pool(x, (2, 2), (2, 2)),
        [with_edges(2, 8, 6, 3)],
        {"MaxPool", "AveragePool"},
    ),
    "overlapping pool": (
        lambda x: nnx.max_pool(x, (3, 2), (2, 1), "SAME"),
        [with_edges(1, 9, 7, 2)],
        {"MaxPool", "AveragePool"},
    ),
    "long windows": (
        lambda x: lax.reduce_window(
            x, -jnp.inf, lax.max, (1, 7, 5, 1), (1, 2, 3, 1), "VALID", None, (1, 2, 1, 1)
        ),
        [with_edges(1, 21, 17, 2)],
        {"MaxPool", "AveragePool"},
    ),
    "group norm": (
        nnx.GroupNorm(8, num_groups=2, rngs=nnx.Rngs(0)),
        [floats(2, 5, 5, 8)],
        {"InstanceNormalization"},
    ),
    "activations": (
        lambda x: (jax.nn.elu(x), jax.nn.selu(x), jnp.sinh(x), jnp.cosh(x), jnp.tan(x)),
        [floats(4, 5) * 3],
        {"Elu", "Selu", "Sinh", "Cosh", "Tan"},
    ),
    "angles": (
        lambda x: (jnp.arctan(x * 3), jnp.arcsin(jnp.tanh(x)), jnp.arctan2(x, x[::-1])),
        [np.concatenate([floats(20), np.array([0, np.inf, -np.inf, 1e30], np.float32)])],
        {"Atan", "Asin", "Acos"},
    ),
    "signs": (jnp.sign, [with_edges(3, 4)], set()),
    "bits": (
        lambda x, y: (x ^ y, x & y, x | y, ~x, x & 255, x << 5, x >> 7, (x << 9) | (x >> 23)),
        [whole(2**32, 9, dtype=np.uint32), whole(2**32, 9, dtype=np.uint32)],
        {"BitwiseXor", "BitwiseAnd", "BitwiseOr", "BitwiseNot", "BitShift"},
    ),
    "signed bits": (
        lambda x, y: (x ^ y, x & y, x | y, ~x),
        [whole(2**20, 9) - 2**19, whole(2**20, 9) - 2**19],
        {"BitwiseXor", "BitwiseAnd", "BitwiseOr", "BitwiseNot"},
    ),
    "shifts by arrays": (
        lambda x, y: (x << y, x >> y),
        [whole(2**32, 9, dtype=np.uint32), np.array([0, 1, 5, 31, 32, 33, 7, 200, 16], np.uint32)],
        {"BitShift"},
    ),
    "product of integers": (lambda x, y: x @ y, [whole(9, 4, 3), whole(9, 3, 5)], {"MatMul"}),
    "dynamic slice": (
        lambda x, i: lax.dynamic_slice(x, (i, 1), (3, 2)),
        [floats(8, 4), np.array(6, np.int32)],
        set(),
    ),
    "short branches": (
        lambda x, i: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x),
        [floats(5), np.array(2, np.int32)],
        {"If"},
    ),
    "transposed convolution": (
        lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"),
        [floats(1, 5, 4, 3), floats(3, 3, 3, 2)],
        set(),
    ),
    "convolution in a scan": (
        lambda x, w: lax.scan(
            lambda h, e: ((h + lax.conv(e, w, (1, 1), "SAME")) / 2, h.sum()), x[0] * 0, x
        ),
        [floats(4, 1, 2, 5, 5), floats(2, 2, 3, 3)],
        set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_for_the_gpu_has_the_numbers_of_jax(name: str) -> None:
    program, arguments, gone = PROGRAMS[name]
    model = check(program, *arguments)
    assert not gone & {node.op_type for node in nodes(model.graph)}


def test_no_node_of_the_programs_stays_on_the_cpu(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    chosen = list(PROGRAMS.values())
    inputs = [arguments for _, arguments, _ in chosen]
    counts = np.cumsum([0, *map(len, inputs)])

    def all_programs(*arguments: Any) -> Any:
        parts = [arguments[i:j] for i, j in itertools.pairwise(counts)]
        programs = [program for program, _, _ in chosen]
        return [program(*part) for program, part in zip(programs, parts, strict=True)]

    jax2onnx.to_onnx(
        all_programs,
        [argument for arguments in inputs for argument in arguments],
        target="onnxruntime-cuda",
        return_mode="file",
        output_path=path,
    )
    assert fallbacks(path) == []


def fallbacks(model: Path) -> list[str]:
    command = [sys.executable, "-m", "jax2onnx", "check", model, "--format", "json"]
    command += ["--target", "onnxruntime-cuda"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    findings = json.loads(done.stdout)["findings"]
    return [each["message"] for each in findings if each["rule"].startswith("target-")]


def test_check_names_the_nodes_that_stay_on_the_cpu(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    lookup, arguments, _ = PROGRAMS["lookup"]
    jax2onnx.to_onnx(lookup, list(arguments), return_mode="file", output_path=model)
    assert fallbacks(model) == [
        "`Clip` of i32 has no kernel for CUDA in ONNX Runtime, and runs on the CPU"
    ]
    command = [sys.executable, "-m", "jax2onnx", "check", model, "--target", "onnxruntime-cuda"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "warning[target-fallback]" in done.stdout
    assert done.returncode == 0, done.stdout


class Encoder(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.norm = nnx.LayerNorm(8, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)

    def __call__(self, x: Any, lengths: Any) -> Any:
        is_token = jnp.arange(x.shape[1]) < lengths[:, None]
        return self.attention(self.norm(x), mask=nnx.make_attention_mask(is_token, is_token))


def test_rows_that_are_masked_completely_are_averages() -> None:
    model = check(Encoder(), floats(2, 6, 8), np.array([6, 3], np.int32))
    makers = {name: node for node in model.graph.node for name in node.output}
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    (attention,) = (node for node in model.graph.node if node.op_type == "Attention")
    mask = makers[attention.input[3]]
    while mask.op_type != "Where":
        mask = makers[mask.input[0]]
    # CUDA's `Attention` returns zeros if all numbers of a row are below about -1e30.
    assert min(constants[name].min() for name in mask.input[1:]) == np.float32(-1e20)


@pytest.mark.slow
def test_a_recurrent_network_copies_no_flag() -> None:
    cell = nnx.RNN(nnx.OptimizedLSTMCell(3, 4, rngs=nnx.Rngs(0)))
    model = jax2onnx.to_onnx(cell, [(2, 5, 3)], target="onnxruntime-cuda")
    operators = {node.op_type for node in nodes(model.graph)}
    assert "LSTM" in operators
    assert "If" not in operators


def test_a_constant_of_a_loop_is_not_read_on_both_devices() -> None:
    def oscillate(y: Any) -> Any:
        def step(y: Any, t: Any) -> Any:
            return jnp.stack([y[1], -y[0] - t * y[1]]) * 0.1 + y, y

        return lax.scan(step, y, jnp.linspace(0, 1, 4))

    model = check(oscillate, floats(2))
    (scan,) = (node for node in model.graph.node if node.op_type == "Scan")
    body = list(nodes(next(each.g for each in scan.attribute if each.name == "body")))
    bounds = {name for node in body if node.op_type == "Slice" for name in node.input[1:]}
    indices = {node.input[1] for node in body if node.op_type == "Gather"}
    assert not bounds & indices


def test_a_loop_reads_its_condition_and_its_states_from_different_constants() -> None:
    """In a branch, ONNX Runtime with CUDA ends the process if both are the same."""

    def suppressed(overlaps: Any) -> Any:
        def step(i: Any, keep: Any) -> Any:
            return keep & ~((overlaps[i] > 0.5) & (jnp.arange(32) > i) & keep[i])

        return lax.fori_loop(0, 32, step, jnp.ones(32, bool))

    model = check(suppressed, np.abs(floats(32, 32)))
    loops = [node for node in nodes(model.graph) if node.op_type == "Loop"]
    assert loops
    for loop in loops:
        assert not {*loop.input[:2]} & {*loop.input[2:]}


def stayed(model: onnx.ModelProto) -> set[str]:
    """Returns the operators on bits."""
    return {node.op_type for node in nodes(model.graph) if node.op_type.startswith("Bit")}


@pytest.mark.parametrize("shape", [(), (5, 7), (300,)])
def test_random_bits_are_computed_without_operators_on_bits(shape: tuple[int, ...]) -> None:
    model = check(lambda key: jax.random.bits(key, shape), np.array([3, 4_000_000_007], np.uint32))
    assert not stayed(model)
    assert len(model.graph.node) < 110


def test_keys_are_split_and_folded_without_operators_on_bits() -> None:
    def keys(data: Any) -> Any:
        key = jax.random.fold_in(jax.random.wrap_key_data(data), 2**31 + 5)
        return jax.random.key_data(jax.random.split(key, 3))

    model = check(jax.vmap(keys), np.array([[1, 2], [2**32 - 1, 2**31], [0, 0]], np.uint32))
    assert not stayed(model)


def test_a_constant_key_adds_no_products() -> None:
    model = check(lambda x: x * jax.random.uniform(jax.random.key(1), (4,)), floats(4))
    assert "MatMul" not in {node.op_type for node in nodes(model.graph)}


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.uint32, np.int32])
def test_bits_are_combined_without_operators_on_bits(dtype: Any) -> None:
    ends = np.iinfo(dtype)
    x = np.array([ends.min, ends.max, 0, 1, 77, ends.max // 2], dtype)
    y = np.array([ends.max, ends.max, ends.min, 3, 99, ends.max - 5], dtype)
    model = check(lambda x, y: (x ^ y, x & y, x | y, x[:, None] ^ y, x ^ 5), x, y)
    assert not stayed(model)


@pytest.mark.parametrize("reduce", [jnp.sum, jnp.prod, jnp.any, jnp.all, jnp.mean])
def test_an_empty_array_is_not_reduced(reduce: Callable[..., Any]) -> None:
    """CUDA fails on reductions of empty arrays."""
    x = np.zeros((2, 0, 3), np.float32)
    model = check(lambda x: (reduce(x, axis=1), reduce(x, axis=2), reduce(x)), x)
    assert not [node for node in nodes(model.graph) if node.op_type.startswith("Reduce")]


def test_random_numbers_are_the_same_for_a_gpu() -> None:
    def draw(seed: Any) -> Any:
        return jax.random.normal(jax.random.wrap_key_data(seed), (4, 3))

    check(draw, np.array([3, 7], np.uint32))


def test_a_release_of_the_runtime_for_a_gpu_can_be_named() -> None:
    newest = jax2onnx.to_onnx(jnp.sin, [(3,)], target="onnxruntime-cuda>=1.31")
    assert [node.op_type for node in newest.graph.node] == ["Sin"]
    with pytest.raises(jax2onnx.ConfigError, match="`onnxruntime-cuda>=9` is not a target"):
        jax2onnx.to_onnx(jnp.sin, [(3,)], target="onnxruntime-cuda>=9")
