"""Run the model that is checked: in ONNX Runtime in this process, or in another runtime."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

import numpy as np
import onnx

from .. import _files
from .._errors import ConfigError
from .._runtimes import Process, RefusalError, checked, prepare, split, started
from .arrays import Array
from .models import Loaded
from .running import Runner, check_providers, tensor_type
from .runtime import onnxruntime_for

CPU: Final = ("CPUExecutionProvider",)
#: Integers of so few elements are sizes, axes or indices, which some runtimes want as constants.
_MAX_SIZES: Final = 16
#: A model in one file is smaller.
_MAX_BYTES: Final = (1 << 31) - (1 << 20)


class Runs(Protocol):
    """A loaded model."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Compute all outputs that are tensors, by name."""


class Executor(Protocol):
    """A runtime that runs models.

    Attributes:
        name: The name as the user writes it.
        title: The name in messages.
        providers: The execution providers of ONNX Runtime.
        is_local: Whether it is ONNX Runtime in this process, whose optimizations can be turned off.
    """

    name: str
    title: str
    providers: tuple[Any, ...]
    is_local: bool

    def __enter__(self) -> "Executor":
        """Return the runtime."""

    def __exit__(self, *_: object) -> None:
        """End its process."""

    def load(
        self,
        model: onnx.ModelProto,
        loaded: Loaded,
        *,
        types: Mapping[str, np.dtype[Any]] | None = None,
        constants: Iterable[str] = (),
        optimize: bool = True,
    ) -> Runs:
        """Load a part of a model.

        Args:
            model: The part.
            loaded: The whole model, which has the files of the weights.
            types: The types of the outputs, if the part does not declare them.
            constants: The inputs that are constants in the whole model.
            optimize: Whether the runtime may join nodes.
        """

    def whole(self, loaded: Loaded, **how: Any) -> Runs:
        """Load a model as it is."""


class Local:
    """ONNX Runtime in this process."""

    is_local = True
    name = "onnxruntime"
    title = "ONNX Runtime"

    def __init__(self, providers: Sequence[Any] = CPU) -> None:
        """Run with some execution providers."""
        self.providers = tuple(providers)

    def __enter__(self) -> "Local":
        """Return the runtime."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def load(
        self,
        model: onnx.ModelProto,
        loaded: Loaded,
        *,
        types: Mapping[str, np.dtype[Any]] | None = None,
        constants: Iterable[str] = (),
        optimize: bool = True,
    ) -> Runs:
        """Load a part of a model."""
        return Runner(model, loaded, optimize=optimize, providers=self.providers)

    def whole(self, loaded: Loaded, **how: Any) -> Runs:
        """Load a model as it is."""
        return Runner(loaded.path or loaded.proto, loaded, providers=self.providers, **how)


class Remote:
    """A runtime in another process."""

    is_local = False

    def __init__(self, process: Process, title: str) -> None:
        """Run models in a process."""
        self.process, self.name, self.title = process, process.started.name, title
        self.providers: tuple[Any, ...] = CPU
        #: Whether it wants the shapes of outputs.
        self.wants_shapes = False
        self._scratch = _files.Scratch()
        self._numbers = itertools.count()

    def __enter__(self) -> "Remote":
        """Return the runtime."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process, and remove its files."""
        self.process.__exit__()
        self._scratch.__exit__()

    def load(
        self,
        model: onnx.ModelProto,
        loaded: Loaded,
        *,
        types: Mapping[str, np.dtype[Any]] | None = None,
        constants: Iterable[str] = (),
        optimize: bool = True,
    ) -> Runs:
        """Load a part of a model."""
        if not optimize:
            # Nobody can tell another runtime not to join nodes.
            return Local().load(model, loaded, optimize=False)
        whole = with_weights(model, loaded)
        return _Part(self, whole, loaded, types or {}, frozenset(constants))

    def whole(self, loaded: Loaded, **how: Any) -> Runs:
        """Load a model as it is."""
        if how:
            return Local().whole(loaded, **how)
        return _Whole(self, with_weights(loaded.proto, loaded))

    def tapped(self, loaded: Loaded, name: str, like: Array, dtype: Any) -> Runs:
        """Load a model with a value of its main graph as another output, of a shape and a type."""
        model = with_weights(loaded.proto, loaded)
        if name not in {value.name for value in model.graph.output}:
            if model is loaded.proto:
                model = onnx.ModelProto.FromString(model.SerializeToString())
            shape = like.shape if self.wants_shapes else None
            model.graph.output.add(name=name, type=tensor_type(dtype, shape))
        return _Whole(self, model)

    def send(self, model: onnx.ModelProto) -> "_Sent":
        """Write a model for the process."""
        folder = self._scratch.path / str(next(self._numbers))
        outputs = {value.name: _declared(value) for value in model.graph.output}
        prepare(model.SerializeToString(), list(outputs), folder)
        return _Sent(self.process, folder, outputs)


class _Sent:
    """A model in a folder that the process of a runtime reads."""

    def __init__(
        self, process: Process, folder: Any, outputs: Mapping[str, "np.dtype[Any] | None"]
    ) -> None:
        self._process, self._folder, self._outputs = process, folder, outputs

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        found = self._process.run(self._folder, feeds)
        if len(found) != len(self._outputs):
            raise RefusalError(f"{len(found)} outputs instead of {len(self._outputs)}")
        return {
            name: _in_type(array, dtype)
            for (name, dtype), array in zip(self._outputs.items(), found, strict=True)
        }


