"""Read the inputs of a model that a command is given."""

import os
from collections.abc import Sequence
from typing import Any

from .. import _core, _files
from .._errors import ConfigError, InputSpecError
from .._words import quoted


def arrays_of(inputs: Sequence[str], read: list[_files.Named]) -> Any:
    """Read the inputs: by name if each has one, otherwise in order. Adds their files to `read`."""
    found: list[tuple[str | None, Any]] = []
    for text in inputs:
        found += _read(text, read)
    names = [name for name, _ in found]
    if all(name is not None for name in names) and names:
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"the input {quoted(name)} appears more than once")
        return dict(found)
    if any(name is not None for name in names):
        raise ConfigError("give either all inputs a name, as in x=x.npy, or none")
    return [array for _, array in found]


def _read(text: str, read: list[_files.Named]) -> list[tuple[str | None, Any]]:
    """Read an input: `[NAME=]FILE.npy`, `FILE.npz`, or `[NAME=]TYPE[SIZE,…]` for random numbers."""
    name, equals, path = text.partition("=")
    known, path = (name, path) if equals else (None, text)
    if not path.endswith((".npy", ".npz")) and "[" in path:
        return [_random(text)]
    if not os.path.isfile(path):
        raise InputSpecError(
            f"there is no file {quoted(path)}: an input is [NAME=]FILE.npy, FILE.npz or "
            "[NAME=]TYPE[SIZE,…]"
        )
    read.append((f"the input {quoted(path)}", path))
    from .._comparing.recordings import load

    loaded = load(path)
    if not isinstance(loaded, dict):
        return [(known, loaded)]
    if known is not None:
        raise InputSpecError(f"{quoted(path)} contains names: remove {quoted(f'{known}=')}")
    return [*loaded.items()]


def _random(text: str) -> tuple[str | None, Any]:
    """Return random numbers, the same in every run."""
    import numpy as np

    try:
        name, (dtype, shape) = _core.read_input(text)
    except ValueError as error:
        raise InputSpecError(f"{quoted(text)} is not an input: {error}") from None
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) != len(shape):
        raise InputSpecError(
            f"{quoted(text)} has a named size: use numbers as sizes of random inputs"
        )
    import ml_dtypes

    kind: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype, dtype))
    random = np.random.default_rng(0)
    if kind.kind == "b":
        return name, random.random(sizes) < 0.5
    if kind.kind in "iu":
        return name, random.integers(0, 4, sizes).astype(kind)
    return name, random.standard_normal(sizes).astype(kind)
