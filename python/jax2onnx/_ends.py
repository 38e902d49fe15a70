"""What the inputs and outputs of a model are called: as they were asked for, or by their paths."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ._errors import ConfigError


def names(
    input_paths: Sequence[str],
    output_paths: Sequence[str],
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    input_params: Mapping[str, Any],
) -> tuple[list[str], list[str]]:
    """The names of all inputs and outputs; one name is one value."""
    # Keyword arguments come behind the others.
    positional = len(input_paths) - len(input_params)
    inputs = _given(input_names, "input", positional) or list(input_paths[:positional])
    inputs += input_paths[positional:]
    for name in input_names or ():
        if name in input_params:
            raise ConfigError(f"`input_names` has {name}, which is a name of `input_params`")
    outputs = _given(output_names, "output", len(output_paths))
    for name in outputs or ():
        if name in inputs:
            raise ConfigError(f"`output_names` has {name}, which is the name of an input")
    return inputs, outputs or _of_results(output_paths, taken=inputs)


def _of_results(paths: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The paths; `out_0` where one is the name of something else."""
    names: list[str] = []
    for place, path in enumerate(paths):
        names.append(f"out_{place}" if path in (*taken, *names) else path)
    return names


def _given(
    names: Sequence[str] | None, what: Literal["input", "output"], count: int
) -> list[str] | None:
    """The names that were asked for, one each."""
    if names is None:
        return None
    if isinstance(names, str | bytes):
        raise ConfigError(f"`{what}_names` is {names!r}, and should be a list of names")
    names = list(names)
    if not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"`{what}_names` has an entry that is not a text, or an empty one")
    if len(names) != count:
        raise ConfigError(f"`{what}_names` has {len(names)} entries for {count} {what}s")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"`{what}_names` has {', '.join(twice)} more than once")
    return names
