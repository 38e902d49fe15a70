"""Write the models for the tests of the command line: `python tools/command_fixtures.py`.

The models are the same function at every level, with a source map, after ONNX Runtime optimized it,
and in a second version; and another function whose sizes must be positive. The tool also writes the
seeds of the fuzz targets.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "crates" / "cli" / "tests" / "fixtures"
CORPUS = ROOT / "fuzz" / "corpus"

EXPORT = """
import jax2onnx, mlp
for level in ("off", "minimal", "full", "indexed"):
    model = jax2onnx.to_onnx(mlp.predict, inputs=[("B", 8)], provenance=level, unroll=0,
                             return_mode="file", output_path=f"{level}.onnx")
jax2onnx.to_onnx(mlp.predict, inputs=[("B", 8)], source_map="mapped.onnx.map", unroll=0,
                 return_mode="file", output_path="mapped.onnx")
"""

POOL = """
import jax2onnx, pool
jax2onnx.to_onnx(pool.pool, inputs=[("B", "T", 2), ("S", 4)], provenance="indexed", nan="ignore",
                 return_mode="file", output_path="pool.onnx")
"""

OPTIMISE = """
import onnxruntime
options = onnxruntime.SessionOptions()
options.optimized_model_filepath = "optimised.onnx"
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
onnxruntime.InferenceSession("mapped.onnx", options, providers=["CPUExecutionProvider"])
"""


def main() -> None:
    """Export in a folder outside of a project, so that paths start at the folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(FIXTURES / "mlp.py", folder)
        shutil.copy(FIXTURES / "pool.py", folder)
        run(folder, EXPORT)
        run(folder, POOL)
        run(folder, OPTIMISE)
        for path in sorted(folder.glob("*.onnx*")):
            shutil.copy(path, FIXTURES)
        source = (folder / "mlp.py").read_text()
        changed = source.replace("jnp.tanh(carry)", "jnp.cos(carry)").replace(
            "reshape(8, 3)", "reshape(8, 3) + 1"
        )
        changed = changed.replace("    y, _ =", "    y = y * 3.0\n    y, _ =")
        (folder / "mlp.py").write_text(changed)
        run(folder, EXPORT)
        shutil.copy(folder / "indexed.onnx", FIXTURES / "second.onnx")
        shutil.copy(folder / "mapped.onnx.map", FIXTURES / "second.map")
    for name in ("indexed.onnx", "minimal.onnx"):
        shutil.copy(FIXTURES / name, CORPUS / "model")
    shutil.copy(FIXTURES / "mapped.onnx.map", CORPUS / "map" / "mapped.map")
    table = next(
        entry.value
        for entry in onnx.load(FIXTURES / "indexed.onnx").metadata_props
        if entry.key == "pkg.jax2onnx.provenance"
    )
    (CORPUS / "table" / "mlp.json").write_text(table)


def run(folder: Path, program: str) -> None:
    """Run a Python program in a folder from which it can import."""
    path = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    subprocess.run([sys.executable, "-c", path + program], cwd=folder, check=True)


if __name__ == "__main__":
    main()
