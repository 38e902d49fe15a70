"""Write a model in a shorter type that stays within a budget: `lower_precision`."""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import onnx

from .. import _progress
from .._comparing.arrays import Array
from .._comparing.models import Loaded
from .._comparing.running import Runner
from .._errors import ConfigError
from .._types import StrPath
from .._words import did_you_mean, quoted
from .analysis import Analysis, analyze
from .calibration import bound
from .casting import Caster
from .errors import decibels, worst_output
from .formats import FORMATS, Format, format_of
from .lowered import Lowered, LoweredLine, Lowering, bytes_of_others, bytes_of_weights
from .normalized import normalized
from .quantizing import quantizable
from .ranking import Group, groups_of
from .reasons import reason
from .samples import Feeds, samples_of
from .search import Choice, Measure, Search, WholeSearch
from .sites import BLOCKS, CHANNELS, VALUES, WEIGHTS, Facts, Part, Site
from .storing import Storer

if TYPE_CHECKING:
    from .._comparing.runtime import AnyModel

#: So many samples are used to choose lines, and to measure the error at the end.
_MAX_CHOOSING, _MAX_MEASURING = 4, 16
#: So many samples show the range of each value, and judge how weights and operands are chosen.
_MAX_CALIBRATING, _MAX_JUDGING = 32, 24
#: New data may have a larger error than the data that the lines were chosen with.
_MARGIN: Final = 0.6
_MAX_ROUNDS: Final = 6
_MAX_REFUSED: Final = 64
_SHOWN: Final = 5
#: Two float32 models whose nodes are fused differently differ by so much.
_NOISE: Final = 1e-6
_OWN_TARGET: Final = "onnxruntime"
#: The first opset whose operators take bfloat16.
_BFLOAT16: Final = 13
#: The name of an optimization of ONNX Runtime, in the names of the nodes that it writes.
_FUSION: Final = re.compile(r"(\w+)Fusion")

#: The largest relative error of an output, unless users say otherwise.
DEFAULT_BUDGET: Final = 1e-2

Metric = Callable[[Mapping[str, Array], Mapping[str, Array]], float]


@dataclass(frozen=True)
class _Judge:
    """The tolerances by which outputs are judged."""

    name: str
    budget: float
    measure: Measure

    def shown(self, error: float) -> float:
        """Return an error as users know it."""
        if self.name != "snr":
            return error
        return -20 * math.log10(error) if error > 0 else math.inf


def lower_precision(
    model: "AnyModel",
    data: Mapping[str, Any] | Sequence[Any],
    *,
    to: str = "float16",
    budget: float = DEFAULT_BUDGET,
    metric: str | Metric = "error",
    keep: Sequence[str] = (),
    weights_only: bool = False,
    dynamic: bool = False,
    target: str | None = None,
    convert_inputs_and_outputs: bool = False,
    source_map: StrPath | None = None,
    source_roots: Sequence[StrPath] = (),
) -> Lowered:
    """Write a model in a shorter type, whose outputs stay within a budget.

    Lines that cost too much keep their type. Every inserted node has the lines of the node that it
    serves, so that `where`, `blame`, `view`, `explain` and `compare` work on the result.

    Args:
        model: The model: a path, bytes, an `onnx.ModelProto` or an `onnx_ir.Model`, from any
            exporter.
        data: The inputs, as a sequence or by name, or a list of several sets of inputs. A quarter
            of several sets is held back to measure the error.
        to: The type: `"float16"` or `"bfloat16"` for weights and results, `"int8"` for weights and
            operands of products, or `"int4"` for weights.
        budget: The largest error of an output, relative to it. With `metric="snr"`, the smallest
            ratio of signal to noise in decibels. With a function, its largest result.
        metric: `"error"`, `"snr"`, or a function of the outputs of the model and those of the new
            one, by name, that returns a number.
        keep: What keeps its type: `file.py:12`, a function, a module, the name of a node, or an
            operator.
        weights_only: Whether only weights get the shorter type.
        dynamic: Whether the ranges of operands follow from the operands when the model runs, with
            `to="int8"`. By default, they follow from the data.
        target: `"onnxruntime"` writes products of weights in blocks as `MatMulNBits`, an operator
            of ONNX Runtime. By default, the model contains only operators of ONNX.
        convert_inputs_and_outputs: Whether inputs and outputs of the model get the type, too.
        source_map: The source map of the model, by default `<model>.map`.
        source_roots: Folders with source files, in addition to the current directory.

    Returns:
        The model and a report, which unpack as two values.

    Raises:
        InputSpecError: The data does not match the model, or contains NaN.
        ConfigError: An argument is not valid, ONNX Runtime does not run the model, or nothing can
            be lowered within the budget.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax2onnx
        >>> import numpy as np
        >>> weight = np.linspace(-1, 1, 256, dtype=np.float32).reshape(16, 16)
        >>> model = jax2onnx.to_onnx(lambda x: jnp.tanh(x @ weight), [("B", 16)])
        >>> data = [[np.full((2, 16), 0.1 * i, np.float32)] for i in range(8)]
        >>> short, report = jax2onnx.lower_precision(model, data, to="float16", budget=1e-2)
        >>> report.bytes_before, report.bytes_after, report.error < 1e-2
        (1024, 512, True)
    """
    kind = format_of(to, FORMATS)
    judge = _judge(metric, budget)
    if convert_inputs_and_outputs and not kind.is_float:
        raise ConfigError(f"inputs and outputs cannot be {to}: it has scales")
    if dynamic and (kind.name != "int8" or weights_only):
        raise ConfigError("`dynamic` is about the operands of products: use to='int8' with them")
    if target not in (None, _OWN_TARGET):
        raise ConfigError(f"{quoted(str(target))} is not a target: use {quoted(_OWN_TARGET)}")
    if target and not kind.is_float and (weights_only or kind.is_blocked):
        kind = replace(kind, is_blocked=True)
    _progress.stage("reading")
    loaded = normalized(Loaded(model))
    _check_opset(loaded, kind)
    samples = samples_of(loaded, data)
    choosing, held_back = _halves(samples)
    analysis = analyze(
        loaded,
        choosing,
        kind,
        source_map=source_map,
        source_roots=source_roots,
        is_ranked=False,
        most_watched=_MAX_CHOOSING if kind.is_float else _MAX_CALIBRATING,
    )
    task = _Task(
        analysis,
        kind,
        judge,
        keep,
        weights_only,
        convert_inputs_and_outputs,
        is_dynamic=dynamic,
        for_onnxruntime=target is not None,
    )
    return task.run(choosing, held_back)


