"""How long the command line takes, beside `python -c "import onnx; onnx.load(...)"`.

On a model with 500 MB of weights in the file, on one of 100,000 nodes, and on no model at all;
`cost` on one of 50,000 nodes.
`cargo build --release -p jax2onnx-cli` builds the program. A ratio is the time of Python by that
of the command.
"""

import functools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PROGRAM = Path(__file__).parent.parent / "target" / "release" / "jax2onnx"
ORIGIN, TABLE = "pkg.jax2onnx.origin", "pkg.jax2onnx.provenance"
#: How many lines the source of the models has.
LINES = 1000
#: How much faster every command has to be on the large model.
LIMIT = 20.0
#: What an answer about 100,000 nodes may take, in seconds.
LONGEST = 1.0


def main() -> int:
    """Print a table; the exit code says whether the limits are kept."""
    if not PROGRAM.exists():
        print("cargo build --release -p jax2onnx-cli builds the program", file=sys.stderr)
        return 2
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = timed([str(PROGRAM), "--version"], 20)
        print(f"start-up                  {started * 1000:8.1f} ms")
        large = large_model(folder / "large.onnx")
        size = large.stat().st_size / 1e6
        load = timed([sys.executable, "-c", f"import onnx; onnx.load({str(large)!r})"], 3)
        print(f"onnx.load, {size:.0f} MB       {load * 1000:8.1f} ms")
        for command in (["inspect"], ["where", "node_7"], ["blame"], ["check"]):
            took = timed([str(PROGRAM), command[0], str(large), *command[1:]], 10)
            ratio = load / took
            failures += ratio < LIMIT
            print(f"  {command[0]:<22}  {took * 1000:8.1f} ms  {ratio:7.0f} x")
        many = many_nodes(folder / "many.onnx", 100_000)
        size = many.stat().st_size / 1e6
        load = timed([sys.executable, "-c", f"import onnx; onnx.load({str(many)!r})"], 3)
        print(f"onnx.load, 100,000 nodes  {load * 1000:8.1f} ms  ({size:.0f} MB)")
        commands = (
            ["inspect"],
            ["where", "node_77777"],
            ["where", "nod_777"],
            ["blame"],
            ["blame", "model.py"],
            ["check"],
            ["diff", str(many)],
        )
        for command in commands:
            took = timed([str(PROGRAM), command[0], str(many), *command[1:]], 5)
            failures += took > LONGEST
            words = " ".join(word for word in command if not word.startswith("/"))
            print(f"  {words:<22}  {took * 1000:8.1f} ms  {load / took:7.0f} x")
        half = many_nodes(folder / "half.onnx", 50_000)
        for form in ("text", "json"):
            took = timed([str(PROGRAM), "cost", str(half), "--format", form], 5)
            failures += took > LONGEST
            print(f"  cost, 50,000, {form:<8}  {took * 1000:8.1f} ms")
    print("the limits are kept" if failures == 0 else f"{failures} limits are not kept")
    return min(failures, 1)


def timed(command: list[str], runs: int) -> float:
    """The shortest of several runs, in seconds: the others are of what else the machine does."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        times.append(time.perf_counter() - start)
    return min(times)


def large_model(path: Path) -> Path:
    """A chain of products with 500 MB of weights in the file, each with its line."""
    size, layers = 2048, 30
    weight = np.zeros((size, size), np.float32)
    weights = [numpy_helper.from_array(weight, f"w{i}") for i in range(layers)]
    nodes = [
        helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"], f"node_{i}")
        for i in range(layers)
    ]
    return save(path, nodes, weights, layers, size)


def many_nodes(path: Path, count: int) -> Path:
    """A chain of additions, each with its line."""
    weights = [numpy_helper.from_array(np.ones(1, np.float32), "one")]
    nodes = [
        helper.make_node("Add", [f"h{i}", "one"], [f"h{i + 1}"], f"node_{i}") for i in range(count)
    ]
    return save(path, nodes, weights, count, 1)


def save(
    path: Path, nodes: list[onnx.NodeProto], weights: list[TensorProto], last: int, size: int
) -> Path:
    """Write a chain, with a real table of origins."""
    table, origins = provenance(path.parent)
    for number, node in enumerate(nodes):
        entry = node.metadata_props.add()
        entry.key, entry.value = ORIGIN, origins[number % len(origins)]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", size])
        for name in ("h0", f"h{last}")
    ]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    entry = model.metadata_props.add()
    entry.key, entry.value = TABLE, table
    onnx.save(model, path)
    os.sync()
    return path


@functools.cache
def provenance(folder: Path) -> tuple[str, list[str]]:
    """The table of an export of many lines, and the numbers in it that its nodes have."""
    lines = "".join(f"    x = jnp.sin(x) * {line}.5\n" for line in range(LINES))
    source = f"import jax.numpy as jnp\n\n\ndef fn(x):\n{lines}    return x\n"
    (folder / "model.py").write_text(source)
    program = f"""
import jax2onnx, model
jax2onnx.to_onnx(model.fn, [(3,)], provenance="indexed", return_mode="file",
                 output_path={str(folder / "lines.onnx")!r})
"""
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)
    model = onnx.load(folder / "lines.onnx")
    table = next(entry.value for entry in model.metadata_props if entry.key == TABLE)
    nodes = model.graph.node
    return table, [entry.value for n in nodes for entry in n.metadata_props if entry.key == ORIGIN]


if __name__ == "__main__":
    sys.exit(main())
