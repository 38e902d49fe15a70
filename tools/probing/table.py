"""Writes what was found as tables in Rust."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import onnx.defs

from . import documented, models, operators, report
from .examples import EXAMPLES
from .forms import abilities
from .values import KINDS

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "crates" / "onnx" / "src" / "kernels" / "probed"
NO_END: Final = 2**31 - 1

CODES: Final = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
    "bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
    "float8e4m3fn": 17, "float8e5m2": 19, "uint4": 21, "int4": 22,
}  # fmt: skip
NAMES: Final = {
    "float32": "F32", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16",
    "int32": "I32", "int64": "I64", "bool": "Bool", "float16": "F16", "float64": "F64",
    "uint32": "U32", "uint64": "U64", "bfloat16": "Bf16", "float8e4m3fn": "F8E4M3Fn",
    "float8e5m2": "F8E5M2", "uint4": "U4", "int4": "I4",
}  # fmt: skip
WHEN: Final = {
    "ordinary": "Any", "zero": "Zero", "negative": "Negative", "ties": "Ties", "large": "Large",
    "high": "High", "ends": "Ends", "infinite": "Infinite", "nan": "Nan",
    "negative_zero": "NegativeZero", "subnormal": "Subnormal", "precise": "Precise",
}  # fmt: skip

#: Operators that only move numbers.
MOVES: Final = ("Concat", "Expand", "Gather", "Reshape", "Slice", "Transpose", "Unsqueeze")
PLACES: Final = ("inputs", "constants")
#: Operators that only move or choose numbers, or convert them.
KEEPS: Final = (
    *MOVES, "Cast", "CastLike", "Constant", "Flatten", "GatherElements", "GatherND", "Identity",
    "If", "Loop", "Pad", "ScatterElements", "ScatterND", "Shape", "Size", "Split", "Squeeze",
    "Tile", "Where", "QuantizeLinear", "DequantizeLinear",
)  # fmt: skip

#: The variables of operands and results, and the types of each variable.
Signature = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def kinds_of(verdict: str) -> list[str]:
    """Returns the kinds of numbers that a verdict calls wrong; the ordinary ones stand for all."""
    if not verdict.startswith("wrong: "):
        return []
    kinds = verdict.removeprefix("wrong: ").split(",")
    return ["ordinary"] if "ordinary" in kinds else kinds


def signature(op: str, entry: dict[str, Any]) -> Signature:
    schema = onnx.defs.get_schema(op, entry["until"], "")
    usual = models.defaults(op, entry["until"], EXAMPLES[op](entry["until"]))
    numbers: dict[str, int] = {}
    types: list[int] = []
    runs = any(not verdict.startswith("refused") for g in entry["types"].values() for verdict in g)
    for parameter in (*schema.inputs, *schema.outputs):
        variable = parameter.type_str
        if variable in numbers:
            continue
        numbers[variable] = len(types)
        found = entry["types"].get(variable)
        if found is None:
            # No example uses the variable.
            taken = [usual[variable]] if runs and usual.get(variable) else []
        else:
            taken = [n for verdict, names in found.items() for n in names if runs_(verdict)]
        types.append(sum(1 << CODES[name] for name in taken))
    inputs, outputs = (
        tuple(numbers[parameter.type_str] for parameter in parameters)
        for parameters in (schema.inputs, schema.outputs)
    )
    return inputs, outputs, tuple(types)


def runs_(verdict: str) -> bool:
    return not verdict.startswith("refused")


def without_small(found: dict[str, Any]) -> dict[str, Any]:
    """Drops int8 from the operators that compute, if it is wrong between nodes."""
    alone = found["operators"].get("Equal", [])
    is_right_alone = bool(alone) and "int8" in alone[-1]["types"]["T"].get("right", [])
    if "SmallSigned" not in found["abilities"].get("wrong", []) or not is_right_alone:
        return found

    def dropped(groups: dict[str, list[str]]) -> dict[str, list[str]]:
        return {verdict: [n for n in names if n != "int8"] for verdict, names in groups.items()}

    table = {
        op: entries
        if op in KEEPS
        else [
            {**entry, "types": {v: dropped(groups) for v, groups in entry["types"].items()}}
            for entry in entries
        ]
        for op, entries in found["operators"].items()
    }
    return {**found, "operators": table}


def rows(found: dict[str, Any]) -> list[str]:
    newest = max(found["opsets"])
    table: list[tuple[str, int, int, Signature]] = []
    for op, entries in sorted(found["operators"].items()):
        for entry in entries:
            since, until = entry["since"], entry["until"]
            if since == operators.OLDEST:
                since = onnx.defs.get_schema(op, operators.OLDEST, "").since_version
            end = NO_END if until == newest else until
            now = signature(op, entry)
            before = table[-1] if table else None
            if before and (before[0], before[2] + 1, before[3]) == (op, since, now):
                table[-1] = (op, before[1], end, now)
            else:
                table.append((op, since, end, now))
    return [row(*each) for each in table]


def row(op: str, since: int, until: int, found: Signature) -> str:
    inputs, outputs, types = found
    masks = ", ".join(f"&[(0, {mask:#x})]" if mask else "&[]" for mask in types)
    return (
        f"    Row {{ op: OpType::{op}, since: {since}, until: {until}, "
        f"inputs: &{list(inputs)}, outputs: &{list(outputs)}, types: &[{masks}] }},"
    )


def wrong_by_kind(entries: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Returns the types for which the newest version computes each kind of numbers wrongly."""
    by_kind: dict[str, set[str]] = {}
    # Models have the newest version of an operator.
    for entry in entries[-1:]:
        for verdicts in entry["types"].values():
            for verdict, names in verdicts.items():
                for kind in kinds_of(verdict):
                    by_kind.setdefault(kind, set()).update(names)
    return by_kind


