"""Text from a file never controls the terminal: models, maps, profiles, arrays and settings."""

import copy
import json
import re
import subprocess
import sys
import xml.etree.ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from jax2onnx import __main__, _core
from testkit import ROOT

FIXTURES = ROOT / "crates" / "cli" / "tests" / "fixtures"
PROFILES = ROOT / "crates" / "inspect" / "tests" / "profiles"

# Clears the screen, sets the title, starts a line, hides the rest, reverses the text.
HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07\nINJECTED\r\x7f\x9b8m\u202e\u2066\u2028</text><script>&\U000e0041"
)
UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    r"\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)

Change = Callable[[], None]


def proto_changes(message: Any, path: str = "") -> Iterator[tuple[str, Change]]:
    """Yield the path of each string field, and what makes the field hostile."""
    for field, value in message.ListFields():
        name = f"{path}.{field.name}"
        if field.type == field.TYPE_MESSAGE:
            for part in value if field.is_repeated else [value]:
                yield from proto_changes(part, name)
        elif field.type == field.TYPE_STRING and field.is_repeated:
            for index in range(len(value)):
                yield (
                    name,
                    lambda value=value, index=index: value.__setitem__(
                        index, value[index] + HOSTILE
                    ),
                )
        elif field.type == field.TYPE_STRING:
            yield (
                name,
                lambda field=field, value=value: setattr(message, field.name, value + HOSTILE),
            )


def json_changes(document: Any, path: str = "") -> Iterator[tuple[str, Change]]:
    """Yield the path of each string of a JSON document, and what makes the string hostile."""
    entries = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(entries):
        name = f"{path}.{key}" if isinstance(document, dict) else path
        if isinstance(value, str):
            yield (
                name,
                lambda key=key, value=value: document.__setitem__(key, value + HOSTILE),
            )
        elif isinstance(value, dict | list):
            yield from json_changes(value, name)
        if isinstance(document, dict):
            yield (
                f"{name} (key)",
                lambda key=key: document.__setitem__(key + HOSTILE, document[key]),
            )


def hostile_variants(
    document: Any, changes: Callable[[Any], Iterator[tuple[str, Change]]]
) -> Iterator[tuple[str, Any]]:
    """Yield a copy for each kind of string field, in which all strings of that kind are hostile."""
    for kind in sorted({name for name, _ in changes(document)}):
        variant = copy.deepcopy(document)
        for name, change in list(changes(variant)):
            if name == kind:
                change()
        yield kind, variant


