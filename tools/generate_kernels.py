"""Write crates/onnx/src/kernels/generated.rs: which types the CPU kernels of ONNX Runtime take.

    python tools/generate_kernels.py

Each release in `tools/releases.py` is installed below .venvs and lists its kernels in a process of
its own. A release names kernels by type variable; the operator schemas of the installed onnx say
which operand has which variable. For each type, the table has the first release since which all
releases that load the opset have the kernel.
"""

from __future__ import annotations

import collections
import json
import subprocess
import sys
from typing import Any

import onnx
import onnx.defs
import onnx.helper
import releases

TARGET = releases.ROOT / "crates" / "onnx" / "src" / "kernels" / "generated.rs"

OLDEST_OPSET = 16
NEWEST_OPSET = 26
NO_END = 2**31 - 1

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

#: The first and the last opset of a kernel, and the types of its variables.
Listed = tuple[int, int, dict[str, list[str]]]
#: What a row says of an operator: the variables of its operands and results, and of each variable
#: the types by release.
Signature = tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[tuple[int, int], ...], ...]]


def describe() -> dict[str, Any]:
    """The newest opset that the ONNX Runtime at hand loads, and its kernels."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as runtime

    onnxruntime.set_default_logger_severity(4)
    kernels = collections.defaultdict(list)
    others = set()
    for kernel in runtime.get_all_opkernel_def():
        first, last = kernel.version_range
        if kernel.provider != "CPUExecutionProvider":
            continue
        if kernel.domain or not onnx.defs.has(kernel.op_name):
            others.add((kernel.domain, kernel.op_name))
        else:
            kernels[kernel.op_name].append((first, last, dict(kernel.type_constraints)))
    opset = max(version for version in range(OLDEST_OPSET, NEWEST_OPSET + 1) if loads(version))
    return {"opset": opset, "kernels": kernels, "others": sorted(others)}


def loads(opset: int) -> bool:
    """Return whether the imported ONNX Runtime loads a model of an opset."""
    import onnxruntime

    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"
    ]
    nodes = [onnx.helper.make_node("Identity", ["x"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "graph", values[:1], values[1:])
    opsets = [onnx.helper.make_opsetid("", opset)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception:
        return False
    return True


def described(version: str) -> dict[str, Any]:
    """The kernels of a release, and the newest opset that it loads."""
    env = releases.environment(releases.installed(version))
    command = [sys.executable, __file__, "--describe"]
    return json.loads(subprocess.run(command, check=True, env=env, stdout=subprocess.PIPE).stdout)


def types_of(kernels: list[Listed], variable: str, operand: str, allowed: set[str]) -> set[str]:
    """The types of a variable that at least one kernel takes."""
    types: set[str] = set()
    for _, _, constraints in kernels:
        # The runtime names a variable by its letter, or by the operand.
        found = constraints.get(variable) or constraints.get(operand)
        types |= set(found) if found else allowed
    return types & allowed & CODES.keys()


def by_release(types: list[set[str]]) -> tuple[tuple[int, int], ...]:
    """The types that releases have in common, by the first release since which all have them."""
    masks: collections.Counter[int] = collections.Counter()
    for name in types[-1]:
        lacking = [index for index, found in enumerate(types) if name not in found]
        masks[lacking[-1] + 1 if lacking else 0] += 1 << CODES[name]
    return tuple(sorted(masks.items()))


def signature(op: str, opset: int, runtimes: list[dict[str, Any]]) -> Signature | None:
    """Return what the releases that load an opset say of an operator, if the newest one has it."""
    listed = [
        [kernel for kernel in runtime["kernels"].get(op, []) if kernel[0] <= opset <= kernel[1]]
        for runtime in runtimes
    ]
    if not listed[-1] or not onnx.defs.has(op, opset, ""):
        return None
    schema = onnx.defs.get_schema(op, opset, "")
    declared = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    numbers: dict[str, int] = {}
    types: list[tuple[tuple[int, int], ...]] = []
    for parameter in (*schema.inputs, *schema.outputs):
        variable = parameter.type_str
        if variable not in numbers:
            allowed = declared.get(variable, {variable})
            found = [
                # A release that does not load the opset lacks nothing.
                types_of(kernels, variable, parameter.name, allowed)
                if runtime["opset"] >= opset
                else allowed
                for kernels, runtime in zip(listed, runtimes, strict=True)
            ]
            numbers[variable] = len(types)
            types.append(by_release(found))
    inputs, outputs = (
        tuple(numbers[parameter.type_str] for parameter in parameters)
        for parameters in (schema.inputs, schema.outputs)
    )
    return inputs, outputs, tuple(types)


def rows(runtimes: list[dict[str, Any]]) -> list[tuple[str, int, int, Signature]]:
    """Each operator with the opsets over which it has the same signature."""
    table: list[tuple[str, int, int, Signature]] = []
    for op, kernels in sorted(runtimes[-1]["kernels"].items()):
        for opset in range(OLDEST_OPSET, NEWEST_OPSET + 1):
            found = signature(op, opset, runtimes)
            if found is None:
                continue
            last = opset if opset < NEWEST_OPSET else NO_END
            before = table[-1] if table else None
            if before and (before[0], before[2], before[3]) == (op, opset - 1, found):
                table[-1] = (op, before[1], last, found)
                continue
            first = min(first for first, end, _ in kernels if first <= opset <= end)
            since = first if opset == OLDEST_OPSET else opset
            table.append((op, since, last, found))
    return table


def other_rows(runtimes: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """Each operator that is not of ONNX, with the first release since which all have it."""
    table = []
    for domain, op in runtimes[-1]["others"]:
        lacking = [
            at for at, runtime in enumerate(runtimes) if [domain, op] not in runtime["others"]
        ]
        table.append((domain, op, lacking[-1] + 1 if lacking else 0))
    return table


def text() -> str:
    runtimes = [described(version) for version in releases.RELEASES]
    first, last = releases.RELEASES[0], releases.RELEASES[-1]
    lines = [
        "//! Generated by `tools/generate_kernels.py` from ONNX Runtime "
        f"{first} to {last}; do not edit.",
        "",
        "use super::runtime::{Release, Row};",
        "use crate::operator::OpType;",
        "",
        "#[rustfmt::skip]",
        "pub(super) const RELEASES: &[Release] = &[",
    ]
    for version, runtime in zip(releases.RELEASES, runtimes, strict=True):
        major, minor, _ = version.split(".")
        lines.append(f"    Release {{ version: ({major}, {minor}), opset: {runtime['opset']} }},")
    lines += ["];", "", "#[rustfmt::skip]", "pub(super) const ROWS: &[Row] = &["]
    for op, since, until, (inputs, outputs, types) in rows(runtimes):
        masks = ", ".join(
            "&[" + ", ".join(f"({release}, {mask:#x})" for release, mask in variable) + "]"
            for variable in types
        )
        lines.append(
            f"    Row {{ op: OpType::{op}, since: {since}, until: {until}, "
            f"inputs: &{list(inputs)}, outputs: &{list(outputs)}, types: &[{masks}] }},"
        )
    lines += ["];", "", "#[rustfmt::skip]", "pub(super) const OTHERS: &[(&str, &str, usize)] = &["]
    for domain, op, since in other_rows(runtimes):
        lines.append(f'    ("{domain}", "{op}", {since}),')
    return "\n".join([*lines, "];", ""])


if __name__ == "__main__":
    if sys.argv[1:] == ["--describe"]:
        json.dump(describe(), sys.stdout)
    else:
        TARGET.write_text(text())
