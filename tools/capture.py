"""Draw the picture of the README: an error of ONNX Runtime, and what `jax2onnx explain` prints.

Both are real output. The tool runs the programs and writes docs/assets/explain.svg.
"""

import html
import os
import pty
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "assets" / "explain.svg"
COLUMNS = 92
MODEL = """\
import jax.numpy as jnp
from jax2onnx import to_onnx


def weigh(x, y):
    return x * y


def scores(x, y):
    return weigh(jnp.tanh(x), y) + 1.0


to_onnx(
    scores, [("N",), ("N",)], return_mode="file", output_path="scores.onnx", provenance="indexed"
)
"""
SERVER = """\
import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.log_severity_level = 4
session = onnxruntime.InferenceSession("scores.onnx", options)
session.run(None, {"x": np.zeros(3, np.float32), "y": np.zeros(4, np.float32)})
"""
#: The colors of a terminal, by the numbers of their escape sequences.
COLORS = {"31": "#ff7b72", "32": "#7ee787", "34": "#79c0ff"}
ESCAPE = re.compile(r"\x1b\[([\d;]*)m")
WIDTH, LINE, MARGIN = 8.0, 19, 20


def main(check: bool) -> int:
    drawn = picture(capture())
    if PICTURE.exists() and PICTURE.read_text() == drawn:
        return 0
    if check:
        print(f"{PICTURE.name} is stale: run `make generate`")
        return 1
    PICTURE.write_text(drawn)
    return 0


def capture() -> list[str]:
    """Return the lines of the terminal, with its colors."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "scores.py").write_text(MODEL)
        Path(folder, "serve.py").write_text(SERVER)
        subprocess.run([sys.executable, "scores.py"], cwd=folder, check=True)
        server = subprocess.run(
            [sys.executable, "serve.py"], cwd=folder, capture_output=True, text=True, check=False
        )
        Path(folder, "log.txt").write_text(server.stderr)
        explained = on_terminal(
            [sys.executable, "-m", "jax2onnx", "explain", "scores.onnx", "log.txt"], folder
        )
    message = server.stderr.strip().splitlines()[-1]
    return [
        "\x1b[32m$\x1b[0m \x1b[1mpython serve.py\x1b[0m",
        *textwrap.wrap(re.sub(r"/\S+/(?=\w+\.h)", "…/", message), COLUMNS),
        "",
        "\x1b[32m$\x1b[0m \x1b[1mpython serve.py 2>&1 | jax2onnx explain scores.onnx\x1b[0m",
        *explained.split("\n\n")[0].splitlines(),
    ]


def on_terminal(command: list[str], folder: str) -> str:
    """Run a command that sees a terminal, and return what it prints."""
    reader, writer = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    running = subprocess.Popen(command, cwd=folder, stdout=writer, env=environment)
    os.close(writer)
    parts = []
    while part := read(reader):
        parts.append(part)
    if running.wait():
        sys.exit(f"{' '.join(command)} failed")
    return b"".join(parts).decode().replace("\r\n", "\n")


def read(reader: int) -> bytes:
    """Read from a terminal; at its end, Linux reports an error."""
    try:
        return os.read(reader, 65536)
    except OSError:
        return b""


def picture(lines: list[str]) -> str:
    """Draw lines of a terminal."""
    width, height = int(COLUMNS * WIDTH) + 2 * MARGIN, LINE * len(lines) + 2 * MARGIN
    text = "\n".join(
        f'<text x="{MARGIN}" y="{MARGIN + LINE * (number + 0.75):g}">{spans(line)}</text>'
        for number, line in enumerate(lines)
    )
    return f'''\
<svg xmlns="http://www.w3.org/2000/svg" role="img"
     width="{width}" height="{height}" viewBox="0 0 {width} {height}">
<title>ONNX Runtime fails at a node, and jax2onnx explain shows the line of Python</title>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<g font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
   font-size="13" fill="#c9d1d9">
{text}
</g>
</svg>
'''


def spans(line: str) -> str:
    """Convert the colors of a line. Its spaces must not break, because SVG merges other ones."""
    result, style = [], ""
    for index, part in enumerate(ESCAPE.split(line.replace(" ", "\xa0"))):
        if index % 2:
            codes = part.split(";")
            style = ' font-weight="bold"' if "1" in codes else ""
            style += "".join(f' fill="{COLORS[code]}"' for code in codes if code in COLORS)
        elif part:
            result.append(
                f"<tspan{style}>{html.escape(part)}</tspan>" if style else html.escape(part)
            )
    return "".join(result)


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