class _Whole:
    """A model as it is, in another runtime."""

    def __init__(self, remote: Remote, model: onnx.ModelProto) -> None:
        weights = {tensor.name for tensor in model.graph.initializer}
        self._taken = [each.name for each in model.graph.input if each.name not in weights]
        self._sent = remote.send(model)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        return self._sent.run({name: feeds[name] for name in self._taken})


class _Part:
    """A part of a model in another runtime: one model for each shape of its inputs.

    Many runtimes need the shapes of inputs. If a runtime refuses the part, it gets the shapes of
    the outputs, too, and then the sizes and axes that a node reads as constants: they are constants
    in the whole model if its shapes are known.
    """

    def __init__(
        self,
        remote: Remote,
        model: onnx.ModelProto,
        loaded: Loaded,
        types: Mapping[str, np.dtype[Any]],
        constants: frozenset[str],
    ) -> None:
        self._remote, self._model, self._loaded, self._types = remote, model, loaded, types
        self._taken = [each.name for each in model.graph.input]
        self._constants = constants & set(self._taken)
        self._sent: dict[Any, _Sent | Exception] = {}

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        fed = {name: np.asarray(feeds[name]) for name in self._taken}
        sizes = {
            name
            for name, array in fed.items()
            if array.dtype.kind in "iu" and array.ndim < 2 and array.size <= _MAX_SIZES
        }
        wants = self._remote.wants_shapes
        ways = [
            (constants, has_shapes)
            for constants in (self._constants, self._constants | sizes)
            for has_shapes in (wants, True)
        ]
        refusal: RefusalError | None = None
        for constants, has_shapes in dict.fromkeys(ways):
            try:
                found = self._run(fed, constants, has_shapes=has_shapes)
            except RefusalError as error:
                refusal = refusal or error
            else:
                self._remote.wants_shapes = has_shapes
                return found
        raise refusal or RefusalError("nothing to run")

    def _run(
        self, fed: Mapping[str, Array], constants: frozenset[str], *, has_shapes: bool
    ) -> dict[str, Array]:
        shapes = tuple(array.shape for array in fed.values())
        baked = tuple((name, fed[name].tobytes()) for name in sorted(constants))
        key = shapes, baked, has_shapes
        if key not in self._sent:
            model = self._specialized(fed, constants)
            if has_shapes:
                self._add_shapes(model, fed)
            self._sent[key] = self._remote.send(model)
        sent = self._sent[key]
        if isinstance(sent, Exception):
            raise sent
        try:
            return sent.run({name: fed[name] for name in fed if name not in constants})
        except RefusalError as error:
            self._sent[key] = error
            raise

    def _specialized(self, fed: Mapping[str, Array], constants: frozenset[str]) -> onnx.ModelProto:
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        del model.graph.input[:]
        for name, array in fed.items():
            if name in constants:
                model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
            else:
                model.graph.input.add(name=name, type=tensor_type(array.dtype, array.shape))
        for value in model.graph.output:
            if value.name in self._types:
                value.type.CopyFrom(tensor_type(self._types[value.name]))
        return model

    def _add_shapes(self, model: onnx.ModelProto, fed: Mapping[str, Array]) -> None:
        """Declare the shapes of the outputs, which ONNX Runtime knows."""
        try:
            found = Runner(self._model, self._loaded, optimize=False).run(fed)
        except Exception as error:
            raise RefusalError(str(error)) from error
        for value in model.graph.output:
            array = found.get(value.name)
            if array is not None:
                value.type.CopyFrom(tensor_type(array.dtype, array.shape))


def chosen(
    runtime: "str | Executor | None", providers: Sequence[Any] = CPU
) -> AbstractContextManager[Executor]:
    """Return the runtime that a user chose. The tools pass one that already runs.

    Raises:
        ConfigError: The runtime or a provider is missing.
    """
    if isinstance(runtime, Local | Remote):
        return nullcontext(runtime)
    onnxruntime_for("compare")
    if not isinstance(runtime, str | None):
        raise ConfigError(f"`runtime` is {runtime!r}, which is not the name of a runtime")
    name, place = ("onnxruntime", None) if runtime is None else split(runtime)
    if name == "onnxruntime" and place is None:
        check_providers(providers)
        return Local(providers)
    if runtime is None or (name != "onnxruntime" and tuple(providers) != CPU):
        raise ConfigError("`providers` are those of ONNX Runtime: leave them out with `runtime`")
    process = Process(started(runtime, [] if name != "onnxruntime" else list(providers)))
    try:
        return Remote(process, checked(process))
    except BaseException:
        process.__exit__()
        raise


def with_weights(model: onnx.ModelProto, loaded: Loaded) -> onnx.ModelProto:
    """Return a model with all weights inside."""
    outside = [
        tensor
        for tensor in model.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
    ]
    if not outside:
        return model
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    if sum(loaded.array(tensor).nbytes for tensor in outside) > _MAX_BYTES:
        raise ConfigError(
            "the weights are too large for another runtime: one ONNX file holds at most 2 GiB"
        )
    for tensor in whole.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            array = np.array(loaded.array(tensor))
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    return whole


def _declared(value: onnx.ValueInfoProto) -> "np.dtype[Any] | None":
    code = value.type.tensor_type.elem_type
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code)) if code else None


def _in_type(array: Array, dtype: "np.dtype[Any] | None") -> Array:
    """Return an array in the type of the model, if the runtime returns the same numbers in another.

    Some runtimes know fewer types than ONNX, and return flags and whole numbers as int32.
    """
    if dtype is None or array.dtype == dtype:
        return array
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
        is_same = np.array_equal(cast.astype(array.dtype), array, equal_nan=array.dtype.kind == "f")
    return cast if is_same else array
