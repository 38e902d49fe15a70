"""Write crates/onnx/src/kernels/generated.rs: which types ONNX Runtime's CPU kernels take.

The runtime lists its kernels by type variable; the operator schemas say which operand has which
variable. Both are read from the installed packages:

    python tools/generate_kernels.py > crates/onnx/src/kernels/generated.rs
"""

from __future__ import annotations

import collections

import onnx
import onnx.defs
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

OLDEST_OPSET = 17
NEWEST_OPSET = 26

CODES = {
    f"tensor({name})": code
    for name, code in {
        "float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
        "string": 8, "bool": 9, "float16": 10, "double": 11, "uint32": 12, "uint64": 13,
        "complex64": 14, "complex128": 15, "bfloat16": 16, "float8e4m3fn": 17,
        "float8e4m3fnuz": 18, "float8e5m2": 19, "float8e5m2fnuz": 20, "uint4": 21, "int4": 22,
        "float4e2m1": 23, "float8e8m0": 24, "uint2": 25, "int2": 26,
    }.items()
}  # fmt: skip


def mask(types: set[str]) -> int:
    return sum(1 << CODES[name] for name in types if name in CODES)


def rows() -> list[tuple[str, int, int, list[int], list[int], list[int]]]:
    kernels = collections.defaultdict(list)
    for kernel in runtime.get_all_opkernel_def():
        first, last = kernel.version_range
        if (
            kernel.domain == ""
            and kernel.provider == "CPUExecutionProvider"
            and last >= OLDEST_OPSET
        ):
            kernels[kernel.op_name, first, min(last, 2**31 - 1)].append(kernel.type_constraints)
    table = []
    for (op, first, last), constraints in sorted(kernels.items()):
        if first > NEWEST_OPSET:
            continue
        opset = min(max(first, OLDEST_OPSET), last, NEWEST_OPSET)
        if not onnx.defs.has(op, opset, ""):
            continue
        schema = onnx.defs.get_schema(op, opset, "")
        declared = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
        groups: dict[str, int] = {}
        masks: list[int] = []

        def group(parameter: onnx.defs.OpSchema.FormalParameter) -> int:
            variable = parameter.type_str
            if variable not in groups:
                allowed = declared.get(variable, {variable})
                kernel_types: set[str] = set()
                for types in constraints:
                    found = types.get(variable) or types.get(parameter.name)
                    kernel_types |= set(found) if found else allowed
                groups[variable] = len(masks)
                masks.append(mask(kernel_types & allowed))
            return groups[variable]

        inputs = [group(parameter) for parameter in schema.inputs]
        outputs = [group(parameter) for parameter in schema.outputs]
        table.append((op, first, last, inputs, outputs, masks))
    return table


def main() -> None:
    print(
        f"//! Made by tools/generate_kernels.py from ONNX Runtime {onnxruntime.__version__}; do not edit."
    )
    print()
    print("use super::Kernel;")
    print()
    print("#[rustfmt::skip]")
    print("pub(super) const KERNELS: &[Kernel] = &[")
    for op, first, last, inputs, outputs, masks in rows():
        hexes = ", ".join(f"{m:#x}" for m in masks)
        print(
            f'    Kernel {{ op: "{op}", since: {first}, until: {last}, '
            f"inputs: &{inputs}, outputs: &{outputs}, types: &[{hexes}] }},"
        )
    print("];")


if __name__ == "__main__":
    main()
