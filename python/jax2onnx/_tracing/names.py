"""Name the inputs and outputs of a model: by the user's choice, or by their paths."""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from jax import tree_util

from .._errors import ConfigError
from .._warn import warn
from .._words import counted, quoted
from .weights import is_variable

#: How many names a warning lists.
_MAX_SHOWN: Final = 4


def input_names(
    fn: Callable[..., Any], specs: Sequence[Any], keywords: Mapping[str, Any]
) -> list[str]:
    """Return one name per leaf, such as `batch.0`; keyword inputs come last, sorted."""
    names = []
    for root, spec in zip(_roots(fn, len(specs)), specs, strict=True):
        names += [".".join([root, *path]) for path in _paths(spec)]
    return names + sorted(keywords)


def parts(root: str, tree: Any) -> dict[str, Any]:
    """Return the arrays of an argument by the names of its inputs."""
    names = [".".join([root, *path]) for path in _paths(tree)]
    return dict(zip(names, tree_util.tree_leaves(tree), strict=True))


def output_names(result: Any) -> list[str]:
    """Return one name per leaf: `out_0` for an array, `logits` for a dictionary, `out_1.mean`."""
    return [_output_name(path) for path in _paths(result)]


def _paths(tree: Any) -> Iterator[list[str]]:
    """Yield the path of each leaf; the array of an nnx variable has the path of the variable."""
    entries, _ = tree_util.tree_flatten_with_path(tree, is_leaf=lambda e: is_variable(type(e)))
    for path, entry in entries:
        leaves = tree_util.tree_flatten_with_path(entry)[0] if is_variable(type(entry)) else []
        if len(leaves) > 1:
            yield from ([_segment(key) for key in (*path, *inner)] for inner, _ in leaves)
        else:
            yield [_segment(key) for key in path]


def _output_name(path: Sequence[str]) -> str:
    first, *rest = path or ["0"]
    return ".".join([f"out_{first}" if first.isdecimal() else first, *rest])


def _roots(fn: Callable[..., Any], count: int) -> Iterator[str]:
    """Yield the names of the first positional arguments."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    for index in range(count):
        if index < len(named):
            yield named[index]
        else:
            yield f"in_{index}" if rest is None else f"{rest}.{index - len(named)}"


def _segment(key: Any) -> str:
    """Return the text of a key: the name of an attribute, an entry or a position."""
    for attribute in ("name", "key", "idx"):
        value = getattr(key, attribute, None)
        if value is not None:
            return str(value)
    return str(key)


def chosen_names(
    input_paths: Sequence[str],
    output_paths: Sequence[str],
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    input_params: Mapping[str, Any],
) -> tuple[list[str], list[str]]:
    """Return the names of all inputs and outputs, each unique."""
    # Keyword inputs come last.
    positional = len(input_paths) - len(input_params)
    inputs = _given(input_names, "input", positional) or list(input_paths[:positional])
    inputs += input_paths[positional:]
    for name in input_names or ():
        if name in input_params:
            raise ConfigError(
                f"`input_names` contains {name}, which is also a name in `input_params`"
            )
    outputs = _given(output_names, "output", len(output_paths))
    for name in outputs or ():
        if name in inputs:
            raise ConfigError(f"`output_names` contains {name}, which is the name of an input")
    return inputs, outputs or _of_results(output_paths, taken=inputs)


def _of_results(paths: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return the paths; one that is also the name of an input gets the suffix `_out`."""
    names: list[str] = []
    renamed: dict[str, str] = {}
    for place, path in enumerate(paths):
        name = f"{path}_out" if path in taken else path
        names.append(f"out_{place}" if name in (*taken, *names) else name)
        if path in taken:
            renamed[path] = names[-1]
    if renamed:
        is_one = len(renamed) == 1
        what = f"output {_listed(renamed)} has the name of an input"
        several = f"outputs {_listed(renamed)} have the names of inputs"
        warn(
            f"the {what if is_one else several}: the model calls {'it' if is_one else 'them'} "
            f"{_listed(renamed.values())}; choose names with `output_names`"
        )
    return names


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(quoted(name) for name in list(names)[:_MAX_SHOWN])
    return f"{shown}, …" if len(names) > _MAX_SHOWN else shown


def _given(
    names: Sequence[str] | None, what: Literal["input", "output"], count: int
) -> list[str] | None:
    """Check the names that the user chose: one per input or output."""
    if names is None:
        return None
    if isinstance(names, str | bytes):
        raise ConfigError(f"`{what}_names` is {names!r}, which is not a list of names")
    names = list(names)
    if not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"`{what}_names` contains an entry that is empty or not a string")
    if len(names) != count:
        raise ConfigError(
            f"`{what}_names` has {counted(len(names), 'name')} for {counted(count, what)}"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"`{what}_names` contains {', '.join(twice)} more than once")
    return names
