"""What real weights cost in an export, beside the Python package `jax2onnx`, in one run.

    python benches/weights.py [--models gpt2-small resnet50] [--rounds 5]

Times are medians over interleaved rounds, and memory is the peak over the arrays of the model. A
small export may take 5 ms and 1.15 times its trace instead of the limit. The last column is the
time of an export with all provenance, as a multiple of one without; its limit is for the median
over the models. The exit code is 1 if a limit is not kept.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx
from networks import NETWORKS
from runtime import reference_environment, reference_python

from testkit.models import gpt2

#: The most that each figure of ours may be.
LIMITS = {"export/trace": 1.3, "file/copy": 1.5, "memory MB": 64.0, "bytes": 1.001}
COLUMNS = (*LIMITS, "full/off")
#: The most that the median of the last column may be.
FULL_LIMIT = 1.05
#: What a small export may take: milliseconds, beyond this many times its trace.
SMALL_EXPORT = 5.0
TIMES_TRACE = 1.15
TRANSPOSED_LIMIT = 1.5


class Encoder(linen.Module):
    heads: int

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        width = x.shape[-1]
        attention = linen.MultiHeadDotProductAttention(self.heads)
        x = x + attention(linen.LayerNorm()(x), deterministic=True)
        y = linen.gelu(linen.Dense(4 * width)(linen.LayerNorm()(x)))
        return x + linen.Dense(width)(y)


class ViT(linen.Module):
    """ViT-B/16."""

    @linen.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        patches = linen.Conv(768, (16, 16), (16, 16))(images)
        x = patches.reshape(patches.shape[0], -1, 768)
        token = self.param("token", linen.initializers.zeros, (1, 1, 768))
        x = jnp.concatenate([jnp.broadcast_to(token, (x.shape[0], 1, 768)), x], axis=1)
        x = x + self.param("positions", linen.initializers.normal(0.02), (1, x.shape[1], 768))
        for _ in range(12):
            x = Encoder(12)(x)
        return linen.Dense(1000)(linen.LayerNorm()(x)[:, 0])


def linen_vit() -> tuple[Callable[..., Any], Any]:
    net, images = ViT(), jnp.zeros((1, 224, 224, 3))
    variables = jax.jit(net.init)(jax.random.key(0), images)
    return lambda images: net.apply(variables, images), variables


class Mlp(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        self.layers = nnx.List([nnx.Linear(64, 64, rngs=rngs) for _ in range(25)])

    def __call__(self, x: jax.Array) -> jax.Array:
        for layer in self.layers:
            x = jnp.tanh(layer(x))
        return x


def of_nnx(net: nnx.Module) -> tuple[Callable[..., Any], Any]:
    return net, nnx.state(net)


def network(name: str) -> tuple[Callable[..., Any], Any]:
    return of_nnx(NETWORKS[name].build())  # type: ignore[arg-type]


def gpt2_large() -> tuple[Callable[..., Any], Any]:
    """Return GPT-2 large, which has 3.1 GB of parameters."""
    return of_nnx(gpt2.GPT2(layers=36, width=1280, heads=20, vocabulary=50257, context=1024))


TOKENS = jax.ShapeDtypeStruct((1, 128), np.int32)
IMAGES = jax.ShapeDtypeStruct((1, 224, 224, 3), np.float32)
#: A function with its parameters, and what it is called on.
MODELS: dict[str, tuple[Callable[[], tuple[Callable[..., Any], Any]], jax.ShapeDtypeStruct]] = {
    "gpt2-small": (lambda: network("gpt2-small"), TOKENS),
    "resnet50": (lambda: network("resnet50"), IMAGES),
    "vit-linen": (linen_vit, IMAGES),
    "mlp": (lambda: of_nnx(Mlp()), jax.ShapeDtypeStruct((1, 64), np.float32)),
    "gpt2-large": (gpt2_large, TOKENS),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--models", nargs="*", help="which ones; all if none is named")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.rounds)))
        return 0
    failed = written_transposed(options.rounds)
    theirs = reference_python()
    levels = []
    print(f"{'':12} {'':7}" + "".join(f"{column:>14}" for column in COLUMNS))
    for name in options.models or MODELS:
        for who, python in (("ours", sys.executable), ("theirs", theirs)):
            command = [python, __file__, "--measure", name, "--rounds", str(options.rounds)]
            env = reference_environment() if who == "theirs" else None
            done = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
            if done.returncode != 0:
                failed += who == "ours"
                print(
                    f"{name:12} {who:7}   failed: {done.stderr.splitlines()[-1][:90]}", flush=True
                )
                continue
            figures = json.loads(done.stdout.splitlines()[-1])
            over = [column for column, limit in LIMITS.items() if figures[column] > limit]
            levels += [figures["full/off"]] if who == "ours" else []
            if figures["beyond"] <= SMALL_EXPORT and "export/trace" in over:
                over.remove("export/trace")
            shown = "".join(f"{figures[column]:14.3f}" for column in COLUMNS)
            verdict = f"   over the limit: {', '.join(over)}" if who == "ours" and over else ""
            print(f"{name:12} {who:7}{shown}{verdict}", flush=True)
            failed += bool(verdict)
    if levels:
        median = statistics.median(levels)
        is_over = median > FULL_LIMIT
        verdict = "   over the limit" if is_over else ""
        print(f"full/off, median over the models: {median:.3f}, limit {FULL_LIMIT}{verdict}")
        failed += is_over
    return 1 if failed else 0


def measure(name: str, rounds: int) -> dict[str, float]:
    """Measure one model with the `jax2onnx` of this environment."""
    build, spec = MODELS[name]
    fn, parameters = build()
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(parameters) if is_array(leaf)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export(lambda x: x + 1, spec, path)
        most = peak_over(lambda: export(fn, spec, path))
        names = ("trace", "export", "file", "copy", "full")
        times: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(rounds + 1):
            # A new function each time, so that JAX traces it again.
            times["trace"].append(seconds(lambda: jax.make_jaxpr(lambda x: fn(x))(spec)))
            times["copy"].append(seconds(lambda: copy(arrays, Path(folder) / "plain")))
            without_writing, whole = export(fn, spec, path)
            times["export"].append(without_writing)
            times["file"].append(whole)
            times["full"].append(export_with_all_provenance(fn, spec, path))
        pairs = list(zip(*times.values(), strict=True))[1:]
        stored = initializer_bytes(path)
    return {
        "export/trace": statistics.median(export / trace for trace, export, *_ in pairs),
        "beyond": 1e3 * statistics.median(e - TIMES_TRACE * t for t, e, *_ in pairs),
        "file/copy": statistics.median(file / (trace + copy) for trace, _, file, copy, _ in pairs),
        "full/off": statistics.median(full / file for _, _, file, _, full in pairs),
        "memory MB": most,
        "bytes": stored / sum(array.nbytes for array in arrays),
    }


def written_transposed(rounds: int) -> bool:
    """Compare writing weights in another order with writing them as they are."""
    arrays = [jnp.full((4096, 4096), number, np.float32) for number in range(8)]
    spec = jax.ShapeDtypeStruct((1, 4096), np.float32)

    def plain(x: jax.Array) -> jax.Array:
        return sum((x @ array for array in arrays), x)

    def transposed(x: jax.Array) -> jax.Array:
        return sum((x @ array.T for array in arrays), x)

    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            times = [export(fn, spec, Path(folder) / "model.onnx") for fn in (transposed, plain)]
            one, other = (whole - without_writing for without_writing, whole in times)
            ratios.append(one / other)
    ratio = statistics.median(ratios)
    verdict = "" if ratio <= TRANSPOSED_LIMIT else "   over the limit"
    print(f"writing 512 MB transposed / as they are {ratio:5.2f}{verdict}")
    return bool(verdict)


def is_array(leaf: Any) -> bool:
    """True for parameters and not for the keys of random numbers."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, np.number)


