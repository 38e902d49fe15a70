"""Read arrays that somebody recorded: one per file, or several in one file."""

import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

import numpy as np

from .._errors import InputSpecError
from .._types import StrPath
from .._words import quoted
from .arrays import Array

#: What NumPy raises for a file that is broken.
_UNREADABLE: Final = (
    ValueError,
    OSError,
    EOFError,
    MemoryError,
    SyntaxError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


def load(path: str) -> "Array | dict[str, Array]":
    """Read an `.npy` or `.npz` file.

    Raises:
        InputSpecError: It is not a file of arrays.
    """
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return dict(loaded.items())
    except _UNREADABLE as error:
        # NumPy takes any other file for a pickle.
        why = "" if "pickle" in str(error) else f": {error}"
        raise InputSpecError(
            f"{quoted(path)} is not a file of NumPy arrays without objects{why}"
        ) from error


def files(path: StrPath) -> list[str]:
    """Return the files of a recording: the file itself, or all `.npy` files in a folder.

    Raises:
        InputSpecError: There is no recording.
    """
    place = os.fspath(path)
    if os.path.isfile(place):
        return [place]
    if not os.path.isdir(place):
        raise InputSpecError(f"there is no recording at {quoted(place)}")
    found = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(place)
        for name in names
        if name.endswith(".npy")
    ]
    if not found:
        raise InputSpecError(f"the folder {quoted(place)} contains no .npy files")
    return sorted(found)


def recorded(source: "StrPath | Mapping[str, Any]") -> dict[str, Array]:
    """Read a recording: a folder of `.npy` files, an `.npz` file, or arrays by name.

    The name of an array is the path of its file in the folder, without the ending. It may be
    written as in a URL: `%2F` is a slash.

    Raises:
        InputSpecError: The recording cannot be read, or contains a name twice.
    """
    if isinstance(source, Mapping):
        return {str(name): np.asarray(array) for name, array in source.items()}
    found: dict[str, Array] = {}
    for name, array in _entries(os.fspath(source)):
        if name in found:
            raise InputSpecError(f"the recording contains {quoted(name)} twice")
        found[name] = array
    return found


def _entries(place: str) -> Iterator[tuple[str, Array]]:
    for path in files(place):
        loaded = load(path)
        if isinstance(loaded, dict):
            yield from loaded.items()
        elif os.path.isdir(place):
            relative = os.path.relpath(path, place).replace(os.sep, "/")
            yield unquote(relative.removesuffix(".npy")), loaded
        else:
            raise InputSpecError(
                f"{quoted(place)} contains one array without a name: pass a folder of .npy files, "
                "or an .npz file"
            )
