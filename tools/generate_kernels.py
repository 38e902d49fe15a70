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

OLDEST_OPSET = 16
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


class Variables:
    """The type variables of one operator, numbered as its operands and results name them."""

    def __init__(self, schema: onnx.defs.OpSchema, kernels: list[dict[str, list[str]]]) -> None:
        self.declared = {
            c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints
        }
        self.kernels = kernels
        self.numbers: dict[str, int] = {}
        self.masks: list[int] = []
        self.inputs = [self.number(parameter) for parameter in schema.inputs]
        self.outputs = [self.number(parameter) for parameter in schema.outputs]

    def number(self, parameter: onnx.defs.OpSchema.FormalParameter) -> int:
        variable = parameter.type_str
        if variable not in self.numbers:
            allowed = self.declared.get(variable, {variable})
            types: set[str] = set()
            for kernel in self.kernels:
                # The runtime names a variable by its letter, or by the operand.
                found = kernel.get(variable) or kernel.get(parameter.name)
                types |= set(found) if found else allowed
            self.numbers[variable] = len(self.masks)
            self.masks.append(mask(types & allowed))
        return self.numbers[variable]


def rows() -> list[tuple[str, int, int, Variables]]:
    kernels = collections.defaultdict(list)
    for kernel in runtime.get_all_opkernel_def():
        first, last = kernel.version_range
        if (kernel.domain, kernel.provider) == (
            "",
            "CPUExecutionProvider",
        ) and last >= OLDEST_OPSET:
            kernels[kernel.op_name, first, min(last, 2**31 - 1)].append(kernel.type_constraints)
    table = []
    for (op, first, last), constraints in sorted(kernels.items()):
        opset = min(max(first, OLDEST_OPSET), last, NEWEST_OPSET)
        if first <= NEWEST_OPSET and onnx.defs.has(op, opset, ""):
            schema = onnx.defs.get_schema(op, opset, "")
            table.append((op, first, last, Variables(schema, constraints)))
    return table


def main() -> None:
    version = onnxruntime.__version__
    print(f"//! Made by `tools/generate_kernels.py` from ONNX Runtime {version}; do not edit.")
    print()
    print("use super::Kernel;")
    print("use crate::operator::OpType;")
    print()
    print("#[rustfmt::skip]")
    print("pub(super) const KERNELS: &[Kernel] = &[")
    for op, first, last, variables in rows():
        masks = ", ".join(f"{mask:#x}" for mask in variables.masks)
        print(
            f"    Kernel {{ op: OpType::{op}, since: {first}, until: {last}, "
            f"inputs: &{variables.inputs}, outputs: &{variables.outputs}, types: &[{masks}] }},"
        )
    print("];")


if __name__ == "__main__":
    main()
