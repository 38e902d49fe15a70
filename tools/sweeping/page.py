"""The page of the documentation that says which functions convert."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .discover import functions, module_of
from .listed import LISTED
from .trial import REFUSED, RIGHT

HEAD = """\
# Coverage

This page lists every public function of JAX's array modules, and how many calls of it jax2onnx
converts. Each function is called with several sets of arguments. For each set, there are two
possible results:

* **Right**: the model passes `onnx.checker`, and ONNX Runtime computes the same numbers as JAX
  within a tolerance, with graph optimizations on and off.
* **Refused**: `to_onnx` raises `UnsupportedError`. The table shows the arguments and the reason.
  A refusal concerns these arguments: a function with 5 of 6 sets right works with the others.

If the size of a result depends on values, as in `jnp.unique`, the function is called with `size=`.

`tools/sweep.py` generates this page from the argument sets in `tools/sweeping`. `make sweep` takes
about five minutes, and half an hour the first time, because XLA compiles every function.
"""


def text(results: Mapping[str, list[dict[str, Any]]]) -> str:
    """Returns the page for the verdicts of every function."""
    names = list(functions())
    parts = [HEAD, "\n", *_counts(names, results)]
    for module in dict.fromkeys(module_of(name) for name in names):
        own = [name for name in names if module_of(name) == module]
        parts += _module(module, own, results)
    return "".join(parts)


def _counts(names: list[str], results: Mapping[str, list[dict[str, Any]]]) -> Iterable[str]:
    yield "| Module | Functions tried | Argument sets right | Refused | Not tried |\n"
    yield "| --- | ---: | ---: | ---: | ---: |\n"
    rows = [_count(module, names, results) for module in dict.fromkeys(map(module_of, names))]
    for module, *counts in rows:
        yield f"| [`{module}`](#{module.replace('.', '')}) | {' | '.join(map(str, counts))} |\n"
    totals = [sum(row[column] for row in rows) for column in range(1, 5)]
    yield f"| **all** | {' | '.join(map(str, totals))} |\n"


def _count(
    module: str, names: list[str], results: Mapping[str, list[dict[str, Any]]]
) -> tuple[Any, ...]:
    own = [name for name in names if module_of(name) == module]
    tried = [name for name in own if name not in LISTED]
    sets = [one["verdict"] for name in tried for one in results.get(name, ())]
    return module, len(tried), sets.count(RIGHT), sets.count(REFUSED), len(own) - len(tried)


def _module(
    module: str, names: list[str], results: Mapping[str, list[dict[str, Any]]]
) -> Iterable[str]:
    yield f"\n## {module}\n\n| Function | Right | Refused |\n| --- | ---: | --- |\n"
    for name in names:
        if name not in LISTED:
            sets = results.get(name, [])
            right = sum(one["verdict"] == RIGHT for one in sets)
            short = name.removeprefix(module + ".")
            yield f"| `{short}` | {right} of {len(sets)} | {_refusals(sets)} |\n"
    reasons: dict[str, list[str]] = {}
    for name in names:
        if name in LISTED:
            reasons.setdefault(LISTED[name], []).append(f"`{name.removeprefix(module + '.')}`")
    if reasons:
        yield "\nNot tried:\n\n"
    for reason, listed in reasons.items():
        yield f"- {', '.join(listed)}: {reason}.\n"


def _refusals(sets: Iterable[dict[str, Any]]) -> str:
    """Returns each reason once, with the first argument set that it is about."""
    reasons: dict[str, list[str]] = {}
    for one in sets:
        if one["verdict"] == REFUSED:
            reasons.setdefault(one["said"], []).append(one["label"])
    shown = []
    for reason, labels in reasons.items():
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        shown.append(f"`{labels[0]}`{more}: {reason}")
    return "; ".join(shown).replace("|", "\\|")
