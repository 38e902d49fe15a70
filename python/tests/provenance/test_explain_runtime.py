"""Exceptions of ONNX Runtime with the user's line; profiles by the user's lines."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.reference
import onnxruntime
import pytest
from flax import nnx

import jax2onnx
from testkit import accuracy
from testkit.accuracy import bodies, jax_forms, libraries, plain

from .test_resolve import OPTIMIZATIONS, optimized

#: The modules that have the samples.
MODULES = (plain, jax_forms, libraries, bodies)
PLAIN = ["CPUExecutionProvider"]


def add(x: jax.Array, y: jax.Array) -> jax.Array:
    doubled = x * 2.0
    return doubled + y  # <- fails


FAILS = add.__code__.co_firstlineno + 2
FEEDS = {"x": np.zeros(3, np.float32), "y": np.zeros(4, np.float32)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "add.onnx"
    jax2onnx.to_onnx(
        add,
        [("N",), ("N",)],
        return_mode="file",
        output_path=path,
        provenance="off",
        source_map=True,
    )
    return path


def plain_session(model: str | bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=PLAIN)


def test_an_exception_keeps_its_type_and_gets_the_line(model: Path) -> None:
    session = plain_session(str(model))
    watch = jax2onnx.explain(model)
    with pytest.raises(Exception, match="Name:'add'") as raised, watch:
        session.run(None, FEEDS)
    assert type(raised.value).__name__ == "Fail"
    assert type(raised.value).__module__.startswith("onnxruntime")
    (note,) = raised.value.__notes__
    assert f"test_explain_runtime.py:{FAILS}:12, in add" in note
    assert "return doubled + y  # <- fails" in note
    assert note in "".join(traceback.format_exception(raised.value))
    assert watch.explanation is not None
    (finding,) = watch.explanation.findings
    assert (finding.sure, finding.kind, finding.node) == ("certain", "shape", ("add", "Add"))
    assert finding.line == watch.explanation.line
    assert finding.line is not None
    assert (finding.line.line, finding.line.function) == (FAILS, "add")


def test_other_exceptions_are_left_alone(model: Path) -> None:
    with pytest.raises(KeyError) as raised, jax2onnx.explain(model):
        raise KeyError("shape")
    assert not hasattr(raised.value, "__notes__")
    with pytest.raises(KeyboardInterrupt) as stopped, jax2onnx.explain(model):
        raise KeyboardInterrupt
    assert not hasattr(stopped.value, "__notes__")


def test_an_explanation_that_fails_does_not_hide_the_error(model: Path) -> None:
    session = plain_session(str(model))
    with pytest.raises(Exception, match="Name:'add'") as raised, jax2onnx.explain("gone.onnx"):
        session.run(None, FEEDS)
    (note,) = raised.value.__notes__
    assert note.startswith("jax2onnx cannot explain this error: cannot read `gone.onnx`")


def test_a_session_explains_what_fails_when_it_runs(model: Path) -> None:
    session = jax2onnx.InferenceSession(model, providers=PLAIN)
    assert isinstance(session, onnxruntime.InferenceSession)
    (result,) = session.run(None, {"x": FEEDS["x"], "y": FEEDS["x"]})
    assert result.shape == (3,)
    for call in (
        lambda: session.run(None, FEEDS),
        lambda: session.run_with_ort_values(
            None,
            {k: onnxruntime.OrtValue.ortvalue_from_numpy(v) for k, v in FEEDS.items()},
        ),
        lambda: run_bound(session),
    ):
        with pytest.raises(Exception, match="Name:'add'") as raised:
            call()
        assert f":{FAILS}:12, in add" in raised.value.__notes__[0]


def run_bound(session: Any) -> None:
    binding = session.io_binding()
    for name, array in FEEDS.items():
        binding.bind_cpu_input(name, array)
    binding.bind_output("out_0")
    session.run_with_iobinding(binding)


def test_a_session_explains_what_does_not_load() -> None:
    model = jax2onnx.to_onnx(add, [("N",), ("N",)], provenance="indexed")
    node = next(node for node in model.graph.node if node.op_type == "Add")
    node.op_type = "Addition"
    with pytest.raises(Exception, match="No Op registered") as raised:
        jax2onnx.InferenceSession(model, providers=PLAIN)
    assert f":{FAILS}:12, in add" in raised.value.__notes__[0]


def test_a_missing_input_is_explained(model: Path) -> None:
    session = jax2onnx.InferenceSession(str(model), providers=PLAIN)
    with pytest.raises(ValueError, match="Required inputs") as raised:
        session.run(None, {"x": FEEDS["x"]})
    assert f":{FAILS}:12, in add" in raised.value.__notes__[0]
    assert "the model takes `x` f32[N], `y` f32[N]" in raised.value.__notes__[0]


def test_a_text_is_explained(model: Path) -> None:
    found = jax2onnx.explain(model).message("while running Add node. Name:'add' Status Message: x")
    assert [str(line).rpartition("/")[2] for line in found.findings[0].lines] == [
        f"test_explain_runtime.py:{FAILS}, in add"
    ]
    assert str(found).startswith("error: x\n")
    assert jax2onnx.explain(model).message("all is well").findings == ()
    # A terminal or a notebook shows the text.
    assert repr(found) == str(found)


def test_a_line_that_only_reads_a_shape_is_not_blamed(tmp_path: Path) -> None:
    def fn(x: jax.Array, y: jax.Array) -> jax.Array:
        rows = x.shape[0]
        steps = jnp.arange(rows, dtype=jnp.float32)
        return steps + x * y

    path = tmp_path / "model.onnx"
    inputs = ["f32[B]", "f32[B]"]
    jax2onnx.to_onnx(
        fn, inputs, return_mode="file", output_path=path, provenance="indexed", optimize=False
    )
    readers = [node.op_type for node in onnx.load(path).graph.node if "x" in node.input]
    assert sorted(readers) == ["Mul", "Shape"]
    message = "Invalid rank for input: x Got: 2 Expected: 1"
    [finding] = jax2onnx.explain(path).message(message).findings
    assert [line.line for line in finding.lines] == [fn.__code__.co_firstlineno + 3]


def test_a_file_that_is_not_a_model_is_refused() -> None:
    with pytest.raises(jax2onnx.ConfigError, match="the model is of type int"):
        jax2onnx.explain(3).message("x")  # type: ignore[arg-type]
    with pytest.raises(jax2onnx.SourceMapError, match="this is not an ONNX model"):
        jax2onnx.explain(b"\xff\xff").message("x")


def test_the_package_starts_without_the_runtime() -> None:
    code = "import sys, jax2onnx; print(sorted({'jax', 'onnxruntime'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


class Attention(nnx.Module):
    """Causal self-attention."""

    def __init__(self, width: int, heads: int, rngs: nnx.Rngs) -> None:
        self.heads = heads
        self.qkv = nnx.Linear(width, 3 * width, rngs=rngs)
        self.out = nnx.Linear(width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        batch, length, width = x.shape
        heads = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.reshape(heads) for part in jnp.split(self.qkv(x), 3, axis=-1))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(heads[-1])
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
        weights = jax.nn.softmax(scores, axis=-1)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
        return self.out(mixed.reshape(x.shape))


class Block(nnx.Module):
    """A layer of GPT-2."""

    def __init__(self, width: int, heads: int, rngs: nnx.Rngs) -> None:
        self.norms = nnx.List([nnx.LayerNorm(width, rngs=rngs) for _ in range(2)])
        self.attention = Attention(width, heads, rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attention(self.norms[0](x))
        hidden = jax.nn.gelu(self.up(self.norms[1](x)))
        return x + self.down(hidden)


class Gpt(nnx.Module):
    """Like GPT-2, and small."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.tokens = nnx.Embed(512, 128, rngs=rngs)
        self.places = nnx.Param(jnp.full((64, 128), 0.1))
        self.blocks = nnx.List([Block(128, 4, rngs) for _ in range(3)])
        self.norm = nnx.LayerNorm(128, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.tokens(tokens) + self.places[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.embedding.T


TOKENS = np.arange(128, dtype=np.int32).reshape(2, 64)


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gpt") / "gpt.onnx"
    jax2onnx.to_onnx(
        Gpt(nnx.Rngs(0)),
        [jax.ShapeDtypeStruct(TOKENS.shape, jnp.int32)],
        return_mode="file",
        output_path=path,
        provenance="indexed",
        nan="ignore",
    )
    return path


def recorded(model: Path, folder: Path, runs: int) -> Path:
    """A profile of the runtime, at full optimisation."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    session = onnxruntime.InferenceSession(str(model), options, providers=PLAIN)
    for _ in range(runs):
        session.run(None, {session.get_inputs()[0].name: TOKENS})
    return Path(session.end_profiling())


@pytest.mark.slow
def test_the_time_of_an_optimised_transformer_has_the_users_lines(
    gpt: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = recorded(gpt, tmp_path, 4)
    events = json.loads(path.read_text())
    kernels = [event for event in events if event["name"].endswith("_kernel_time")]
    command = ["jax2onnx", "profile", str(gpt), str(path), "--format", "json"]
    for by in ("line", "function", "scope", "op", "plugin", "node"):
        assert jax2onnx._core.main([*command, "--by", by]) == 0
        found = json.loads(capfd.readouterr().out)
        # Nothing is within another kernel in this model.
        assert found["total_us"] == sum(event["dur"] for event in kernels)
        measured = sum(run["kernels_us"] for run in found["runs"] if not run["warmup"])
        assert sum(sum(row["times_us"]) for row in found["rows"]) == measured
        assert found["share_of_user_lines"] >= 0.95
        assert [run["warmup"] for run in found["runs"]] == [True, False, False, False]


@pytest.mark.slow
def test_the_kernels_have_the_lines_that_asked_for_them(
    gpt: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = recorded(gpt, tmp_path, 1)
    arguments = ["profile", str(gpt), str(path), "--format", "json", "--by", "node"]
    assert jax2onnx._core.main(["jax2onnx", *arguments]) == 0
    rows = json.loads(capfd.readouterr().out)["rows"]
    functions = {
        "Attention": "Attention.__call__",
        "Gelu": "Block.__call__",
        "Gemm": "Block.__call__",
        "Gather": "Gpt.__call__",
    }
    for op, expected in functions.items():
        found = {row["line"]["function"] for row in rows if row["ops"] == [op]}
        assert expected in found, (op, found)
    first = Attention.__call__.__code__.co_firstlineno
    attention = {row["line"]["line"] - first for row in rows if row["ops"] == ["Attention"]}
    assert attention <= set(range(3, 9))


def test_a_model_is_run_and_shown(gpt: Path, tmp_path: Path) -> None:
    found = jax2onnx.profile(gpt, [TOKENS], runs=3)
    assert found.share_of_user_lines >= 0.95
    assert str(found) == repr(found)
    assert str(found).startswith("3 runs: ")
    assert found.rows[0].share >= found.rows[-1].share
    assert all(len(row.times) == 3 for row in found.rows)
    assert sum(row.share for row in found.rows) == pytest.approx(1)
    assert found.rows[0].line is not None
    assert found.rows[0].line.text is not None
    found.save_flamegraph(tmp_path / "f.svg")
    assert (tmp_path / "f.svg").read_text().startswith("<svg ")
    found.save_speedscope(tmp_path / "f.json")
    speedscope = json.loads((tmp_path / "f.json").read_text())["profiles"][0]
    assert speedscope["endValue"] == sum(speedscope["weights"]) > 0
    scopes = jax2onnx.profile(onnx.load(gpt), {"tokens": TOKENS}, runs=1, warmup=0, by="scope")
    assert any(row.key == "Gpt/blocks.1/attention" for row in scopes.rows)


def test_errors_of_the_optimized_model_are_explained_with_the_original(
    gpt: Path, tmp_path: Path
) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(str(gpt), options, providers=PLAIN)
    later = onnx.load(options.optimized_model_filepath)
    watch = jax2onnx.explain(options.optimized_model_filepath, source_map=gpt)
    before = {node.name for node in onnx.load(gpt).graph.node}
    sures = set()
    for node in later.graph.node:
        message = f"running {node.op_type} node. Name:'{node.name}' Status Message: dimension"
        (finding,) = watch.message(message).findings
        sures.add(finding.sure)
        assert finding.sure != "unknown"
        # What is new is never certain.
        assert node.name in before or finding.sure != "certain"
    assert sures == {"certain", "likely", "one-of"}


@pytest.mark.slow
def test_no_node_of_an_optimised_model_is_explained_wrongly(tmp_path: Path) -> None:
    """Messages about every node that the runtime has in the end, and the model of the export."""
    sures: Counter[str] = Counter()
    for build in accuracy.SAMPLES:
        fn, inputs = build()
        path = tmp_path / "model.onnx"
        jax2onnx.to_onnx(
            fn,
            inputs,
            provenance="off",
            source_map=True,
            return_mode="file",
            output_path=path,
        )
        later = optimized(onnx.load(path), OPTIMIZATIONS["all"], tmp_path)
        watch = jax2onnx.explain(path)
        for answer in jax2onnx.SourceMap.load(f"{path}.map").resolve_model(later):
            message = f"running {answer.op} node. Name:'{answer.node}' Status Message: dimension"
            (finding,) = watch.message(message).findings
            sures[finding.sure] += 1
            lines = [(line.file, line.line) for line in finding.lines]
            true = {(frame.file, frame.line) for frame in answer.callsites}
            if finding.sure in ("certain", "likely"):
                assert lines[0] in true, (build.__name__, finding)
            elif finding.sure == "one-of":
                assert true & set(lines), (build.__name__, finding)
    assert sures.total() > 700
    assert sures["unknown"] / sures.total() < 0.05, sures


def test_invalid_arguments_of_profile_are_refused(model: Path) -> None:
    with pytest.raises(jax2onnx.ConfigError, match="measure at least one run"):
        jax2onnx.profile(model, FEEDS, runs=0)
    with pytest.raises(jax2onnx.InputSpecError, match=r"the input `y` .* is missing"):
        jax2onnx.profile(model, [FEEDS["x"]])
    with pytest.raises(jax2onnx.ConfigError, match="`by=colour`: use line, function"):
        jax2onnx.profile(model, [FEEDS["x"], FEEDS["x"]], by="colour")  # type: ignore[arg-type]
    with pytest.raises(jax2onnx.InputSpecError, match="`N` is 3 in `x` and 4 in `y`"):
        jax2onnx.profile(model, FEEDS)


def test_a_scan_that_the_reference_evaluator_refuses_leads_to_the_reversed_one(
    tmp_path: Path,
) -> None:
    def both(xs: jax.Array) -> Any:
        first = jax.lax.scan(lambda c, x: (c * 0.5 + x, c), jnp.zeros(3), xs)
        return first, jax.lax.scan(lambda c, x: (c - x, c), jnp.zeros(3), xs, reverse=True)

    model = tmp_path / "both.onnx"
    jax2onnx.to_onnx(both, [(5, 3)], return_mode="file", output_path=model, provenance="indexed")
    with pytest.raises(RuntimeError, match="direction") as raised:
        onnx.reference.ReferenceEvaluator(str(model))
    command = [sys.executable, "-m", "jax2onnx", "explain", str(model), "--format", "json"]
    answer = subprocess.run(command, input=str(raised.value), capture_output=True, text=True)
    [found] = json.loads(answer.stdout)["findings"]
    assert found["lines"][0]["line"] == both.__code__.co_firstlineno + 2, answer.stdout
