"""Time one step of a decoder with a cache, as ratios in one run.

    python benches/decode.py

The export updates the cache with `ScatterND` and attends over it. The other models are hand-made:
opset 24 has `TensorScatter` for the update, and `Attention` takes the number of valid entries in
place of a mask. `jax.jit` computes the same. All take turns, on one thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import jax2onnx

BATCH, HEADS, SIZE = 4, 8, 64
LENGTHS = (128, 512, 2048)
ROUNDS = 60


def step(q: Any, k: Any, v: Any, keys: Any, values: Any, place: Any) -> Any:
    """Writes one key and one value into the cache, and attends over the cache up to them."""
    keys = jax.lax.dynamic_update_slice(keys, k, (0, 0, place, 0))
    values = jax.lax.dynamic_update_slice(values, v, (0, 0, place, 0))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, keys) / np.sqrt(SIZE).astype(np.float32)
    scores = jnp.where(jnp.arange(keys.shape[2]) <= place, scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), values), keys, values


def by_hand(length: int, *, counts: bool) -> onnx.ModelProto:
    """Builds the step of opset 24; `counts` has the number of valid entries in place of a mask."""
    one, whole = [BATCH, HEADS, 1, SIZE], [BATCH, HEADS, length, SIZE]
    describe = helper.make_tensor_value_info
    inputs = [describe(name, TensorProto.FLOAT, one) for name in ("q", "k", "v")]
    inputs += [describe(name, TensorProto.FLOAT, whole) for name in ("keys", "values")]
    inputs.append(describe("place", TensorProto.INT64, [BATCH]))
    if counts:
        inputs.append(describe("count", TensorProto.INT64, [BATCH]))
        attention = ["q", "new_keys", "new_values", "", "", "", "count"]
    else:
        inputs.append(describe("mask", TensorProto.BOOL, [1, length]))
        attention = ["q", "new_keys", "new_values", "mask"]
    nodes = [
        helper.make_node("TensorScatter", ["keys", "k", "place"], ["new_keys"], axis=2),
        helper.make_node("TensorScatter", ["values", "v", "place"], ["new_values"], axis=2),
        helper.make_node("Attention", attention, ["y"]),
    ]
    outputs = [describe("y", TensorProto.FLOAT, one)]
    outputs += [describe(name, TensorProto.FLOAT, whole) for name in ("new_keys", "new_values")]
    graph = helper.make_graph(nodes, "decode", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=12)


def runner(model: onnx.ModelProto, inputs: dict[str, Any]) -> Callable[[], Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return lambda: session.run(None, inputs)


def measure(length: int) -> None:
    random = np.random.default_rng(0)
    shapes = dict.fromkeys(("q", "k", "v"), (BATCH, HEADS, 1, SIZE))
    shapes |= dict.fromkeys(("keys", "values"), (BATCH, HEADS, length, SIZE))
    arrays = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    place = length // 2
    exported = jax2onnx.to_onnx(step, [*arrays.values(), np.int32(place)])
    places = {"place": np.full(BATCH, place)}
    mask = {"mask": (np.arange(length) <= place)[None]}
    compiled, operands = jax.jit(step), [*map(jnp.asarray, arrays.values()), np.int32(place)]
    runs = {
        "the export": runner(exported, {**arrays, "place": np.array(place, np.int32)}),
        "TensorScatter, Attention with a mask": runner(
            by_hand(length, counts=False), {**arrays, **places, **mask}
        ),
        "TensorScatter, Attention with counts": runner(
            by_hand(length, counts=True), {**arrays, **places, "count": np.full(BATCH, place + 1)}
        ),
        "jax.jit": lambda: jax.block_until_ready(compiled(*operands)),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    want = runs["jax.jit"]()
    for round_ in range(ROUNDS):
        for name, run in runs.items():
            start = time.perf_counter()
            found = run()
            times[name].append(time.perf_counter() - start)
            if round_ == 0:
                for one, other in zip(found, want, strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    medians = {name: float(np.median(each[5:])) for name, each in times.items()}
    print(f"a cache of {length} entries, {sorted({n.op_type for n in exported.graph.node})}")
    for name, median in medians.items():
        print(f"  {name:38} {median / medians['the export']:.2f} times the export")


if __name__ == "__main__":
    for each in LENGTHS:
        measure(each)