def narrowed(found: dict[str, Any]) -> set[tuple[str, str]]:
    """Returns the types for which even moving a number changes it, with the kinds of numbers."""
    tables = [wrong_by_kind(found["operators"].get(op, [])) for op in MOVES]
    pairs = {(name, kind) for table in tables for kind, names in table.items() for name in names}
    changed = {
        (name, kind)
        for name, kind in pairs
        if sum(name in table.get(kind, ()) for table in tables) > len(tables) // 2
    }
    # No result shows the digits of a type that the runtime returns as a shorter one.
    shortened = found["boundaries"]["outputs"].get("as float32", [])
    return changed | {(name, "precise") for name in shortened if name == "float64"}


def wrong(found: dict[str, Any]) -> list[str]:
    lines = []
    everywhere = narrowed(found)
    for op, entries in sorted(found["operators"].items()):
        if op in ("Cast", "CastLike"):
            continue
        by_type: dict[str, tuple[str, ...]] = {}
        by_kind = wrong_by_kind(entries)
        for name in sorted({n for names in by_kind.values() for n in names}, key=CODES.__getitem__):
            kinds = [kind for kind in KINDS if name in by_kind.get(kind, ())]
            kinds = kinds[:1] if kinds[0] == "ordinary" else kinds
            by_type[name] = tuple(kind for kind in kinds if (name, kind) not in everywhere)
        for kinds in dict.fromkeys(filter(None, by_type.values())):
            types = [name for name, found in by_type.items() if found == kinds]
            whens = ", ".join(f"When::{WHEN[kind]}" for kind in kinds)
            lines.append(
                f"    Wrong {{ op: OpType::{op}, types: &[{dtypes(types)}], "
                f"right_since: None, when: &[{whens}] }},"
            )
    return lines


def dtypes(names: Iterable[str]) -> str:
    return ", ".join(f"DType::{NAMES[name]}" for name in sorted(names, key=CODES.__getitem__))


def mask(groups: dict[str, list[str]]) -> str:
    return f"{sum(1 << CODES[name] for name in groups.get('right', [])):#x}"


def demoted(boundaries: dict[str, dict[str, list[str]]]) -> list[str]:
    """Returns the types that constants may have, and inputs only with wrong numbers."""
    constants = boundaries["constants"].get("right", [])
    return [name for name in boundaries["inputs"].get("wrong", []) if name in constants]


def constant(name: str, kind: str, lines: list[str]) -> list[str]:
    if not lines:
        return ["", f"const {name}: &[{kind}] = &[];"]
    return ["", "#[rustfmt::skip]", f"const {name}: &[{kind}] = &[", *lines, "];"]


def wrapped(names: list[str]) -> list[str]:
    text = ", ".join(f"Ability::{name}" for name in names)
    lines = textwrap.wrap(text, 116) if names else []
    return ["    " + line for line in lines]


