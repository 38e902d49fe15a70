"""The format of provenance: documents are as the schema says, and mean what the page says."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

import jax2onnx
from jax2onnx import _core, provenance_reader
from testkit import ROOT

from .test_source_map import INPUTS, net

DOCS = ROOT / "docs"
SCHEMA = json.loads((DOCS / "provenance.schema.json").read_text())
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "null": type(None)}


def valid(value: Any, schema: Any) -> bool:
    """Return whether a value is as a schema says; of JSON Schema only what ours uses."""
    if isinstance(schema, bool):
        return schema
    checks = {
        "$ref": lambda ref: valid(value, SCHEMA["$defs"][ref.removeprefix("#/$defs/")]),
        "oneOf": lambda options: sum(valid(value, option) for option in options) == 1,
        "const": lambda wanted: value == wanted and type(value) is type(wanted),
        "enum": lambda words: value in words,
        "type": lambda names: any(
            type(value) is TYPES[name] for name in ([names] if isinstance(names, str) else names)
        ),
        "minimum": lambda least: value >= least,
        "maximum": lambda most: value <= most,
        "pattern": lambda form: not isinstance(value, str) or re.search(form, value) is not None,
        "minItems": lambda least: len(value) >= least,
        "maxItems": lambda most: len(value) <= most,
        "prefixItems": lambda each: all(map(valid, value, each)),
        "items": lambda rest: all(
            valid(item, rest) for item in value[len(schema.get("prefixItems", ())) :]
        ),
        "required": lambda keys: all(key in value for key in keys),
        "properties": lambda each: all(
            valid(value[key], inner) for key, inner in each.items() if key in value
        ),
        "dependentRequired": lambda each: all(
            set(needed) <= value.keys() for key, needed in each.items() if key in value
        ),
    }
    about = {"$schema", "$defs", "title", "description"}
    assert schema.keys() - about <= checks.keys()
    # The type comes first: the others are about values of it.
    words = sorted(schema.keys() - about, key=lambda word: word != "type")
    return all(checks[word](schema[word]) for word in words)


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A table, the map of an export, and the map of a model that was stripped."""
    folder = tmp_path_factory.mktemp("format")
    model = jax2onnx.to_onnx(
        net, INPUTS, provenance="indexed", source_map=folder / "export", sources="embed"
    )
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    arguments = ["strip", folder / "m.onnx", "-o", folder / "c.onnx", "--map", folder / "strip"]
    assert _core.main(["jax2onnx", *map(str, arguments)]) == 0
    maps = {name: json.loads((folder / name).read_text()) for name in ("export", "strip")}
    (table,) = (entry.value for entry in model.metadata_props if entry.key.endswith("provenance"))
    return {"table": json.loads(table), **maps}


@pytest.mark.parametrize("kind", ["table", "export", "strip"])
def test_written_tables_match_the_schema(kind: str, documents: dict[str, Any]) -> None:
    document = documents[kind]
    assert valid(document, SCHEMA)
    assert ("annotations" in document) == (kind == "strip")
    table = document if kind == "table" else document["provenance"]
    assert all(table[key] for key in SCHEMA["$defs"]["table"]["required"])


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (["version"], 2),
        (["debug_id"], 7),
        (["provenance", "files", 0], ["f.py", "user"]),
        (["provenance", "tiers"], "mine"),
        (["provenance", "locations"], [[0, 0, 1, 2]]),
        (["provenance", "frames"], "A-A"),
        (["provenance", "scope_names"], "jit(f)"),
        (["provenance", "emitter_names", 0], None),
        (["provenance", "places"], "="),
        (["provenance", "origins"], 7),
        (["sources", 0], ["not a hash"]),
        (["graphs", 0, "nodes", 0], ["name", 0, 0]),
        (["graphs", 0, "node"], 3),
        (["values"], [["name"]]),
        (["values"], [["name", None, 7]]),
    ],
)
def test_wrong_tables_are_refused_by_the_schema_and_by_the_reader(
    path: list[Any], wrong: Any, documents: dict[str, Any], tmp_path: Path
) -> None:
    document = copy.deepcopy(documents["export"])
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = wrong
    assert not valid(document, SCHEMA)
    if path[0] == "sources":
        # What a hash looks like is the business of who compares it.
        return
    (tmp_path / "m").write_text(json.dumps(document))
    with pytest.raises(jax2onnx.SourceMapError):
        jax2onnx.SourceMap.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("kind", "first", "repeated"),
    [
        # A run of 31 frames, and later runs that repeat it.
        ("frames", "Af" + "A" * 31 + "A", "AAfB"),
        ("origins", "AAf" + "A" * 31, "AB"),
    ],
)
def test_a_list_that_expands_to_more_than_its_size_allows_is_refused(
    kind: str, first: str, repeated: str
) -> None:
    page = (DOCS / "provenance-format.md").read_text()
    example = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert example
    document = {**json.loads(example[1]), "fused": "", kind: first + repeated * 100}
    provenance_reader.Table(document)
    # Later runs repeat longer ones.
    run = "A" * (1 << 10)
    longer = {"frames": f"AggB{run}A" + "AAggBB" * 400, "origins": f"AAggB{run}" + "AB" * 400}
    with pytest.raises(ValueError, match="expands to more than its size allows"):
        provenance_reader.Table({**document, kind: longer[kind]})


def test_the_example_of_the_page_means_what_the_page_says() -> None:
    page = (DOCS / "provenance-format.md").read_text()
    example = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert example
    document = json.loads(example[1])
    assert valid(document, SCHEMA)
    first, _, fused = provenance_reader.Table(document)
    assert first.site.transforms == "jit(f)"
    assert first.site.scope == "attn"
    assert [str(frame) for frame in first.site.frames] == [
        "jax/_src/core.py:705 (bind)",
        "model.py:12 (Net.__call__)",
    ]
    callsite = first.callsite
    assert callsite is not None
    assert (callsite.column, callsite.end_line, callsite.end_column) == (8, 12, 19)
    assert fused.site.scopes == ()
    assert [frame.line for frame in fused.callsites] == [12, 13]
