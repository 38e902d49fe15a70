"""Run `jax2onnx doctor`, which the command line passes to Python."""

import os
import platform
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from typing import Any, Final

from .. import _config, _core
from .._settings import OPSETS
from .._words import lines
from . import console

#: Packages that an export or a comparison uses.
_PACKAGES: Final = ("jax", "jaxlib", "numpy", "ml-dtypes", "onnx", "onnxruntime", "onnx-ir")
#: Packages of other ways to run ONNX Runtime, and libraries that people export from.
_OTHERS: Final = (
    "onnxruntime-gpu",
    "flax",
    "equinox",
    "dm-haiku",
    "keras",
    "optax",
    "diffrax",
    "brax",
)
#: What needs a package that is optional.
_PARTS: Final = {
    "onnxruntime": "`allclose`, `compare`, `profile` and `InferenceSession`",
    "onnx-ir": '`return_mode="ir"`',
}
_VARIABLES: Final = ("JAX_", "XLA_", "ORT_")
_PLUGINS: Final = "jax2onnx.plugins"
_MAX_WIDTH: Final = 100


def run(*, json: bool) -> int:
    """Print what is installed here. Return the exit code, which is always 0."""
    facts = {
        "version": 1,
        "jax2onnx": _core.__version__,
        "python": _tried(_python),
        "platform": _tried(platform.platform),
        "packages": {name: _version(name) for name in (*_PACKAGES, *_OTHERS)},
        "opsets": _tried(_opsets),
        "providers": _tried(_providers),
        "settings": _tried(_settings),
        "environment": _tried(_environment),
        "plugins": _tried(_plugins),
    }
    if json:
        console.answer_for_programs(facts)
    else:
        console.answer(_text(facts))
    return 0


def _tried(find: Callable[[], Any]) -> Any:
    """Return what a function finds, or what is wrong. The report must not fail."""
    try:
        return find()
    except Exception as error:
        return {"problem": f"{type(error).__name__}: {error}"}


def _python() -> str:
    return f"{platform.python_version()} ({platform.python_implementation()})"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except Exception:
        return None


def _opsets() -> dict[str, int | None]:
    """Return the opsets that jax2onnx writes, and the newest ones that other packages know."""
    newest: dict[str, int | None] = {"first": OPSETS[0], "last": OPSETS[-1]}
    newest["onnx"] = _tried_number(_onnx_opset)
    newest["onnxruntime"] = _tried_number(_runtime_opset)
    return newest


def _tried_number(find: Callable[[], int | None]) -> int | None:
    try:
        return find()
    except Exception:
        return None


def _onnx_opset() -> int:
    import onnx

    return int(onnx.defs.onnx_opset_version())


def _runtime_opset() -> int | None:
    """Return the newest opset of which ONNX Runtime loads a model."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["x"], ["y"])],
        "opset",
        [value("x", onnx.TensorProto.FLOAT, [1])],
        [value("y", onnx.TensorProto.FLOAT, [1])],
    )
    for opset in reversed(OPSETS):
        imports = [onnx.helper.make_opsetid("", opset)]
        model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
        try:
            onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception:
            continue
        return opset
    return None


def _providers() -> list[str]:
    if _version("onnxruntime") is None and _version("onnxruntime-gpu") is None:
        return []
    import onnxruntime

    return list(onnxruntime.get_available_providers())


def _settings() -> list[dict[str, Any]]:
    """Return the settings that are not defaults, and where they come from."""
    return [
        {"key": each.setting.key, "value": _plain(each.value), "from": list(each.sources)}
        for each in _config.found({})
        if each.sources
    ]


def _plain(value: Any) -> Any:
    return [str(entry) for entry in value] if isinstance(value, list | tuple) else value


def _environment() -> dict[str, str]:
    """Return the variables that change what JAX and ONNX Runtime do."""
    return {
        name: value for name, value in sorted(os.environ.items()) if name.startswith(_VARIABLES)
    }


def _plugins() -> list[str]:
    return sorted(entry.name for entry in metadata.entry_points(group=_PLUGINS))


def _text(facts: Mapping[str, Any]) -> str:
    """Return the facts for people: a name and a value per line."""
    rows = [("jax2onnx", facts["jax2onnx"])]
    rows += [(name, _shown(facts[name])) for name in ("python", "platform")]
    packages = facts["packages"]
    for name in _PACKAGES:
        part = f": {_PARTS[name]} need it" if name in _PARTS else ""
        rows.append((name, packages[name] or f"not installed{part}"))
    found = [f"{name} {packages[name]}" for name in _OTHERS if packages[name]]
    rows.append(("libraries", ", ".join(found) or "none that jax2onnx recognizes"))
    rows.append(("opsets", _shown_opsets(facts["opsets"])))
    rows.append(("providers", _shown(facts["providers"])))
    rows.append(("settings", _shown(facts["settings"]) or "all defaults"))
    rows.append(("variables", _shown(facts["environment"]) or "none for JAX, XLA or ONNX Runtime"))
    rows.append(("plugins", _shown(facts["plugins"]) or "none installed"))
    width = max(len(name) for name, _ in rows)
    columns = shutil.get_terminal_size((_MAX_WIDTH, 0)).columns if sys.stdout.isatty() else 0
    return "\n".join(_line(name, value, width, columns) for name, value in rows)


def _line(name: str, value: str, width: int, columns: int) -> str:
    start = width + 2
    if not columns:
        return lines([f"{name:{width}}  {value}"])
    wrapped = textwrap.wrap(
        value, max(columns - start, 20), break_long_words=False, break_on_hyphens=False
    )
    return f"{name:{width}}  " + ("\n" + " " * start).join(wrapped or [""])


def _shown(value: Any) -> str:
    match value:
        case {"problem": problem}:
            return f"unknown: {problem}"
        case dict():
            return ", ".join(f"{name}={entry}" for name, entry in value.items())
        case list():
            return ", ".join(_entries(value))
    return str(value)


def _entries(values: Iterable[Any]) -> Iterable[str]:
    for value in values:
        if isinstance(value, dict):
            yield f"{value['key']}={value['value']} ({', '.join(value['from'])})"
        else:
            yield str(value)


def _shown_opsets(opsets: Mapping[str, Any]) -> str:
    if "problem" in opsets:
        return _shown(opsets)
    text = f"{opsets['first']} to {opsets['last']}"
    for name, package in (("onnx", "onnx"), ("onnxruntime", "ONNX Runtime")):
        if opsets[name] is not None:
            text += f"; the installed {package} supports up to {opsets[name]}"
    return text