def _check_opset(loaded: Loaded, kind: Format) -> None:
    """Refuse a model whose opset has no operators for a type."""
    opset = next((each.version for each in loaded.proto.opset_import if not each.domain), 1)
    needs: dict[str, tuple[int, str]] = {
        "int8": (CHANNELS, "scales per channel need"),
        "int4": (BLOCKS, "4-bit weights need"),
        "bfloat16": (_BFLOAT16, "bfloat16 needs"),
    }
    since, what = needs.get(kind.name, (1, ""))
    if opset < since:
        raise ConfigError(
            f"the model has opset {opset}, but {what} opset {since}: export it with a newer opset"
        )


def _judge(metric: Any, budget: Any) -> _Judge:
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not math.isfinite(budget):
        raise ConfigError(f"`budget` is {budget!r}, which is not a number")
    if metric == "error":
        if budget <= 0:
            raise ConfigError(f"`budget` is {budget!r}, which is not greater than 0")
        return _Judge("error", float(budget), _largest_error)
    if metric == "snr":
        return _Judge("snr", 10 ** (-budget / 20), _noise)
    if callable(metric):
        return _Judge("metric", float(budget), lambda one, other: float(metric(one, other)))
    hint = did_you_mean(str(metric), ["error", "snr"], ": ") or ": use error, snr or a function"
    raise ConfigError(f"{quoted(metric)} is not a metric{hint}")


def _largest_error(expected: Mapping[str, Array], got: Mapping[str, Array]) -> float:
    return worst_output(expected, got)[0]


def _noise(expected: Mapping[str, Array], got: Mapping[str, Array]) -> float:
    ratio = decibels(expected, got)
    return math.inf if ratio == -math.inf else 10 ** (-ratio / 20)


def _halves(samples: list[Feeds]) -> tuple[list[Feeds], list[Feeds]]:
    """Return the samples to choose lines with, and those that are held back."""
    count = len(samples) // 4 if len(samples) >= 4 else int(len(samples) > 1)
    if not count:
        return samples, []
    # Every fourth sample, because data is often sorted.
    step = len(samples) // count
    held = set(range(step - 1, len(samples), step))
    return (
        [each for number, each in enumerate(samples) if number not in held],
        [each for number, each in enumerate(samples) if number in held],
    )


