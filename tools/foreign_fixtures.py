"""Write small models of other exporters for the tests: `python tools/foreign_fixtures.py`.

`JAX2ONNX_REFERENCE_PYTHON` names an interpreter that has the Python package jax2onnx, and
`TORCH_REFERENCE_PYTHON` one that has torch with its exporter. Without the second, the models are put
together with `onnx` in the form that torch documents: the metadata of `torch.onnx.export(dynamo=True)`,
and the doc strings of the older exporter with `verbose=True`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
from onnx import TensorProto, helper

FIXTURES = Path(__file__).parent.parent / "crates" / "cli" / "tests" / "fixtures" / "foreign"

PYTHON_PACKAGE = """
import jax2onnx, reference_model
jax2onnx.to_onnx(reference_model.predict, [("B", 4)], return_mode="file", output_path="{name}.onnx")
"""

TORCH = """
import torch, torch_model
model = torch_model.Net().eval()
program = torch.onnx.export(model, (torch.ones(2, 4),), dynamo=True)
program.save("torch.onnx", external_data=False)
"""


def main() -> None:
    """Write them all."""
    FIXTURES.mkdir(parents=True, exist_ok=True)
    python_package(os.environ.get("JAX2ONNX_REFERENCE_PYTHON"))
    torch(os.environ.get("TORCH_REFERENCE_PYTHON"))
    onnx.save(torch_doc_strings(), FIXTURES / "torch_doc.onnx")


def python_package(interpreter: str | None) -> None:
    """Models of the Python package, at both of its levels."""
    if interpreter is None:
        print("JAX2ONNX_REFERENCE_PYTHON is not set: its models stay as they are", file=sys.stderr)
        return
    for detail in ("minimal", "full"):
        switches = {
            "JAX2ONNX_ENABLE_STACKTRACE_METADATA": "1",
            "JAX2ONNX_STACKTRACE_DETAIL": detail,
        }
        name = f"python_{detail}"
        run(interpreter, PYTHON_PACKAGE.format(name=name), "reference_model.py", name, switches)


def torch(interpreter: str | None) -> None:
    """A model of torch's exporter, or one in its form."""
    if interpreter is not None:
        run(interpreter, TORCH, "torch_model.py", "torch", {})
        return
    print(
        "TORCH_REFERENCE_PYTHON is not set: torch.onnx is written in the documented form",
        file=sys.stderr,
    )
    onnx.save(torch_form(), FIXTURES / "torch.onnx")


def run(interpreter: str, program: str, source: str, name: str, switches: dict[str, str]) -> None:
    """Run a program beside its source, in a folder with the same name everywhere."""
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
    """Put other folders in the place of those of this machine."""
    for node in model.graph.node:
        for entry in node.metadata_props:
            for found, shown in names.items():
                entry.value = entry.value.replace(found, shown)


def torch_form() -> onnx.ModelProto:
    """What `torch.onnx.export(dynamo=True)` writes on each node, for the module in torch_model.py."""
    file = "/home/ann/project/torch_model.py"
    line = {
        "fc1": (15, "forward", "return self.fc2(torch.relu(self.fc1(x)))"),
        "fc2": (15, "forward", "return self.fc2(torch.relu(self.fc1(x)))"),
        "relu": (15, "forward", "return self.fc2(torch.relu(self.fc1(x)))"),
    }

    def node(op: str, inputs: list[str], output: str, module: str, target: str) -> onnx.NodeProto:
        number, function, text = line[module or "relu"]
        made = helper.make_node(op, inputs, [output], name=f"node_{op}_{output}")
        library = "/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py"
        stack = f'File "{file}", line {number}, in {function}\n    {text}'
        scopes, classes = ["", output], ["torch_model.Net", target]
        if module:
            stack += f'\nFile "{library}", line 125, in forward\n    return F.linear(input, self.weight, self.bias)'
            scopes, classes = (
                ["", module, output],
                [classes[0], "torch.nn.modules.linear.Linear", target],
            )
        put(made, "pkg.torch.onnx.stack_trace", stack)
        put(made, "pkg.torch.onnx.name_scopes", repr(scopes))
        put(made, "pkg.torch.onnx.class_hierarchy", repr(classes))
        put(
            made,
            "pkg.torch.onnx.fx_node",
            f"%{output} : [num_users=1] = call_function[target=torch.ops.{target}]",
        )
        return made

    nodes = [
        node("Gemm", ["x", "fc1.weight", "fc1.bias"], "linear", "fc1", "aten.linear.default"),
        node("Relu", ["linear"], "relu", "", "aten.relu.default"),
        node("Gemm", ["relu", "fc2.weight", "fc2.bias"], "linear_1", "fc2", "aten.linear.default"),
    ]
    for gemm in (nodes[0], nodes[2]):
        gemm.attribute.append(helper.make_attribute("transB", 1))
    return model(nodes, "linear_1", "pytorch")


def torch_doc_strings() -> onnx.ModelProto:
    """What the older exporter writes with `verbose=True`: frames in the doc string, innermost first."""
    linear = "/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py(114): forward"
    user = "/home/ann/project/torch_model.py(15): forward"
    outer = "/home/ann/project/export.py(9): <module>"
    nodes = [
        helper.make_node(
            "Gemm", ["x", "fc1.weight", "fc1.bias"], ["/fc1/Gemm_output_0"], "/fc1/Gemm", transB=1
        ),
        helper.make_node("Relu", ["/fc1/Gemm_output_0"], ["/Relu_output_0"], "/Relu"),
        helper.make_node(
            "Gemm", ["/Relu_output_0", "fc2.weight", "fc2.bias"], ["y"], "/fc2/Gemm", transB=1
        ),
    ]
    for made, frames in zip(
        nodes, ([linear, user, outer], [user, outer], [linear, user, outer]), strict=True
    ):
        made.doc_string = "\n".join(frames) + "\n"
    return model(nodes, "y", "pytorch")


def model(nodes: list[onnx.NodeProto], output: str, producer: str) -> onnx.ModelProto:
    """A perceptron of two layers."""
    float32 = TensorProto.FLOAT
    weights = [
        helper.make_tensor("fc1.weight", float32, [3, 4], [0.5] * 12),
        helper.make_tensor("fc1.bias", float32, [3], [0.0] * 3),
        helper.make_tensor("fc2.weight", float32, [2, 3], [0.25] * 6),
        helper.make_tensor("fc2.bias", float32, [2], [1.0] * 2),
    ]
    graph = helper.make_graph(
        nodes,
        "main_graph",
        [helper.make_tensor_value_info("x", float32, [2, 4])],
        [helper.make_tensor_value_info(output, float32, [2, 2])],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    made.producer_name = producer
    onnx.checker.check_model(made)
    return made


def put(node: onnx.NodeProto, key: str, value: str) -> None:
    """Add metadata to a node."""
    entry = node.metadata_props.add()
    entry.key, entry.value = key, value


if __name__ == "__main__":
    main()
