"""Round one node after another, each in a model of its own: what a tool without cuts does.

It does the least that is possible: the model is in memory, the data is one set of inputs, only the
result of the node is rounded, and a session runs each model once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper


def one_by_one(model: onnx.ModelProto, inputs: list[Any]) -> list[float]:
    """Return the error of the outputs for each node of the model, in bodies too."""
    names = [value.name for value in model.graph.input]
    feeds = dict(zip(names, inputs, strict=True))
    plain = _run(model, feeds)
    errors = []
    for place in range(len(_nodes(model))):
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        nodes, number = _nodes(changed)[place]
        node = nodes[number]
        if node.op_type in ("Scan", "Loop", "If", "Constant"):
            continue
        result = node.output[0]
        node.output[0] = f"{result}|long"
        cast = helper.make_node(
            "Cast", [node.output[0]], [f"{result}|short"], to=TensorProto.FLOAT16
        )
        back = helper.make_node("Cast", [f"{result}|short"], [result], to=TensorProto.FLOAT)
        nodes.insert(number + 1, back)
        nodes.insert(number + 1, cast)
        try:
            found = _run(changed, feeds)
        except Exception:
            # The result is no float32.
            continue
        errors.append(
            max(
                float(np.abs(one - other).max(initial=0))
                for one, other in zip(plain, found, strict=True)
            )
        )
    return errors


def _nodes(model: onnx.ModelProto) -> list[tuple[Any, int]]:
    waiting = [model.graph.node, *(each.node for each in model.functions)]
    found = []
    while waiting:
        nodes = waiting.pop(0)
        for number, node in enumerate(nodes):
            found.append((nodes, number))
            waiting += [each.g.node for each in node.attribute if each.HasField("g")]
    return found


def _run(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # Threads that wait would look busy.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found: list[Any] = session.run(None, feeds)
    return found