class _Task:
    """One call of `lower_precision`."""

    def __init__(
        self,
        analysis: Analysis,
        kind: Format,
        judge: _Judge,
        keep: Sequence[str],
        weights_only: bool,
        converts: bool,
        *,
        is_dynamic: bool = False,
        for_onnxruntime: bool = False,
    ) -> None:
        self._for_onnxruntime = for_onnxruntime
        self._short: Collection[str] | None = None
        self._analysis, self._kind, self._judge = analysis, kind, judge
        self._weights_only, self._converts = weights_only or kind.name == "int4", converts
        #: ONNX Runtime rounds the operands of products with such weights, which is faster. If lines
        #: are chosen by the errors of their operands, it may not.
        self._has_exact_operands = not self._weights_only
        watch = analysis.watch
        self._facts: Mapping[Site, Facts] = watch.facts
        self._groups = analysis.groups
        if not kind.is_float:
            self._facts = quantizable(
                watch.facts,
                watch.types,
                kind,
                has_operands=not self._weights_only,
                is_dynamic=is_dynamic,
            )
            self._groups = groups_of(self._facts.values(), analysis.lines)
        self._kept = self._parts_of(keep)
        if self._weights_only:
            self._kept |= {(each.site, VALUES) for group in self._groups for each in group.facts}
        self._refused: set[str] = set()
        self._notes: list[str] = []

    def run(self, choosing: Sequence[Feeds], held_back: Sequence[Feeds]) -> Lowered:
        """Choose lines until the model is within the budget on the data that was held back."""
        judge = self._judge
        few = list(choosing[: _MAX_CHOOSING if self._kind.is_float else _MAX_JUDGING])
        which = Search if self._kind.is_float else WholeSearch
        try:
            search = which(self._analysis, self._groups, self._kept, self._kind, few, judge.measure)
        except ConfigError:
            raise
        except Exception as why:
            said = str(why).strip().partition("\n")[0]
            raise ConfigError(
                f"ONNX Runtime does not run the model with rounded nodes: {said}"
            ) from None
        measured = [*held_back, *few][:_MAX_MEASURING]
        target = judge.budget * (_MARGIN if self._kind.is_float else 1.0)
        choice, share = Choice(), 1.0
        for _ in range(_MAX_ROUNDS):
            choice = search.choose(target, share)
            if not choice.parts:
                break
            made, inserted = self._written(choice)
            errors = self._errors(made, measured)
            known = errors if self._kind.is_float else [*errors, bound([*errors, *choice.errors])]
            error = max(known)
            if error <= judge.budget:
                shown = self._errors(made, held_back) if held_back else errors
                report = self._report(choice, made, max(shown), inserted, len(held_back))
                if self._is_in_vain(report, made, measured):
                    break
                return Lowered(made, report)
            if not self._kind.is_float and any(part == VALUES for _, part in choice.parts):
                share = share / 2 if share == 1 else 0.0
            elif not self._kind.is_float and not self._has_exact_operands:
                self._has_exact_operands = True
            else:
                ratio = judge.budget / error if math.isfinite(error) else 0.5
                target = min(target, bound(choice.errors)) * min(0.95 * ratio, 0.95)
        raise self._impossible(choice)

    def _parts_of(self, keep: Sequence[str]) -> set[Part]:
        """Return the parts of the nodes that the user names."""
        if isinstance(keep, str):
            keep = [keep]
        named: dict[str, list[Facts]] = {}
        for group in self._groups:
            for each in group.facts:
                names = [each.name, each.node.op_type, *filter(None, [group.module])]
                for line in self._analysis.lines.of_node(each.graph, each.number):
                    names += [line.function, f"{line.file}:{line.line}"]
                    if line.file:
                        names.append(f"{line.file.rpartition('/')[2]}:{line.line}")
                for name in dict.fromkeys(names):
                    named.setdefault(name, []).append(each)
        found: set[Part] = set()
        for name in keep:
            if name not in named:
                hint = did_you_mean(str(name), list(named), ": ")
                raise ConfigError(
                    f"`keep` contains {quoted(name)}, which is no line, function, module, node or "
                    f"operator of the model that is rounded{hint}"
                )
            found |= {(each.site, part) for each in named[name] for part in (VALUES, WEIGHTS)}
        return found

    def _written(self, choice: Choice) -> tuple[onnx.ModelProto, int]:
        """Return the model in which some parts are rounded, and the number of inserted nodes."""
        analysis, parts = self._analysis, choice.parts
        _progress.stage("writing the model")
        if not self._kind.is_float:
            storer = Storer(
                analysis.loaded,
                self._facts,
                choice.ranges,
                self._kind,
                parts,
                for_onnxruntime=self._for_onnxruntime,
                has_exact_operands=self._has_exact_operands,
            )
            made = storer.model()
            self._short = storer.short
            self._check(made)
            return made, storer.casts
        while True:
            caster = Caster(
                analysis.loaded,
                self._facts,
                analysis.watch.types,
                self._kind,
                long_values=[
                    site
                    for site, each in self._facts.items()
                    if VALUES in each.parts and (site, VALUES) not in parts
                ],
                long_weights=[
                    site
                    for site, each in self._facts.items()
                    if WEIGHTS in each.parts and (site, WEIGHTS) not in parts
                ],
                refused=self._refused,
                converts_interface=self._converts,
            )
            made = caster.model()
            refused = self._refused_operators(made)
            if not refused:
                return made, caster.casts
            self._refused |= refused

    def _refused_operators(self, made: onnx.ModelProto) -> set[str]:
        """Return operators that the runtime refuses in the short type; none if it runs."""
        try:
            self._runner(made).run(self._short_feeds(self._analysis.samples[0]))
        except Exception as error:
            words = str(error)
            known = {node.name: node.op_type for node in _nodes(made) if node.name}
            names = sorted((name for name in known if name in words), key=len, reverse=True)
            operators = [known[name] for name in names if known[name] not in ("If", "Loop", "Scan")]
            # Nodes of other exporters may have no names.
            every = sorted({node.op_type for node in _nodes(made)} - {"If", "Loop", "Scan"})
            operators += [op for op in every if f" {op}(" in words or f"({op})" in words]
            fresh = [op for op in operators if op not in self._refused and op != "Cast"][:1]
            fusion = _FUSION.search(words)
            if not fresh and fusion:
                # The runtime computes two nodes as one operator, which has no kernel.
                parts = [op for op in every if op in fusion[1] and op not in self._refused]
                fresh = sorted(parts, key=len)[-1:]
            if not fresh:
                # The runtime writes an operator as others, which have no kernels.
                fresh = sorted({op for op in every if _is_function(op)} - self._refused)
            if not fresh or len(self._refused) >= _MAX_REFUSED:
                said = words.strip().partition("\n")[0]
                raise ConfigError(
                    f"ONNX Runtime refuses the model in {self._kind.name}: {said}"
                ) from None
            return set(fresh)
        return set()

    def _check(self, made: onnx.ModelProto) -> None:
        try:
            self._runner(made).run(self._short_feeds(self._analysis.samples[0]))
        except Exception as error:
            said = str(error).strip().partition("\n")[0]
            raise ConfigError(
                f"ONNX Runtime refuses the model in {self._kind.name}: {said}"
            ) from None

    def _runner(self, made: onnx.ModelProto) -> Runner:
        return Runner(made, self._analysis.loaded)

    def _is_in_vain(
        self, report: Lowering, made: onnx.ModelProto, samples: Sequence[Feeds]
    ) -> bool:
        """Return whether only a few numbers were lowered, all of which the type holds exactly.

        Such a model meets every budget, because nearly nothing in it is short.
        """
        if 2 * report.bytes_short >= report.bytes_after > 0:
            return False
        if 2 * len(report.lowered) >= len(report.lowered) + len(report.kept):
            return False
        return max(self._errors(made, samples, _largest_error)) <= _NOISE

    def _errors(
        self, made: onnx.ModelProto, samples: Sequence[Feeds], measure: Measure | None = None
    ) -> list[float]:
        """Return the errors of the new model, as the runtime optimizes and runs it."""
        loaded = self._analysis.loaded
        before, after = Runner(loaded.proto, loaded), self._runner(made)
        found = []
        for number, feeds in enumerate(samples):
            _progress.stage(f"measuring sample {number + 1} of {len(samples)}")
            expected = before.run(feeds)
            got = after.run(self._short_feeds(feeds))
            # An output may have another name if its type is another one.
            named = dict(zip(expected, got.values(), strict=True))
            error = (measure or self._judge.measure)(expected, named)
            found.append(math.inf if math.isnan(error) else error)
        return found

    def _short_feeds(self, feeds: Feeds) -> Feeds:
        """Return inputs in the types that the new model takes."""
        if not self._converts:
            return feeds
        return {
            name: array.astype(self._kind.dtype)
            if array.dtype.name in ("float32", "float64")
            else array
            for name, array in feeds.items()
        }

    def _report(
        self, choice: Choice, made: onnx.ModelProto, error: float, inserted: int, held_back: int
    ) -> Lowering:
        lowered, kept = [], []
        for group in self._groups:
            parts = {(each.site, part) for each in group.facts for part in each.parts}
            rounded = parts & choice.parts
            rest = parts - rounded
            if rest and (not rounded or self._has_kept(rest)):
                kept.append(_line(group, self._why_kept(group, choice)))
            else:
                why = self._why_lowered(group, rounded, rest, choice)
                lowered.append(_line(group, why))
        before = self._analysis.loaded.proto
        others = bytes_of_others(before)
        notes = list(self._notes)
        if not held_back:
            notes.append(
                "no data was held back, because there is only one set of inputs: pass several to "
                "measure the error on new data"
            )
        if self._refused:
            shown = ", ".join(map(quoted, sorted(self._refused)))
            notes.append(f"ONNX Runtime has no kernels in {self._kind.name} for {shown}")
        return Lowering(
            self._kind.name,
            tuple(lowered),
            tuple(kept),
            self._judge.shown(error),
            self._judge.shown(self._judge.budget),
            self._judge.name,
            held_back,
            bytes_of_weights(before) - others,
            bytes_of_weights(made) - others,
            bytes_of_weights(
                made, None if self._short is not None else self._kind.code, self._short
            ),
            inserted,
            self._analysis.loaded.name,
            tuple(notes),
        )

    def _has_kept(self, rest: Collection[Part]) -> bool:
        """Return whether a line keeps what matters: its values, or its weights if they have scales.

        Args:
            rest: The parts of its nodes that are not rounded.
        """
        which = VALUES if self._kind.is_float else WEIGHTS
        return not self._weights_only and any(part == which for _, part in rest)

    def _why_lowered(
        self, group: Group, rounded: Collection[Part], rest: Collection[Part], choice: Choice
    ) -> str:
        kind = self._kind.name
        if {part for _, part in rounded} == {WEIGHTS} and any(part == VALUES for _, part in rest):
            if self._weights_only:
                return f"its weights are in {kind}"
            return f"its weights are in {kind}; of its operands: {self._why_kept(group, choice)}"
        if self._kind.is_float:
            return f"within the range of {kind} and the budget"
        return f"within the budget in {kind}"

    def _why_kept(self, group: Group, choice: Choice) -> str:
        if any((each.site, part) in self._kept for each in group.facts for part in each.parts):
            return "you asked to keep it"
        number = next(i for i, each in enumerate(self._groups) if each is group)
        alone = choice.alone.get(number)
        why = reason(group, self._kind)
        if alone is not None and math.isfinite(alone) and alone > self._judge.budget:
            why += f"; alone, it adds an error of {self._judge.shown(alone):.2g}"
        return why

    def _impossible(self, choice: Choice) -> ConfigError:
        kind, judge = self._kind.name, self._judge
        if not self._groups:
            return ConfigError(f"no node of the model can be in {kind}")
        unit = " dB" if judge.name == "snr" else ""
        alone = {n: error for n, error in choice.alone.items() if error > 0}
        ordered = sorted(alone or range(len(self._groups)), key=lambda n: -alone.get(n, 0.0))
        lines = []
        for number in ordered[:_SHOWN]:
            place = quoted(_line(self._groups[number], "").place)
            error = f" ({judge.shown(alone[number]):.2g}{unit} alone)" if number in alone else ""
            lines.append(f"{place}{error}")
        if len(ordered) > _SHOWN:
            lines.append(f"and {len(ordered) - _SHOWN} more lines")
        why = ""
        if alone and not self._kind.is_float and max(alone.values()) <= judge.budget:
            why = (
                ", because the errors of your sets of inputs differ so much that new sets may "
                "exceed it: pass more sets"
            )
        return ConfigError(
            f"the model cannot be in {kind} within the budget of {judge.shown(judge.budget):.3g}"
            f"{unit}{why}; in the way: {'; '.join(lines)}"
        )


def _line(group: Group, why: str) -> LoweredLine:
    line = group.line
    names = tuple(dict.fromkeys(each.name for each in group.facts))
    if line is None:
        return LoweredLine(None, None, "", names, why)
    return LoweredLine(line.file, line.line, line.function, names, why, group.module)


def _is_function(operator: str) -> bool:
    """Return whether an operator may be written as others."""
    try:
        schema = onnx.defs.get_schema(operator)
    except Exception:
        return False
    names = ("has_function", "has_context_dependent_function")
    return any(getattr(schema, name, False) for name in names)


def _nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    waiting: list[Any] = [model.graph, *model.functions]
    found = []
    while waiting:
        graph = waiting.pop()
        found += list(graph.node)
        waiting += [each.g for node in graph.node for each in node.attribute if each.HasField("g")]
    return found
