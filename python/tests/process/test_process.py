"""An export leaves the process of the user as it is, whatever interrupts it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import jax2onnx
from jax2onnx import to_onnx
from testkit import process_state

KEY = jax.random.key(0)
X = jnp.ones((4, 3))
#: An export is interrupted at one of so many lines.
STEP = int(os.environ.get("JAX2ONNX_TEST_STEP", "30"))
PACKAGE = os.path.dirname(os.path.abspath(jax2onnx.__file__ or ""))

pytestmark = pytest.mark.filterwarnings("ignore::jax2onnx.Jax2OnnxWarning")


class Model(NamedTuple):
    """A function to export, and the values of the user's objects that it holds."""

    fn: Callable[..., Any]
    held: Callable[[], Any] = list


def plain() -> Model:
    return Model(lambda x: jnp.tanh(x) @ jnp.ones((3, 2)))


class Nnx(nnx.Module):
    def __init__(self) -> None:
        self.norm = nnx.BatchNorm(3, rngs=nnx.Rngs(0))
        self.dropout = nnx.Dropout(0.5, rngs=nnx.Rngs(0))

    def __call__(self, x: Any) -> Any:
        return self.dropout(self.norm(x))


def of_nnx() -> Model:
    model = Nnx()
    return Model(
        model,
        lambda: [
            vars(model),
            vars(model.norm),
            *(leaf for leaf in jax.tree.leaves(nnx.state(model, nnx.BatchStat))),
        ],
    )


class Counting(eqx.Module):
    index: eqx.nn.StateIndex
    linear: eqx.nn.Linear

    def __call__(self, x: Any, state: Any) -> Any:
        state = state.set(self.index, state.get(self.index) + x.sum().astype(jnp.float32))
        return jax.vmap(self.linear)(x), state


def of_equinox() -> Model:
    model, state = eqx.nn.make_with_state(Counting)(
        eqx.nn.StateIndex(jnp.zeros(())), eqx.nn.Linear(3, 2, key=KEY)
    )
    return Model(lambda x: model(x, state)[0], lambda: list(vars(state).values()))


class Linen(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.BatchNorm(use_running_average=False)(nn.Dense(2)(x))


def of_linen() -> Model:
    variables = Linen().init(KEY, X)
    return Model(
        lambda x: Linen().apply(variables, x, mutable=["batch_stats"])[0],
        lambda: jax.tree.leaves(variables),
    )


def of_haiku() -> Model:
    model = hk.transform_with_state(lambda x: hk.BatchNorm(True, True, 0.9)(x, True))
    weights, state = model.init(KEY, X)
    return Model(
        lambda x: model.apply(weights, state, None, x)[0],
        lambda: jax.tree.leaves((weights, state)),
    )


def of_keras() -> Model:
    os.environ.setdefault("KERAS_BACKEND", "jax")
    keras = pytest.importorskip("keras")
    layers = [
        keras.layers.Input((3,)),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.5),
    ]
    model = keras.Sequential(layers)
    return Model(
        lambda x: model(x, training=True), lambda: [each._value for each in model.variables]
    )


MODELS = [plain, of_nnx, of_equinox, of_linen, of_haiku, of_keras]


class Unchanged:
    """Everything that an export could change, before it."""

    def __init__(self, model: Model, *, watches_attributes: bool = True) -> None:
        self._model = model
        self._held = list(model.held())
        self._process = process_state.of_process()
        self._thread = process_state.of_thread()
        self._attributes = process_state.Attributes() if watches_attributes else None

    def check_process(self) -> None:
        """Check what other threads see, during an export too."""
        if self._attributes is not None:
            assert self._attributes.differences() == []
        now = process_state.of_process()
        # Python 3.12 and newer report calls to a tool of `sys.monitoring`.
        assert {key for key in now if now[key] != self._process[key]} <= {"tools"}

    def check(self) -> None:
        """Check everything, after an export."""
        self.check_process()
        self.check_quickly()

    def check_quickly(self) -> None:
        """Check everything but the attributes of modules, after an export."""
        assert process_state.of_process() == self._process
        assert process_state.of_thread() == self._thread
        now = list(self._model.held())
        assert all(it is old or it == old for it, old in zip(now, self._held, strict=True))


