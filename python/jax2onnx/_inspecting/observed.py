"""Create sessions of ONNX Runtime that say where they run each node."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from .. import _files
from .._errors import ConfigError
from .._native import imported
from .._types import StrPath

#: The provider, the name and the operator of a node.
Assigned: TypeAlias = tuple[str, str, str]

CPU: Final = "CPUExecutionProvider"

#: Makes a session note where it runs each node.
_RECORD: Final = "session.record_ep_graph_assignment_info"

#: Providers that compile parts of a model. ONNX Runtime cannot write its form of such a model.
_COMPILERS: Final = {
    "CoreMLExecutionProvider",
    "MIGraphXExecutionProvider",
    "NnapiExecutionProvider",
    "NvTensorRTRTXExecutionProvider",
    "OpenVINOExecutionProvider",
    "QNNExecutionProvider",
    "TensorrtExecutionProvider",
    "VitisAIExecutionProvider",
}


@dataclass(frozen=True)
class Observed:
    """A session, and what it says about itself.

    Attributes:
        session: The session.
        optimized: The path of the runtime's own form of the model; None if it could not be written.
        assigned: Where it runs each node; None if this version of ONNX Runtime does not say.
    """

    session: Any
    optimized: Path | None
    assigned: list[Assigned] | None

    def form(
        self, scratch: _files.Scratch, source: str | bytes, source_map: StrPath | None
    ) -> "Form":
        """Return the model with the names of the runtime, and where its origins are."""
        known = None if source_map is None else os.fspath(source_map)
        if self.optimized is None:
            return Form(source, known, None)
        if isinstance(source, bytes):
            exported = scratch.path / "model.onnx"
            with scratch.open(exported.name) as file:
                file.write(source)
            return Form(str(self.optimized), known, str(exported))
        beside = f"{source}.map"
        if known is None and os.path.exists(beside):
            known = beside
        return Form(str(self.optimized), known, source)


@dataclass(frozen=True)
class Form:
    """A model as the core reads it.

    Attributes:
        model: The path of the model, or its bytes.
        source_map: The path of the source map; None if there is none.
        exported: The path of the model before ONNX Runtime optimized it, if `model` is optimized.
    """

    model: str | bytes
    source_map: str | None
    exported: str | None


def runtime(what: str) -> Any:
    """Import ONNX Runtime for a function."""
    try:
        return imported("onnxruntime")
    except ImportError as error:
        raise ConfigError(
            f"`{what}` needs ONNX Runtime: pip install 'jax2onnx-rs[runtime]'"
        ) from error


def observed(
    onnxruntime: Any,
    source: str | bytes,
    providers: Sequence[Any],
    session_options: Any,
    optimized: Path,
    asked: Mapping[str, Any],
    **arguments: Any,
) -> Observed:
    """Create a session.

    Args:
        onnxruntime: The module.
        source: The model.
        providers: The execution providers. Those of `session_options` take precedence.
        session_options: The options of the session, or None.
        optimized: Where ONNX Runtime writes its own form of the model.
        asked: The options to set.
        arguments: More arguments of the session.
    """
    options = session_options or _without_warnings(onnxruntime.SessionOptions())
    _record(options)
    # Since 1.22, options can hold the providers of libraries that the user registered.
    has_providers = getattr(options, "has_providers", lambda: False)()
    names = set() if has_providers else set(names_of(providers))
    if not has_providers:
        arguments = {**arguments, "providers": list(providers)}

    def create(path: str) -> Any:
        with _changed(options, {**asked, "optimized_model_filepath": path}):
            return onnxruntime.InferenceSession(source, options, **arguments)

    is_written = _is_small(source) and not names & _COMPILERS
    try:
        session = create(str(optimized) if is_written else "")
    except Exception as error:
        # Other providers may compile parts, too.
        if not is_written or "compiled nodes" not in str(error):
            raise
        session = create("")
    return Observed(session, optimized if optimized.exists() else None, _assigned(session))


def names_of(providers: Sequence[Any]) -> list[str]:
    """Return the names of providers, which may have options."""
    return [it if isinstance(it, str) else str(it[0]) for it in providers]


def _assigned(session: Any) -> list[Assigned] | None:
    ask = getattr(session, "get_provider_graph_assignment_info", None)
    if ask is None:
        return None
    return [(part.ep_name, node.name, node.op_type) for part in ask() for node in part.get_nodes()]


def _without_warnings(options: Any) -> Any:
    """Silence the warning that the runtime's form of a model is only for this machine."""
    options.log_severity_level = 3
    return options


@contextmanager
def _changed(options: Any, asked: Mapping[str, Any]) -> Iterator[None]:
    """Change some options inside the block."""
    kept = {name: getattr(options, name) for name in asked}
    for name, value in asked.items():
        setattr(options, name, value)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(options, name, value)


def _record(options: Any) -> None:
    """Make sessions with these options note where they run each node.

    The entry stays, because it cannot be removed, and changing it prints a warning.
    """
    with suppress(RuntimeError):
        if options.get_session_config_entry(_RECORD) == "1":
            return
    options.add_session_config_entry(_RECORD, "1")


def _is_small(source: str | bytes) -> bool:
    """Return whether the runtime can write its own form of the model to one file."""
    limit = 1 << 29
    if isinstance(source, bytes):
        return len(source) < limit
    folder = Path(source).parent
    data = [Path(source), *folder.glob(f"{Path(source).name}*.data")]
    return sum(path.stat().st_size for path in data if path.exists()) < limit
