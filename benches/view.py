"""Measure the pages of `jax2onnx view`: the time to open, memory and size, beside Netron's time.

python benches/view.py
Chromium opens each page five times. Netron opens the same model if it is installed; NETRON_PYTHON
names a Python that has it.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import jax2onnx
from testkit.browser import Browser, Page, find_chromium

SIZES = (1_000, 10_000, 50_000)
RUNS = 5

#: The operators of a block, with the lines of this file that stand for their source.
BLOCK = (
    ("norm1", "LayerNormalization", 40),
    ("attention/query", "MatMul", 41),
    ("attention/key", "MatMul", 42),
    ("attention/scores", "Mul", 43),
    ("attention/softmax", "Softmax", 44),
    ("attention/out", "MatMul", 45),
    ("add1", "Add", 46),
    ("norm2", "LayerNormalization", 47),
    ("mlp/up", "MatMul", 48),
    ("mlp/act", "Relu", 49),
    ("mlp/down", "MatMul", 50),
    ("add2", "Add", 51),
)


def metadata(line: int) -> dict[str, str]:
    return {
        "pkg.jax2onnx.callsite": f"Block.__call__:{line}",
        "pkg.jax2onnx.plugin": "DotGeneralPlugin.lower:67",
        "pkg.jax2onnx.jax_traceback": f"benches/view.py:{line} (Block.__call__)\n"
        "benches/view.py:90 (Model.__call__)",
    }


def layered(nodes: int) -> onnx.ModelProto:
    """Return a deep model of transformer-like blocks, as an export at the level `full` looks."""
    weight = numpy_helper.from_array(np.eye(8, dtype=np.float32), "weight")
    scale = numpy_helper.from_array(np.ones(8, dtype=np.float32), "scale")
    made: list[onnx.NodeProto] = []
    values = []
    stream = "x"
    for block in range(-(-nodes // len(BLOCK))):
        residual = current = stream
        for name, op, line in BLOCK:
            output = f"blocks.{block}/{name}"
            operands = {"MatMul": [current, "weight"], "Add": [current, residual]}
            operands |= {"LayerNormalization": [current, "scale"], "Mul": [current, residual]}
            node = helper.make_node(op, operands.get(op, [current]), [output], name=output)
            for key, value in metadata(line).items():
                node.metadata_props.add(key=key, value=value)
            made.append(node)
            values.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, ["B", 8]))
            current = output
            if op == "Add":
                residual = current
        stream = current
    graph = helper.make_graph(
        made[:nodes],
        "layered",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 8])],
        [helper.make_tensor_value_info(made[nodes - 1].output[0], TensorProto.FLOAT, ["B", 8])],
        [weight, scale],
        value_info=values,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


class Measured:
    """What five visits of a page took."""

    def __init__(self, seconds: list[float], heap: int, frames: list[float]) -> None:
        self.seconds = statistics.median(seconds)
        self.megabytes = heap / 1e6
        self.frames = frames


def visit(browser: Browser, url: str, ready: str, timeout: float = 120) -> Page:
    page = browser.page()
    if url.startswith("http:"):
        # Netron asks the network about cookies otherwise.
        page.send("Network.setCookie", name="consent", value="1", url=url)
    page.send("Page.navigate", url=url)
    page.wait(ready, timeout)
    page.settle()
    return page


def open_page(executable: str, path: Path) -> Measured:
    """Measure from the request to the first frame that shows the graph."""
    seconds, heap, frames = [], 0, []
    for _ in range(RUNS):
        with Browser(executable) as browser:
            browser.page().close()
            start = time.perf_counter()
            page = visit(browser, path.as_uri(), "document.documentElement?.dataset.ready")
            seconds.append(time.perf_counter() - start)
            heap = page.send("Runtime.getHeapUsage")["usedSize"]
            frames = page.evaluate(PAN)
    return Measured(seconds, heap, frames)


#: Pans by 40 pixels in each of 60 frames, and returns the median and the longest but two, in ms.
PAN = """(async () => {
  const pane = document.querySelector(".viewport");
  const times = [];
  let last = performance.now();
  for (let step = 0; step < 60; step++) {
    pane.scrollTop += 40;
    await new Promise(requestAnimationFrame);
    times.push(performance.now() - last);
    last = performance.now();
  }
  times.sort((a, b) => a - b);
  return [times[30], times[57]];
})()"""


def open_netron(executable: str, model: Path) -> float | None:
    """Return the seconds that Netron takes to show the model, or None after two minutes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    python = os.environ.get("NETRON_PYTHON", sys.executable)
    code = f"import netron; netron.start({str(model)!r}, ('127.0.0.1', {port}), browse=False)"
    server = subprocess.Popen(
        [python, "-c", code + "; netron.wait()"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if server.poll() is None and probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        if server.poll() is not None:
            return None
        ready = "document.body?.classList.contains('default') && !!document.querySelector('.node')"
        with Browser(executable) as browser:
            browser.page().close()
            start = time.perf_counter()
            try:
                visit(browser, f"http://127.0.0.1:{port}/", ready)
            except TimeoutError:
                return None
            return time.perf_counter() - start
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    executable = find_chromium()
    if executable is None:
        sys.exit("Chromium is missing: apt-get install chromium")
    header = ("nodes", "write", "page", "open", "JS heap", "pan, frame (p95)", "Netron")
    print(" ".join(f"{word:>17}" for word in header))
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            model = Path(folder) / f"layered{size}.onnx"
            onnx.save(layered(size), model)
            start = time.perf_counter()
            shown = jax2onnx.view(model, open=False)
            written = time.perf_counter() - start
            page = model.with_suffix(".html")
            shown.save(page)
            measured = open_page(executable, page)
            netron = open_netron(executable, model)
            cells = (
                f"{size:,}",
                f"{written:.2f} s",
                f"{page.stat().st_size / 1e6:.2f} MB",
                f"{measured.seconds:.2f} s",
                f"{measured.megabytes:.0f} MB",
                f"{measured.frames[0]:.0f} ms ({measured.frames[1]:.0f} ms)",
                "not shown in 120 s" if netron is None else f"{netron:.2f} s",
            )
            print(" ".join(f"{cell:>17}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
