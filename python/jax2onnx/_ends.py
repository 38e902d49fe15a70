"""What the inputs and outputs of a model are called."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from ._errors import ConfigError, InternalError

#: A step of the path to a result as JAX writes it: `['key']`, `[0]` or `.field`.
_STEP: Final = re.compile(r"\['?([^'\]]+)'?\]|\.(\w+)")
#: A path that begins with a key or a field, and has nothing else.
_NAMED_PATH: Final = re.compile(r"result(\['[^'\]]+'\]|\.\w+)(\['[^'\]]+'\]|\[\d+\]|\.\w+)*")


def names(
    closed_jaxpr: Any,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    input_params: Mapping[str, Any],
) -> tuple[list[str], list[str]]:
    """The names of all inputs and outputs, as they were asked for; one name is one value."""
    try:
        debug = closed_jaxpr.jaxpr.debug_info
        counts = len(closed_jaxpr.in_avals), len(closed_jaxpr.out_avals)
        known, paths = debug.arg_names or (), debug.result_paths or ()
    except AttributeError as error:
        raise InternalError(
            f"the jaxpr cannot be read: {error}\n\nthis is a bug of jax2onnx: please report it"
        ) from error
    # JAX has keyword arguments behind the others, sorted.
    by_keyword = sorted(input_params)
    positional = counts[0] - len(by_keyword)
    inputs = _given(input_names, "input", positional)
    if inputs is None:
        inputs = [known[i] if i < len(known) and known[i] else f"in_{i}" for i in range(positional)]
    inputs += by_keyword
    for name in input_names or ():
        if name in input_params:
            raise ConfigError(f"`input_names` has {name}, which is a name of `input_params`")
    outputs = _given(output_names, "output", counts[1])
    for name in outputs or ():
        if name in inputs:
            raise ConfigError(f"`output_names` has {name}, which is the name of an input")
    return inputs, outputs or _of_results(paths, counts[1], taken=inputs)


def _of_results(paths: Sequence[str], count: int, taken: Sequence[str]) -> list[str]:
    """Names by the keys and fields that lead to a result; `out_0` where there are none."""
    names: list[str] = []
    for place in range(count):
        path = paths[place] if place < len(paths) else ""
        name = ".".join(key or field for key, field in _STEP.findall(path))
        is_named = _NAMED_PATH.fullmatch(path) is not None and name not in (*taken, *names)
        names.append(name if is_named else f"out_{place}")
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
