"""Messages of other runtimes, in the form that their sources and their users show.

They are not from runs, and are not counted among those that are.
"""

from __future__ import annotations

#: The name of the log, the failure whose model it is about, the text.
DOCUMENTED: list[tuple[str, str, str]] = [
    (
        "tensorrt-parser",
        "matmul_inner_size",
        """\
[01/01/2026-00:00:00] [E] [TRT] ModelImporter.cpp:961: While parsing node number 1 \
[MatMul -> "dot_general"]:
[01/01/2026-00:00:00] [E] [TRT] ModelImporter.cpp:964: --- Begin node ---
input: "abs"
input: "y"
output: "dot_general"
name: "dot_general"
op_type: "MatMul"

[01/01/2026-00:00:00] [E] [TRT] ModelImporter.cpp:965: --- End node ---
[01/01/2026-00:00:00] [E] [TRT] ModelImporter.cpp:967: ERROR: ModelImporter.cpp:195 In function \
parseNode:
[6] Invalid Node - dot_general
[01/01/2026-00:00:00] [E] Failed to parse onnx file
""",
    ),
    (
        "tensorrt-builder",
        "add_of_two_lengths",
        """\
[01/01/2026-00:00:00] [E] [TRT] IBuilder::buildSerializedNetwork: Error Code 4: Internal Error \
(add: dimensions not compatible for elementwise. Broadcast has incompatible dimensions)
[01/01/2026-00:00:00] [E] [TRT] 4: [graphShapeAnalyzer.cpp::analyzeShapes::1872] Error Code 4: \
Miscellaneous (IElementWiseLayer add: broadcast dimensions must be conformable)
""",
    ),
    (
        "tensorrt-python",
        "concatenate_rows",
        """\
[01/01/2026-00:00:00] [TRT] [E] ModelImporter.cpp:963: While parsing node number 2 \
[Concat -> "concatenate"]:
[01/01/2026-00:00:00] [TRT] [E] ModelImporter.cpp:964: --- Begin node ---
input: "mul"
input: "sqrt"
output: "concatenate"
name: "concatenate"
op_type: "Concat"
attribute {
  name: "axis"
  i: 1
  type: INT
}

[01/01/2026-00:00:00] [TRT] [E] ModelImporter.cpp:965: --- End node ---
[01/01/2026-00:00:00] [TRT] [E] ModelImporter.cpp:968: ERROR: ModelImporter.cpp:195 In function \
parseNode:
[6] Invalid Node - concatenate
IConcatenationLayer concatenate: all concat input tensors must have the same dimensions except on \
the concatenation axis (1)
In node 2 with name: concatenate and operator: Concat (parseNode): INVALID_NODE: Invalid Node - \
concatenate
""",
    ),
    (
        "tensorrt-plugin",
        "operator_of_nobody",
        """\
ERROR: Failed to parse the ONNX file.
In node 2 (importFallbackPluginImporter): UNSUPPORTED_NODE: Assertion failed: creator && \
"Plugin not found, are the plugin name, version, and namespace correct?"
""",
    ),
    (
        "tensorrt-importer",
        "operator_of_nobody",
        """\
WARNING: onnx2trt_utils.cpp:369: Your ONNX model has been generated with INT64 weights.
ERROR: ModelImporter.cpp:773: While parsing node number 2 [Cosine -> "out_0"]:
ERROR: ModelImporter.cpp:774: --- Begin node ---
ERROR: ModelImporter.cpp:775: input: "add"
output: "out_0"
name: "cos"
op_type: "Cosine"

ERROR: ModelImporter.cpp:776: --- End node ---
ERROR: ModelImporter.cpp:779: ERROR: ModelImporter.cpp:140 In function parseGraph:
[8] No importer registered for op: Cosine
""",
    ),
    (
        "tensorrt-tactics",
        "sum_of_three",
        """\
[01/01/2026-00:00:00] [E] Error[10]: [optimizer.cpp::computeCosts::3869] Error Code 10: Internal \
Error (Could not find any implementation for node sub.)
[01/01/2026-00:00:00] [E] Error[2]: [builder.cpp::buildSerializedNetwork::609] Error Code 2: \
Internal Error (Assertion enginePtr != nullptr failed. )
""",
    ),
    (
        "tensorrt-region",
        "sum_of_three",
        """\
[01/01/2026-00:00:00] [TRT] [E] 10: Could not find any implementation for node \
{ForeignNode[mul...cos + sub]}.
[01/01/2026-00:00:00] [TRT] [E] 10: [optimizer.cpp::computeCosts::3869] Error Code 10: Internal \
Error (Could not find any implementation for node {ForeignNode[mul...cos + sub]}.)
""",
    ),
    (
        "tensorrt-extent",
        "concatenate_rows",
        """\
[01/01/2026-00:00:00] [E] Error[4]: ITensor::getDimensions: Error Code 4: API Usage Error (Error \
while computing output extent of node concatenate.)
""",
    ),
    (
        "openvino-core",
        "concatenate_rows",
        """\
RuntimeError: Check 'TShape::merge_into(output_shape, in_copy)' failed at \
src/core/shape_inference/include/concat_shape_inference.hpp:47:
While validating node 'opset1::Concat Concat_12 (opset1::Multiply mul[0]:f32[2,3], \
opset1::Power sqrt[0]:f32[4,3]) -> (f32[2,6])' with friendly_name 'concatenate':
Argument shapes are inconsistent; they must have the same rank, and must have equal dimension \
everywhere except on the concatenation axis (axis 1).
""",
    ),
    (
        "openvino-frontend",
        "operator_of_nobody",
        """\
openvino._pyopenvino.OpConversionFailure: Check 'unsupported_operations.empty()' failed at \
src/frontends/onnx/frontend/src/frontend.cpp:253:
FrontEnd API failed with OpConversionFailure:
OpenVINO does not support the following ONNX operations: Cosine
""",
    ),
]