class Asker:
    """Runs commands and checks everything that they print."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self.capfd = capfd
        self.seen = ""

    def ask(self, *arguments: object) -> None:
        code = _core.main(["jax2onnx", *map(str, arguments)], __main__._run)
        out, err = self.capfd.readouterr()
        about = f"{arguments} printed"
        assert code in (0, 1, 2), about
        for printed in (out, err):
            found = UNPRINTABLE.search(printed)
            assert not found, f"{about} {found!r} in {printed!r}"
        assert not any(line.lstrip().startswith("INJECTED") for line in (out + err).splitlines()), (
            f"{about} a line of the file: {out} {err}"
        )
        if out and ("json" in arguments or "speedscope" in arguments):
            self.seen += "\n".join(strings(json.loads(out)))
        if out and "flamegraph" in arguments:
            assert not list(xml.etree.ElementTree.fromstring(out).iter("script"))
        self.seen += out + err


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for part in value.values():
            yield from strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)


def ask_everything(asker: Asker, model: Path, folder: Path, *options: object) -> None:
    node = next(iter(onnx.load(model, load_external_data=False).graph.node), None)
    log = f"Non-zero status code returned while running Add node. Name:'{node and node.name}'"
    out = folder / "out.onnx"
    for style in ("text", "json"):
        ask = lambda *arguments, style=style: asker.ask(*arguments, "--format", style)  # noqa: E731
        ask("inspect", model, *options)
        ask("blame", model, *options)
        ask("check", model, *options)
        ask("diff", model, FIXTURES / "second.onnx")
        ask("diff", FIXTURES / "second.onnx", model)
        ask("explain", model, "-m", log, *options)
        ask("where", model, "#0", "--all-frames", *options)
        for name in (node and (node.name or node.output[0]), "tan", "no such name"):
            ask("where", model, name, *options)
        ask("strip", model, "-o", out, "--map", folder / "out.map")
        ask("attach", model, FIXTURES / "mapped.onnx.map", "-o", out)


@pytest.mark.slow
@pytest.mark.parametrize("fixture", ["full.onnx", "indexed.onnx", "foreign/torch.onnx"])
def test_no_string_of_a_model_controls_the_terminal(
    fixture: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asker = Asker(capfd)
    model = tmp_path / "model.onnx"
    kinds = 0
    for kind, variant in hostile_variants(onnx.load(FIXTURES / fixture), proto_changes):
        model.write_bytes(variant.SerializeToString())
        ask_everything(asker, model, tmp_path)
        kinds += 1
        if kind == ".graph.node.name":
            # JSON contains the name as it is in the file.
            assert HOSTILE in asker.seen
    assert kinds > 10


@pytest.mark.slow
def test_no_string_of_a_provenance_table_controls_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asker = Asker(capfd)
    model = onnx.load(FIXTURES / "indexed.onnx")
    entry = next(p for p in model.metadata_props if p.key == "pkg.jax2onnx.provenance")
    for _, variant in hostile_variants(json.loads(entry.value), json_changes):
        entry.value = json.dumps(variant)
        (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
        ask_everything(asker, tmp_path / "model.onnx", tmp_path)
    assert HOSTILE in asker.seen


@pytest.mark.parametrize("name", ["debug_id", "location"])
def test_an_error_about_a_string_of_a_model_is_one_line(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asker = Asker(capfd)
    model = onnx.load(FIXTURES / "mapped.onnx")
    if name == "debug_id":
        for entry in model.metadata_props:
            entry.value += HOSTILE
    else:
        tensor = model.graph.initializer[0]
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.ClearField("raw_data")
        tensor.external_data.add(key="location", value=HOSTILE)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    ask_everything(asker, path, tmp_path, "--map", FIXTURES / "mapped.onnx.map")
    asker.ask("check", path)
    assert "INJECTED" in asker.seen


@pytest.mark.slow
def test_no_string_of_a_map_controls_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asker = Asker(capfd)
    document = json.loads((FIXTURES / "mapped.onnx.map").read_text())
    for _, variant in hostile_variants(document, json_changes):
        path = tmp_path / "model.map"
        path.write_text(json.dumps(variant))
        ask_everything(asker, FIXTURES / "mapped.onnx", tmp_path, "--map", path)
    assert HOSTILE in asker.seen


@pytest.mark.slow
def test_no_string_of_a_profile_controls_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asker = Asker(capfd)
    events = json.loads((PROFILES / "loop.json").read_text())
    kernel = next(event for event in events if event.get("cat") == "Node")
    document = [*[event for event in events if event.get("cat") != "Node"][:4], kernel]
    for _, variant in hostile_variants(document, json_changes):
        path = tmp_path / "profile.json"
        path.write_text(json.dumps(variant))
        for style in ("text", "json", "flamegraph", "speedscope"):
            for by in ("line", "op", "node"):
                asker.ask("profile", PROFILES / "loop.onnx", path, "--format", style, "--by", by)
    assert HOSTILE in asker.seen


def test_the_name_of_a_file_does_not_control_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asker = Asker(capfd)
    name = HOSTILE.replace("/", "")
    for path in (tmp_path / f"gone{name}.onnx", tmp_path / f"here{name}.onnx"):
        if "here" in path.name:
            path.write_bytes((FIXTURES / "indexed.onnx").read_bytes())
        for style in ("text", "json"):
            asker.ask("inspect", path, "--format", style)
            asker.ask("check", path, "--format", style)
            asker.ask("strip", path, "-o", tmp_path / f"out{name}.onnx", "--format", style)
            asker.ask("profile", FIXTURES / "indexed.onnx", path)
            asker.ask("explain", FIXTURES / "indexed.onnx", path)
            asker.ask("where", FIXTURES / "indexed.onnx", "tanh", "--map", path)
    assert name in asker.seen


def hostile_pair() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Return two models that differ, in which every name is hostile."""
    helper = onnx.helper
    names = {name: name + HOSTILE for name in ("x", "y", "z", "node", "last", "graph", "twice")}
    models = []
    for operator in ("Sin", "Cos"):
        nodes = [
            helper.make_node(operator, [names["x"]], [names["y"]], name=names["node"]),
            helper.make_node("Log", [names["y"]], [names["z"]], name=names["last"]),
        ]
        for node in nodes:
            for key in ("pkg.jax2onnx.callsite", "pkg.jax2onnx.loc", "namespace"):
                node.metadata_props.add(key=key, value=f"f{HOSTILE}:3")
        ends = [helper.make_tensor_value_info(names[name], 1, [2]) for name in ("x", "z")]
        graph = helper.make_graph(nodes, names["graph"], ends[:1], ends[1:])
        imports = [helper.make_opsetid("", 20)]
        models.append(helper.make_model(graph, opset_imports=imports, ir_version=10))
    return models[0], models[1]