def text(found: dict[str, Any]) -> str:
    """Returns the module of a runtime."""
    found = without_small(found)
    version = [int(part) for part in found["version"].split(".")]
    forms = found["abilities"]
    right = sorted([*forms.get("right", []), *newer(found)])
    miscomputed = sorted(forms.get("wrong", []))
    release = f"Release {{ version: ({version[0]}, {version[1]}), opset: {max(found['opsets'])} }}"
    wrongs = wrong(found)
    lost = dtypes(demoted(found["boundaries"]))
    used = ["DType"] if wrongs or lost else []
    pairs = sorted(narrowed(found), key=lambda pair: (CODES[pair[0]], KINDS.index(pair[1])))
    narrow = ", ".join(f"(DType::{NAMES[n]}, When::{WHEN[kind]})" for n, kind in pairs)
    lines = [
        *heading(found),
        "",
        "use super::{Ability, Probed, Source};",
        *[f"use crate::dtype::{name};" for name in used],
        "use crate::kernels::behavior::{When, Wrong};" if wrongs
        else "use crate::kernels::behavior::Wrong;",
        "use crate::kernels::target::{Release, Row};",
        "use crate::operator::OpType;",
        "",
        "#[rustfmt::skip]",
        "pub(in crate::kernels) const PROBED: Probed = Probed {",
        f'    name: "{found["runtime"]}",',
        f"    source: {source(found)},",
        f"    releases: &[{release}],",
        "    rows: ROWS,",
        "    wrong: WRONG,",
        f"    narrowed: &[{narrow}],",
        "    abilities: ABILITIES,",
        "    miscomputed: MISCOMPUTED,",
        *[f"    {place}: {mask(found['boundaries'][place])}," for place in PLACES],
        f"    demoted: &[{lost}],",
        "};",
        *constant("ROWS", "Row", rows(found)),
        *constant("WRONG", "Wrong", wrongs),
        *constant("ABILITIES", "Ability", wrapped(right)),
        *constant("MISCOMPUTED", "Ability", wrapped(miscomputed)),
        "",
    ]  # fmt: skip
    return "\n".join(lines)


def newer(found: dict[str, Any]) -> list[str]:
    """Returns the forms that came after the last probe of a runtime, which count as right."""
    known = {name for names in found["abilities"].values() for name in names}
    is_probed = "documentation" not in found
    return [form.name for form in abilities() if is_probed and form.name not in known]


def heading(found: dict[str, Any]) -> list[str]:
    name = f"{found['runtime']} {found['version']}"
    first = f"//! Generated by `tools/probe.py` from {name}; do not edit."
    if "source" not in found:
        return [first]
    lines = [f"By its documentation as of {found['documentation']}: {found['source']}."]
    said = [line for limit in ["", *lines, "", *found["limits"]] for line in _comment(limit)]
    return [first, *said]


def _comment(text: str) -> list[str]:
    return [f"//! {line}" for line in textwrap.wrap(text, 110)] or ["//!"]


def source(found: dict[str, Any]) -> str:
    date = found.get("documentation")
    return f'Source::Documentation("{date}")' if date else "Source::Probe"


def ability_text() -> str:
    """Returns the module that names the forms."""
    names = sorted(each.name for each in abilities())
    return "\n".join([
        "//! Generated by `tools/probe.py`; do not edit.",
        "",
        "/// A form of an operator or of a model. `tools/probing` has a model for each.",
        "#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]",
        "#[rustfmt::skip]",
        "pub(crate) enum Ability {",
        *["    " + line for line in textwrap.wrap(", ".join(names) + ",", 116)],
        "}",
        "",
    ])  # fmt: skip


def module(name: str) -> str:
    return re.sub(r"\W", "_", name)


def files() -> dict[Path, str]:
    """Returns every generated file, from the stored results."""
    found = {FOLDER / "abilities.rs": ability_text()}
    for path in sorted(report.RESULTS.glob("*.json")):
        found[FOLDER / f"{module(path.stem)}.rs"] = text(report.read(path.stem))
    for runtime in documented.DOCUMENTED:
        found[FOLDER / f"{module(runtime.name)}.rs"] = text(documented.found(runtime))
    return found


def write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path, written in files().items():
        path.write_text(written)
