"""Write small models of other exporters for the tests: `python tools/foreign_fixtures.py`.

`JAX2ONNX_REFERENCE_PYTHON` names an interpreter with the Python package jax2onnx, and
`TORCH_REFERENCE_PYTHON` one with torch and onnxscript. If a variable is not set, its models stay as
they are.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx

FIXTURES = Path(__file__).parent.parent / "crates" / "cli" / "tests" / "fixtures" / "foreign"

PYTHON_PACKAGE = """
import jax2onnx, reference_model
jax2onnx.to_onnx(reference_model.predict, [("B", 4)], return_mode="file", output_path="{name}.onnx")
"""

TORCH = """
import torch, torch_model
model = torch_model.Net().eval()
torch.onnx.export(model, (torch.ones(2, 4),), dynamo=True).save("torch.onnx", external_data=False)
"""

OLD_TORCH = """
import torch, torch_model
model = torch_model.Net().eval()
torch.onnx.export(model, (torch.ones(2, 4),), "torch_doc.onnx", dynamo=False, verbose=True)
"""


def main() -> None:
    """Write the models whose interpreter is named."""
    FIXTURES.mkdir(parents=True, exist_ok=True)
    if interpreter := named("JAX2ONNX_REFERENCE_PYTHON"):
        for detail in ("minimal", "full"):
            name = f"python_{detail}"
            switches = {
                "JAX2ONNX_ENABLE_STACKTRACE_METADATA": "1",
                "JAX2ONNX_STACKTRACE_DETAIL": detail,
            }
            program = PYTHON_PACKAGE.format(name=name)
            run(interpreter, program, "reference_model.py", name, switches)
    if interpreter := named("TORCH_REFERENCE_PYTHON"):
        run(interpreter, TORCH, "torch_model.py", "torch", {})
        run(interpreter, OLD_TORCH, "torch_model.py", "torch_doc", {})


def named(variable: str) -> str | None:
    """Return the interpreter that a variable names."""
    interpreter = os.environ.get(variable)
    if interpreter is None:
        print(f"{variable} is not set: its models stay as they are", file=sys.stderr)
    return interpreter


def run(interpreter: str, program: str, source: str, name: str, switches: dict[str, str]) -> None:
    """Run a program beside its source, in a folder that has the same name on every machine."""
    folder = Path(tempfile.gettempdir()) / "jax2onnx-foreign"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(FIXTURES / source, folder)
    path = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    environment = {**os.environ, **switches}
    environment.pop("PYTHONPATH", None)
    subprocess.run([interpreter, "-c", path + program], cwd=folder, env=environment, check=True)
    made = onnx.load(folder / f"{name}.onnx")
    prefix = Path(interpreter).parent.parent
    anonymise(
        made, {str(folder): "/home/ann/project", str(prefix): "/usr", f"../{prefix.name}": "/usr"}
    )
    onnx.save(made, FIXTURES / f"{name}.onnx")
    shutil.rmtree(folder)


def anonymise(model: onnx.ModelProto, names: dict[str, str]) -> None:
    """Replace the folders of this machine."""
    for node in model.graph.node:
        for entry in node.metadata_props:
            entry.value = replaced(entry.value, names)
        node.doc_string = replaced(node.doc_string, names)


def replaced(text: str, names: dict[str, str]) -> str:
    """Replace names in a string."""
    for found, shown in names.items():
        text = text.replace(found, shown)
    return text


if __name__ == "__main__":
    main()