@pytest.mark.parametrize("style", ["text", "json"])
def test_compare_lets_no_name_control_the_terminal(
    style: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, model in zip(("a", "b"), hostile_pair(), strict=True):
        Path(f"{name}.onnx").write_bytes(model.SerializeToString())
    np.savez("arrays.npz", **{f"other{HOSTILE}".replace("/", ""): np.ones(2, np.float32)})
    asker = Asker(capfd)
    pair = ("compare", "a.onnx", "b.onnx", "-q")
    ask = lambda *arguments: asker.ask(*arguments, "--format", style)  # noqa: E731
    ask(*pair, "-i", "f32[2]", "--reproducer", "case")
    ask("compare", "a.onnx", "--nan", "-q", "-i", "f32[2]")
    ask(*pair, "-i", "arrays.npz")
    ask(*pair, "-i", "f32[3]")
    ask(*pair, "-i", f"name{HOSTILE}=f32[2]")
    ask(*pair, "-i", f"none{HOSTILE}.npy")
    ask("compare", f"none{HOSTILE}.onnx", "b.onnx", "-q", "-i", "f32[2]")
    ask("compare", "arrays.npz", "b.onnx", "-q", "-i", "f32[2]")
    ask(*pair, "-i", "f32[2]", "--map", f"none{HOSTILE}")
    assert "node" in asker.seen
    # The names are data of the reproducer, and its script is the same for all models.
    script = Path("case/run.py").read_text()
    assert "INJECTED" not in script
    ran = subprocess.run([sys.executable, "case/run.py"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "largest difference" in ran.stdout
    assert not UNPRINTABLE.search(ran.stdout)
    case = json.loads(Path("case/case.json").read_text())
    assert HOSTILE in case["output"]


@pytest.mark.parametrize("style", ["text", "json"])
def test_no_setting_controls_the_terminal(
    style: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    asker = Asker(capfd)
    text = json.dumps(HOSTILE.replace("\U000e0041", "")).replace("\\x7f", "\\u007f")
    for line in (
        f"model-name = {text}",
        f"user-code = [{text}]",
        f"provenance = {text}",
        f"{text} = 1",
        f"opset = {text}",
        f"provenance-prefixes = [{text}]",
        f'"{HOSTILE}" = 1',
        f"explain-passes = {text}",
    ):
        Path("pyproject.toml").write_text(f"[tool.jax2onnx]\n{line}\n", encoding="utf-8")
        asker.ask("config", "--format", style)
    monkeypatch.setenv("JAX2ONNX_NAN", HOSTILE.replace("\0", ""))
    asker.ask("config", "--format", style)
    assert "INJECTED" in asker.seen
