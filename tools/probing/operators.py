"""Probes a runtime operator by operator and type by type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import onnx.defs
from runtimes.process import RefusalError

from . import models
from .examples import EXAMPLES, Example, Types
from .judging import DOUBTED, ROUGH, Expected, same
from .running import Case, Runner
from .values import EXTENDED, KINDS, is_float, numbers

OLDEST: Final = 16
NEWEST: Final = 26

#: Types that matter only where numbers change their type.
NARROW: Final = ("float8e4m3fn", "float8e5m2", "int4", "uint4")
CASTS: Final = ("Cast", "QuantizeLinear", "DequantizeLinear")

#: Runtimes that compile each model for so long that only the newest version of an operator is
#: probed, with the types in use. Other types count as refused.
SLOW: Final = ("iree",)
USUAL: Final = (
    "bool", "float16", "float32", "int8", "int32", "int64", "uint8", "uint32",
)  # fmt: skip

#: A verdict is `right`, `refused: ` with the words of the runtime, or `wrong: ` with the kinds of
#: numbers that it computes wrongly.
Verdict = str


def versions(op: str, newest: int, brief: bool = False) -> list[tuple[int, int]]:
    """Returns ranges of opsets, with the opset that stands for a range as its end.

    A range ends at an opset in use if the next one has another version of the operator. Versions
    between only add types. If `brief`, the newest version stands for all.
    """
    ends = sorted({opset for opset in (17, 18, 21, 23, newest) if opset <= newest})
    found: list[tuple[int, int]] = []
    since = None
    first = OLDEST
    for end in ends:
        if onnx.defs.has(op, end, ""):
            now = onnx.defs.get_schema(op, end, "").since_version
            if now == since:
                found[-1] = (found[-1][0], end)
            else:
                found.append((max(first, now if since is None else first), end))
                since = now
        first = end + 1
    return [(found[0][0], found[-1][1])] if brief and found else found


def probe(
    runner: Runner, op: str, opset: int, only: Callable[[str], bool] = lambda _: True
) -> dict[str, dict[str, Verdict]]:
    """Returns a verdict for each type of each variable."""
    example = EXAMPLES[op](opset)
    usual = models.defaults(op, opset, example)
    found: dict[str, dict[str, Verdict]] = {}
    known: dict[str, Verdict | None] = {}
    for variable, name, types in variants(op, opset, only):
        key = str(sorted(types.items()))
        if key not in known:
            known[key] = judge(runner, op, opset, example, types, name)
        verdict = known[key]
        if verdict:
            found.setdefault(variable, {})[name] = verdict
    base = known.get(str(sorted(usual.items()))) or ""
    for verdicts in list(found.values())[1:]:
        for name, verdict in verdicts.items():
            verdicts[name] = without(verdict, base)
    return found


def variants(op: str, opset: int, only: Callable[[str], bool]) -> Iterator[tuple[str, str, Types]]:
    """Returns each variable with each of its types, and the types of all variables then."""
    example = EXAMPLES[op](opset)
    usual = models.defaults(op, opset, example)
    used = {models.variable_of(op, opset, at) for at, x in enumerate(example.operands) if x}
    used |= {
        each.type_str for each in onnx.defs.get_schema(op, opset, "").outputs[: example.outputs]
    }
    for variable, allowed in models.variables(op, opset).items():
        if variable not in used:
            continue
        for name in example.narrow.get(variable, allowed):
            if (name not in NARROW or op in CASTS) and only(name):
                yield variable, name, {**usual, variable: name}


def cases(op: str, opset: int, only: Callable[[str], bool], cast: bool) -> Iterator[Case]:
    """Returns the models that [`probe`] runs, with the inputs of each."""
    example = EXAMPLES[op](opset)
    for _, _, types in variants(op, opset, only):
        try:
            made = models.make(op, opset, example, types, cast)
        except Exception:
            continue
        kinds = kinds_of(example, types, {name for _, name, _, _ in made.inputs})
        if has_all(example, kinds):
            kinds = ["all", *kinds]
        yield Case(made.model, [made.fill(kind) for kind in kinds])


def has_all(example: Example, kinds: list[str]) -> bool:
    """True if one run with numbers of all kinds can show that an operator is right."""
    return example.elementwise and len(kinds) > 4


def without(verdict: Verdict, base: Verdict) -> Verdict:
    """Returns a verdict without the kinds of numbers that are wrong for the usual types too."""
    if not verdict.startswith("wrong: ") or not base.startswith("wrong: "):
        return verdict
    usual = base.removeprefix("wrong: ").split(",")
    own = [kind for kind in verdict.removeprefix("wrong: ").split(",") if kind not in usual]
    return f"wrong: {','.join(own)}" if own else "right"


def judge(
    runner: Runner, op: str, opset: int, example: Example, types: Types, varied: str
) -> Verdict | None:
    """Returns the verdict for an operator on operands of these types; `None` if nothing knows."""
    refusal = ""
    for cast in (False, True):
        try:
            probe = models.make(op, opset, example, types, cast)
        except Exception as error:
            return f"refused: no model: {error}"[:200]
        expected = Expected(probe.model, any((op, name) in DOUBTED for name in types.values()))
        kinds = kinds_of(example, types, {name for _, name, _, _ in probe.inputs})
        if not expected.of(probe.fill("ordinary")):
            return None
        try:
            if has_all(example, kinds) and is_right(runner, probe, expected, "all", types, example):
                return "right"
            wrong = [
                kind
                for kind in kinds
                if not is_right(runner, probe, expected, kind, types, example)
            ]
        except RefusalError as error:
            refusal = refusal or words(error)
            if cast or varied in EXTENDED:
                break
            continue
        if not wrong:
            return "right"
        if "ordinary" in wrong and not cast and varied not in ("float32", "int32"):
            # The type may be one that the runtime cannot be given.
            refusal = refusal or f"wrong: {','.join(wrong)}"
            continue
        return f"wrong: {','.join(wrong)}"
    return refusal if refusal.startswith("wrong") else f"refused: {refusal}"


def kinds_of(example: Example, types: Types, names: set[str]) -> list[str]:
    """Returns the kinds of numbers of these types that say something about an operator."""
    rounds = "T1" in types and "T2" in types and len(example.operands) <= 2
    if rounds and is_float(types["T1"]) and not is_float(types["T2"]) and types["T2"] != "bool":
        # A float that does not fit into the type has no defined result.
        signed = types["T2"].startswith("int")
        return ["ordinary", "zero", *(["negative", "ties"] if signed else [])]
    found = []
    for kind in KINDS:
        if kind != "ordinary" and not any(numbers(kind, name) for name in names):
            continue
        if (
            example.sums
            and kind in ("large", "subnormal", "infinite")
            and any(map(is_float, names))
        ):
            continue
        if kind in ("negative_zero", "subnormal") and not example.elementwise:
            continue
        found.append(kind)
    return found


def is_right(
    runner: Runner,
    probe: models.Probe,
    expected: Expected,
    kind: str,
    types: Types,
    example: Example,
) -> bool:
    """True if the runtime computes numbers of a kind as one of the oracles does."""
    inputs = probe.fill(kind)
    wanted = expected.of(inputs, kind)
    if not wanted:
        # Nothing is known about these numbers; the other kinds follow.
        return kind != "all"
    rough = next((name for name in ROUGH if name in types.values()), "")
    got = runner(probe.model, inputs)
    slack = expected.slack(inputs) if example.smooth else None
    return any(same(got, want, rough, kind, slack) for want in wanted)


def words(error: Exception) -> str:
    """Returns a refusal in one line, without what differs from run to run."""
    text = re.sub(r"\s+", " ", str(error))
    ended = re.match(r"the process ended with code -?\d+", text)
    if ended:
        panic = re.search(r"panicked at .*", text)
        text = f"{ended[0]}: {panic[0]}" if panic else ended[0]
    paths = r"(?<!\w)(~|\.\.)?/[\w.+~-]+/\S*|\(\d{3,}\)|\[\d\d:\d\d:\d\d\]"
    return re.sub(paths, "…", text)[:240]
