"""Find the first wrong number of a model: `compare`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from .. import _files, _progress
from .._errors import ConfigError
from .._types import StrPath
from .._words import quoted

if TYPE_CHECKING:
    from .arrays import Array, OutputComparison
    from .engine import Comparer
    from .executors import Executor
    from .graphs import Graph
    from .lines import Lines
    from .models import Loaded
    from .oracle import JaxValues
    from .refusals import Refusal
    from .report import Report
    from .runtime import AnyModel

#: Outputs of a short type may differ by this many units of its last place.
_UNITS_OF_OUTPUTS: Final = 4.0
#: If a new export shares fewer values with the model, the report says so.
_SAME_NAMES: Final = 0.9
#: The reference, if both models have the same name.
_FIRST_MODEL: Final = "the first model"
_ACCUMULATED: Final = (
    "rounding errors accumulate: each node is right if it is fed the numbers of the reference"
)


def compare(
    reference: "Callable[..., Any] | AnyModel",
    model: "AnyModel",
    inputs: Mapping[str, Any] | Sequence[Any] = (),
    *,
    runtime: str | None = None,
    captured: StrPath | Mapping[str, Any] | None = None,
    providers: Sequence[Any] = ("CPUExecutionProvider",),
    rtol: float = 1e-3,
    atol: float = 1e-5,
    enable_double_precision: bool | None = None,
    source_map: StrPath | None = None,
    source_roots: Sequence[StrPath] = (),
) -> "Report":
    """Find the line of Python whose numbers first differ from a reference.

    `compare` feeds every node of the model the numbers of the reference, also inside loops,
    branches and functions. The report therefore shows the node that causes an error, not the nodes
    after it.

    Args:
        reference: The function in JAX, or the model that `model` was made from.
        model: The model to check: a path, bytes, an `onnx.ModelProto` or an `onnx_ir.Model`.
        inputs: The inputs, as a sequence or by name.
        runtime: The runtime that runs the model, by default ONNX Runtime in this process: a name
            such as `"openvino"`, `"onnxruntime-web"` or `"tract"`, or a name and a place such as
            `"onnxruntime@/path/to/python"`. The reference runs in JAX or in ONNX Runtime.
        captured: What another device computed for values of the model, by name: a folder of `.npy`
            files, an `.npz` file, or a mapping. Nothing runs the model then.
        providers: The execution providers of ONNX Runtime that run the model.
        rtol: The relative tolerance for outputs. For single nodes, `compare` knows how much they
            may round, and needs no tolerance.
        atol: The absolute tolerance for outputs.
        enable_double_precision: Whether to keep 64-bit types in JAX. By default, this depends on
            the types of the model's inputs and outputs.
        source_map: The source map of the model, by default `<model>.map`.
        source_roots: Folders with source files, in addition to the current directory.

    Returns:
        A report that prints as text. `report.first` is the first wrong number, or None.

    Raises:
        InputSpecError: The inputs do not match the model.
        ConfigError: The runtime is missing, or an argument is not valid.

    Examples:
        >>> import jax.numpy as jnp
        >>> import jax2onnx
        >>> import numpy as np
        >>> model = jax2onnx.to_onnx(jnp.negative, [(3,)], provenance="indexed")
        >>> report = jax2onnx.compare(jnp.negative, model, [np.ones(3, np.float32)])
        >>> bool(report)
        True
        >>> print(report.first)
        None
    """
    from . import executors, models

    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if isinstance(tolerance, bool) or not tolerance >= 0:
            raise ConfigError(
                f"{quoted(name)} is {tolerance!r}, which is not a number greater than or equal to 0"
            )
    if captured is not None and runtime is not None:
        raise ConfigError("`captured` and `runtime` exclude each other: nothing runs the model")
    with executors.chosen(runtime, providers) as executor:
        _progress.stage("reading")
        after = models.Loaded(model)
        before = None if callable(reference) else models.Loaded(reference)
        options = Options(executor, rtol, atol, source_map, source_roots, enable_double_precision)
        if captured is not None:
            from .captured import compare_captured

            report = compare_captured(reference, before, after, inputs, captured, options)
        elif before is None:
            question = options.with_jax(reference, after, inputs)  # type: ignore[arg-type]
            report = question.answer()
        else:
            report = options.with_model(before, after, inputs).answer()
    if before is None:
        read = _models_read((after, source_map), roots=source_roots)
    else:
        read = _models_read((before, source_map), (after, None), roots=source_roots)
    return replace(report, _models=read)


def _models_read(
    *models: "tuple[Loaded, StrPath | None]", roots: Sequence[StrPath]
) -> "tuple[_files.ModelInput, ...]":
    """Return the models that were read from files."""
    return tuple(
        _files.model_input("a model that is compared", loaded.path, source_map, roots)
        for loaded, source_map in models
        if loaded.path is not None
    )


@dataclass(frozen=True)
class Options:
    """The options of a comparison."""

    executor: "Executor"
    rtol: float
    atol: float
    source_map: StrPath | None
    source_roots: Sequence[StrPath]
    double: bool | None

    def with_jax(
        self,
        fn: Callable[..., Any],
        model: "Loaded",
        inputs: Mapping[str, Any] | Sequence[Any],
    ) -> "Question":
        """Compare a model with the function in JAX that it was exported from."""
        from . import graphs
        from .fresh import exported_again
        from .lines import Lines

        lines = Lines(model, self.source_map, self.source_roots)
        fresh = exported_again(fn, model, inputs, double=self.double)
        question = Question(
            fresh.graph,
            graphs.main(model),
            fresh.feeds,
            Lines(fresh.model),
            lines,
            self.executor,
            self.rtol,
            self.atol,
            reference_name="JAX",
            model_name=model.name,
        )
        question.known = fresh.values
        if fresh.share < _SAME_NAMES:
            question.notes.append(
                f"a new export of the function has only {100 * fresh.share:.0f} % of the values of "
                "the model, so the model was exported from another function or with other options "
                "or versions: nodes between the common values are compared together"
            )
        return question

    def with_model(
        self, before: "Loaded", after: "Loaded", inputs: Mapping[str, Any] | Sequence[Any]
    ) -> "Question":
        """Compare a model with the one that it was made from."""
        from . import graphs
        from .inputs import feeds_of
        from .lines import Lines

        question = Question(
            graphs.main(before),
            graphs.main(after),
            feeds_of(before, inputs),
            Lines(before, self.source_map, self.source_roots),
            Lines(after, None, self.source_roots),
            self.executor,
            self.rtol,
            self.atol,
            reference_name=before.name,
            model_name=after.name,
        )
        if before.name == after.name:
            question.reference_name, question.model_name = _FIRST_MODEL, "the second model"
            if not self.executor.is_local:
                question.reference_name = "ONNX Runtime"
                question.model_name = f"{after.name} in {self.executor.title}"
        return question


@dataclass
class Question:
    """A comparison: what is compared, and with what."""

    reference: "Graph"
    model: "Graph"
    feeds: "dict[str, Array]"
    lines: "Lines"
    model_lines: "Lines"
    executor: "Executor"
    rtol: float
    atol: float
    reference_name: str
    model_name: str
    notes: list[str] = field(default_factory=list)
    #: What JAX computes, if it is the reference.
    known: "JaxValues | None" = None
    #: Where the numbers of the model come from; by default, the executor.
    runtime_name: str | None = None

    def answer(self) -> "Report":
        """Run both, and compare them."""
        from .engine import Comparer
        from .summary import summarize
        from .walk import Walk

        _progress.stage("running")
        known = self.known
        found, problem = self._run_whole()
        comparer = Comparer(
            self.model,
            executor=self.executor,
            given={} if known is None else known.given,
            ambiguous={} if known is None else known.ambiguous,
            is_refused=problem is not None,
        )
        oracle = None if known is None else known.oracle(self.reference)
        try:
            expected = Walk(comparer).run(self.reference, self.feeds, oracle)
        except ConfigError:
            raise
        except Exception:
            refused = self._refused_report(comparer)
            if refused is None:
                raise
            return refused
        if known is not None:
            expected.update(zip(self.reference.outputs, known.results(), strict=True))
        outputs = self._missing() if found is None else self.compared(expected, found)
        if found is not None:
            self._note_nan(expected, found)
        spread = comparer.settle(agrees=all(output.is_match for output in outputs))
        if spread:
            nodes = "1 node turns" if spread == 1 else f"{spread} nodes turn"
            self.notes.append(
                f"{nodes} a NaN into NaN in other elements than {self.reference_name} does, which "
                "does not explain a wrong output"
            )
        if not self.executor.is_local:
            return self._answer_elsewhere(comparer, expected, outputs, problem)
        if problem is not None:
            self.notes.append(f"ONNX Runtime fails: {problem.partition(chr(10))[0]}")
        optimizer = None
        if comparer.first is None and not all(output.is_match for output in outputs):
            optimizer = self._find_optimizer(comparer, expected)
        return summarize(self, comparer, outputs, optimizer)

    def _note_nan(self, expected: "Mapping[str, Array]", found: "Mapping[str, Array]") -> None:
        """Note outputs that contain NaN in the reference and in the model."""
        from .judging import has_nan

        names = [
            name
            for name, partner in zip(self.model.outputs, self.reference.outputs, strict=False)
            if has_nan(found.get(name)) and has_nan(expected.get(partner))
        ]
        if names:
            shown = ", ".join(map(quoted, names))
            which = (
                f"the output {shown} contains"
                if len(names) == 1
                else f"the outputs {shown} contain"
            )
            self.notes.append(
                f"{which} NaN on both sides: `jax2onnx compare MODEL --nan -i INPUT`, or "
                "`jax2onnx.find_nan(model, inputs)`, finds the line that computes the first NaN"
            )

    def _refused_report(self, comparer: "Comparer") -> "Report | None":
        """Return the report on a model that ONNX Runtime does not load; None if it loads both.

        Raises:
            ConfigError: ONNX Runtime does not load the reference.
        """
        from .refusals import check_loads, loading_error
        from .summary import summarize

        name = self.reference_name
        if self.known is not None:
            name = "a new export of the function"
        elif name == "ONNX Runtime":
            name = "the model"
        elif name != _FIRST_MODEL:
            name = f"the reference {quoted(name)}"
        check_loads(self.reference, self.lines, name)
        words = loading_error(self.model.model)
        if words is None:
            return None
        return summarize(self, comparer, self._missing(), refusal=self._read_refusal(words))

    def _read_refusal(self, words: str) -> "Refusal":
        """Find the line that makes the runtime refuse the model."""
        from .refusals import refusal, with_lines

        found = refusal(self.model, self.model_lines, words)
        if found.lines or not self.lines.exist:
            return found
        # A new export has the same names.
        other = refusal(self.reference, self.lines, words)
        return other if other.lines else with_lines(found, self.reference, self.lines)

    def _answer_elsewhere(
        self,
        comparer: "Comparer",
        expected: "Mapping[str, Array]",
        outputs: "list[OutputComparison]",
        problem: str | None,
    ) -> "Report":
        """Return the report if another runtime runs the model."""
        from . import optimizers
        from .summary import summarize
        from .taps import confirm, is_small

        if problem is not None:
            return summarize(self, comparer, outputs, refusal=self._read_refusal(problem))
        confirm(self, comparer, outputs)
        if comparer.unrun:
            self.notes.append(
                f"{self.executor.title} does not run {len(comparer.unrun)} nodes alone, so nobody "
                "knows whether they are right"
            )
        is_right = all(output.is_match for output in outputs)
        small = [fault for fault in comparer.faults if is_small(fault, self.rtol, self.atol)]
        if is_right and small and len(small) == len(comparer.faults):
            # Some runtimes compute float64 as float32, or round more often.
            comparer.first = None
            self.notes.append(
                f"{self.executor.title} rounds {len(small)} values more than expected, but the "
                "outputs match"
            )
        if comparer.first is None and not is_right:
            title = self.executor.title
            if self._is_right(expected, optimize=False):
                _progress.stage("looking for nodes that are wrong together")
                comparer.first = optimizers.optimizer_fault(self, *self._given_and_oracle())
                if comparer.first is None:
                    self.notes.append(
                        f"{title} computes each node alone correctly, but not all of them together"
                    )
            else:
                self.notes.append(_ACCUMULATED)
        return summarize(self, comparer, outputs)

    def _given_and_oracle(self) -> Any:
        known = self.known
        return (
            {} if known is None else known.given,
            lambda: None if known is None else known.oracle(self.reference),
        )

    def _find_optimizer(self, comparer: "Comparer", expected: "Mapping[str, Array]") -> str | None:
        """Look for an optimization that makes the outputs wrong although each node is right."""
        from . import optimizers

        _progress.stage("looking for an optimization")
        if not self._is_right(expected, optimize=False):
            self.notes.append(_ACCUMULATED)
            return None
        comparer.first = optimizers.optimizer_fault(self, *self._given_and_oracle())
        found = optimizers.responsible(lambda disabled: self._is_right(expected, disabled=disabled))
        if found is None or comparer.first is None:
            named = "an optimization" if found is None else f"the optimization {quoted(found)}"
            self.notes.append(
                f"{named} of ONNX Runtime makes the outputs wrong: they are right without "
                "optimizations"
            )
        return found

    def _is_right(self, expected: "Mapping[str, Array]", **how: Any) -> bool:
        """Return whether the outputs are right if ONNX Runtime works in another way."""
        try:
            found = self.executor.whole(self.model.model, **how).run(self.model_feeds())
        except Exception:
            return False
        return all(output.is_match for output in self.compared(expected, found))

    def model_feeds(self) -> "dict[str, Array]":
        """Return the inputs under the names and in the types of the model."""
        from .runtime import dtype_of

        types = {value.name: dtype_of(value) for value in self.model.model.proto.graph.input}
        arrays = list(self.feeds.values())
        return {
            name: self.feeds.get(name, arrays[position]).astype(types[name], copy=False)
            for position, name in enumerate(self.model.inputs)
        }

    def _run_whole(self) -> "tuple[dict[str, Array] | None, str | None]":
        """Run the model as it is. Returns its outputs, or the words of the runtime."""
        try:
            return self.executor.whole(self.model.model).run(self.model_feeds()), None
        except ConfigError:
            raise
        except Exception as error:
            return None, str(error).strip() or type(error).__name__

    def _missing(self) -> "list[OutputComparison]":
        from .arrays import OutputComparison

        return [
            OutputComparison(name, is_match=False, problem="is missing")
            for name in self.model.outputs
        ]

    def compared(
        self, expected: "Mapping[str, Array]", found: "Mapping[str, Array]"
    ) -> "list[OutputComparison]":
        """Compare the outputs of the model with those of the reference."""
        from .arrays import compare
        from .judging import is_floating, machine_epsilon

        compared = []
        for name, partner in zip(self.model.outputs, self.reference.outputs, strict=False):
            want, got = expected.get(partner), found.get(name)
            if want is None or got is None:
                continue
            rtol = self.rtol
            if is_floating(got.dtype) and is_floating(want.dtype):
                coarse = max(machine_epsilon(got.dtype), machine_epsilon(want.dtype))
                rtol = max(rtol, _UNITS_OF_OUTPUTS * coarse)
                got = got.astype(want.dtype, copy=False)
            compared.append(compare(name, want, got, rtol, self.atol))
        return compared
