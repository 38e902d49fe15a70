"""Write the guilty nodes alone, with a script that runs them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx

from .arrays import Array
from .graphs import Graph

if TYPE_CHECKING:
    from .report import Report

_SCRIPT: Final = '''"""{headline}

    python run.py
"""

from pathlib import Path

import numpy as np
import onnxruntime

folder = Path(__file__).parent
inputs = dict(np.load(folder / "inputs.npz"))
expected = np.load(folder / "expected.npy")
options = onnxruntime.SessionOptions()
session = onnxruntime.InferenceSession(
    str(folder / "model.onnx"), options, providers={providers!r}
)
(got,) = session.run([{output!r}], inputs)
print("expected", expected)
print("got     ", got)
if expected.shape != got.shape:
    print("the shapes differ:", expected.shape, got.shape)
else:
    error = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    print("largest difference", np.nanmax(error) if error.size else 0.0)
'''


@dataclass(frozen=True)
class Case:
    """The guilty nodes, what they are fed, and what is expected."""

    graph: Graph
    model: onnx.ModelProto
    feeds: Mapping[str, Array]
    expected: Array
    output: str
    providers: tuple[str, ...]

    def save(self, folder: str, report: "Report") -> str:
        """Write the files. Returns the path of the script."""
        os.makedirs(folder, exist_ok=True)
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for tensor in model.graph.initializer:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                array = np.array(self.graph.model.array(tensor))
                tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
        onnx.save(model, os.path.join(folder, "model.onnx"))
        arrays: dict[str, Any] = {name: np.asarray(array) for name, array in self.feeds.items()}
        np.savez(os.path.join(folder, "inputs.npz"), **arrays)
        np.save(os.path.join(folder, "expected.npy"), self.expected)
        path = os.path.join(folder, "run.py")
        headline = str(report).partition("\n")[0].removeprefix("error: ").replace("\\", "")
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                _SCRIPT.format(
                    headline=headline, providers=list(self.providers), output=self.output
                )
            )
        return path