@pytest.mark.parametrize("make", MODELS)
def test_nothing_in_the_process_differs_during_and_after_an_export(
    make: Callable[[], Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A profile function is about one thread, and `test_module_calls` checks it.
    monkeypatch.setenv("JAX2ONNX_MODULE_SCOPES", "on" if sys.version_info >= (3, 12) else "off")
    model = make()
    to_onnx(model.fn, [X], enable_double_precision=True)
    before = Unchanged(model)
    calls = []

    def failing(x: Any) -> Any:
        model.fn(x)
        before.check_process()
        calls.append(x)
        raise RuntimeError("of the user")

    with pytest.raises(RuntimeError, match="of the user"):
        to_onnx(failing, [X], enable_double_precision=True)
    assert calls
    before.check_quickly()
    to_onnx(model.fn, [X], enable_double_precision=True)
    before.check()


class Interrupt:
    """Raises at the first event of a line of jax2onnx, as a signal handler would."""

    def __init__(self, line: tuple[str, int] | None) -> None:
        self._line = line
        #: All lines that ran, in order.
        self.lines: dict[tuple[str, int], None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._in_package if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _in_package(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            line = (frame.f_code.co_filename, frame.f_lineno)
            self.lines[line] = None
            if line == self._line:
                raise KeyboardInterrupt
        return self._in_package

    def run(self, body: Callable[[], Any]) -> None:
        sys.settrace(self)
        try:
            body()
        finally:
            sys.settrace(None)


def interrupted_exports(
    make: Callable[[], Model], path: Path, choose: Callable[[list[Any]], list[Any]]
) -> None:
    """Interrupt an export at some of its lines, and check what it leaves behind each time."""
    model = make()

    def export() -> None:
        options: Any = {"source_map": True, "enable_double_precision": True}
        to_onnx(model.fn, [("B", 3)], return_mode="file", output_path=path, **options)

    export()
    counted = Interrupt(None)
    counted.run(export)
    files = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    lines = choose(list(counted.lines))
    before = Unchanged(model)
    for line in lines:
        with pytest.raises(KeyboardInterrupt):
            Interrupt(line).run(export)
        before.check_quickly()
        now = {each.name: each.read_bytes() for each in path.parent.iterdir()}
        assert now == files, line
    export()
    before.check()


@pytest.mark.parametrize("make", MODELS)
def test_an_interrupt_at_a_line_leaves_everything_as_it_is(
    make: Callable[[], Model], tmp_path: Path
) -> None:
    """Some lines: those that change and restore something, and a sample of the others."""
    chance = random.Random(make.__name__)

    def choose(lines: list[tuple[str, int]]) -> list[tuple[str, int]]:
        changing = [
            (file, number)
            for file, number in lines
            if Path(file).name in ("writes.py", "modules.py", "scopes.py", "trace.py")
        ]
        return [*chance.sample(changing, min(3, len(changing))), *chance.sample(lines, 2)]

    interrupted_exports(make, tmp_path / "model.onnx", choose)


@pytest.mark.slow
@pytest.mark.parametrize("make", MODELS)
def test_an_interrupt_at_any_line_leaves_everything_as_it_is(
    make: Callable[[], Model], tmp_path: Path
) -> None:
    """Every line if STEP is 1; otherwise a part of them, which depends on how many there are."""
    interrupted_exports(
        make, tmp_path / "model.onnx", lambda lines: lines[len(lines) % STEP :: STEP]
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", MODELS)
def test_a_signal_at_any_time_leaves_everything_as_it_is(make: Callable[[], Model]) -> None:
    model = make()
    to_onnx(model.fn, [X])
    start = time.perf_counter()
    to_onnx(model.fn, [X])
    duration = time.perf_counter() - start
    before = Unchanged(model, watches_attributes=False)
    chance = random.Random(0)
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for _ in range(8):
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.001, duration))
                to_onnx(model.fn, [X])
                # The signal is late.
                time.sleep(duration)
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, handler)
    before.check()
    to_onnx(model.fn, [X])


def test_exports_in_several_threads_are_as_if_they_ran_one_after_another() -> None:
    models = [make() for make in MODELS[:5]]
    wanted = [to_onnx(model.fn, [X]).SerializeToString() for model in models]
    before = [Unchanged(model, watches_attributes=False) for model in models]
    found: dict[int, bytes] = {}

    def export(place: int) -> None:
        found[place] = to_onnx(models[place].fn, [X]).SerializeToString()

    threads = [threading.Thread(target=export, args=(place,)) for place in range(len(models))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [found.get(place) for place in range(len(models))] == wanted
    for each in before:
        each.check()


FORKING = """
import os, sys, threading
import jax.numpy as jnp
from flax import nnx
from jax2onnx import to_onnx

other = nnx.Linear(3, 3, rngs=nnx.Rngs(0))
model = nnx.Linear(3, 3, rngs=nnx.Rngs(0))
started, done = threading.Event(), threading.Event()

def waiting(x):
    started.set()
    done.wait()
    return other(x)

def forking(x):
    child = os.fork()
    if child == 0:
        sys.exit(7)
    print("the child ends with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return model(x)

thread = threading.Thread(target=to_onnx, args=(waiting, [(2, 3)]))
thread.start()
started.wait()
try:
    to_onnx(forking, [(2, 3)])
except SystemExit as error:
    os._exit(error.code)
done.set()
thread.join()
print("exported")
"""


def test_a_process_that_forks_during_an_export_goes_on_and_so_does_its_child() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stdout == "the child ends with 7\nexported\n", done.stderr


def test_a_list_that_contains_itself_is_no_danger_to_an_export() -> None:
    linear = nnx.Linear(3, 2, rngs=nnx.Rngs(0))

    def fn(x: Any) -> Any:
        cyclic: list[Any] = []
        cyclic.append(cyclic)
        with pytest.raises((TypeError, ValueError, RecursionError)):
            jnp.shape(cyclic)
        return linear(x)

    (node, *_) = to_onnx(fn, [X]).graph.node
    assert node.op_type in ("Gemm", "MatMul")


def test_finalizers_may_run_during_an_export() -> None:
    linear = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    finalized: list[int] = []

    class Cycle:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            finalized.append(np.ones(3).size)

    def fn(x: Any) -> Any:
        for _ in range(2000):
            Cycle()
        return linear(x)

    to_onnx(fn, [X])
    assert finalized
