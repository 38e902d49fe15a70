"""Write which ONNX operators each primitive becomes, and the page that lists the primitives.

    python tools/primitives.py           write crates/lowering/src/emitted.rs and docs/primitives.md
    python tools/primitives.py --check   exit with 1 where one differs from what is written today

The operators are those of the end-to-end cases, so a primitive shows what its cases exercise. The
page shows what was compiled in: after a change of the operators, build and run this once more.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx

import jax2onnx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from tests.cases import all_cases  # noqa: E402

HEAD = """\
# Primitives

Every primitive of JAX that can be converted, with the line that lowers it, the ONNX operators it
becomes in our tests, and what is not done. Everything that is built of these converts: `jnp`,
`jax.nn`, flax, equinox, haiku, your own. `jax2onnx plugins` prints the same. Made by
`tools/primitives.py`. [Coverage](coverage.md) lists the functions of `jnp` and the other modules.

| Primitive | Lowered at | ONNX operators | Limits |
| --- | --- | --- | --- |
"""


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes(attribute.g)


def emitted() -> dict[str, list[str]]:
    """The operators of each primitive over all cases."""
    primitives = {plugin.name: plugin.primitive for plugin in jax2onnx.plugins()}
    found: dict[str, set[str]] = collections.defaultdict(set)
    for case in all_cases():
        model = jax2onnx.to_onnx(
            case.fn,
            list(case.inputs),
            enable_double_precision=case.double,
            opset=case.opset,
            provenance="minimal",
        )
        for node in nodes(model.graph):
            origin = {entry.key: entry.value for entry in node.metadata_props}
            plugin = origin["pkg.jax2onnx.plugin"].split(".")[0]
            if plugin in primitives and not node.domain:
                found[primitives[plugin]].add(node.op_type)
    return {primitive: sorted(ops) for primitive, ops in sorted(found.items())}


def rust(ops: dict[str, list[str]]) -> str:
    def row(primitive: str, names: list[str]) -> str:
        listed = ", ".join(f'"{name}"' for name in names)
        return f'    ("{primitive}", &[{listed}]),\n'

    rows = "".join(row(primitive, names) for primitive, names in ops.items())
    return (
        "//! Made by `tools/primitives.py` from the end-to-end cases; do not edit.\n\n"
        "/// The ONNX operators that the plugin for each primitive emits in them.\n"
        "#[rustfmt::skip]\n"
        f"pub(crate) const EMITTED: &[(&str, &[&str])] = &[\n{rows}];\n"
    )


def page(ops: dict[str, list[str]]) -> str:
    rows = []
    for plugin in sorted(jax2onnx.plugins(), key=lambda plugin: plugin.primitive):
        place = f"`{plugin.file.removeprefix('crates/lowering/src/')}:{plugin.line}`"
        limits = "; ".join(plugin.limits).replace("|", "\\|")
        names = ", ".join(ops.get(plugin.primitive, []))
        rows.append(f"| `{plugin.primitive}` | {place} | {names} | {limits} |\n")
    return HEAD + "".join(rows)


def main(check: bool) -> int:
    ops = emitted()
    files = {
        ROOT / "crates" / "lowering" / "src" / "emitted.rs": rust(ops),
        ROOT / "docs" / "primitives.md": page(ops),
    }
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        name = path.relative_to(ROOT)
        print(f"{name} is stale: run `make fixtures`" if check else f"wrote {name}")
        if not check:
            path.write_text(files[path])
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