def export(fn: Callable[..., Any], spec: jax.ShapeDtypeStruct, path: Path) -> tuple[float, float]:
    """Export to a file. Returns the seconds without writing, and all of them."""
    import jax2onnx

    begun: list[float] = []
    gc.collect()
    start = time.perf_counter()
    if hasattr(jax2onnx, "InferenceSession"):
        from jax2onnx._progress import phase_listener

        token = phase_listener.set(lambda _: begun.append(time.perf_counter()))
        jax2onnx.to_onnx(lambda x: fn(x), [spec], return_mode="file", output_path=str(path))
        phase_listener.reset(token)
        return begun[-1] - start, time.perf_counter() - start
    # The package does not say when it begins to write.
    without_writing = seconds(lambda: jax2onnx.to_onnx(lambda x: fn(x), [spec]))
    whole = seconds(
        lambda: jax2onnx.to_onnx(lambda x: fn(x), [spec], return_mode="file", output_path=str(path))
    )
    return without_writing, whole


def export_with_all_provenance(
    fn: Callable[..., Any], spec: jax.ShapeDtypeStruct, path: Path
) -> float:
    """Return the seconds of an export with all provenance; NaN for the package, which has none."""
    import jax2onnx

    if not hasattr(jax2onnx, "InferenceSession"):
        return float("nan")
    options = {"return_mode": "file", "output_path": str(path), "provenance": "full"}
    return seconds(lambda: jax2onnx.to_onnx(lambda x: fn(x), [spec], **options))


def copy(arrays: list[np.ndarray], path: Path) -> None:
    """Write arrays as they are, to the disk as an export does."""
    with path.open("wb") as file:
        for array in arrays:
            file.write(array.data)
        file.flush()
        os.fsync(file.fileno())


def seconds(task: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def peak_over(task: Callable[[], object]) -> float:
    """Return how many MB of memory a task needs at most, in addition to what there is."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    task()
    return (memory("VmHWM") - before) / 1024


def memory(line: str) -> int:
    """Return a number of `/proc/self/status`, in KB."""
    text = Path("/proc/self/status").read_text()
    return next(int(row.split()[1]) for row in text.splitlines() if row.startswith(line))


def initializer_bytes(path: Path) -> int:
    """Return how many bytes the initializers of a model have, in the file or beside it."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    total = 0
    for tensor in model.graph.initializer:
        width = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize
        total += int(np.prod(tensor.dims, dtype=np.int64)) * width
    return total


if __name__ == "__main__":
    sys.exit(main())
