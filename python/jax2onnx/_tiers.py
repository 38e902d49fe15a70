"""Decide whose code a file is, by its folder."""

import contextlib
import functools
import itertools
import os
import site
import sys
import sysconfig
from collections.abc import Sequence
from types import TracebackType
from typing import Final, TypedDict

PACKAGE: Final = os.path.dirname(os.path.abspath(__file__))
"""The folder of this package."""


class TierRules(TypedDict):
    """Files and folders by tier; the rules that the user added come first."""

    added_user: Sequence[str]
    added_library: Sequence[str]
    internal: Sequence[str]
    library: Sequence[str]
    frozen_library: Sequence[str]


def rules(
    jax_folders: Sequence[str],
    user_code: Sequence[str] = (),
    library_code: Sequence[str] = (),
    definition: tuple[str, int, str] | None = None,
) -> TierRules:
    """Return the tiers of the folders of this interpreter.

    If an installed package defines the exported function (`definition`), the package counts as the
    user's code.
    """
    internal = [*jax_folders, PACKAGE]
    own = installed_package(definition[0]) if definition else None
    if own is not None and own not in (*internal, *library_code):
        user_code = [*user_code, own]
    return TierRules(
        added_user=user_code,
        added_library=library_code,
        internal=internal,
        library=_library_folders(),
        frozen_library=sorted(sys.stdlib_module_names),
    )


def is_own(file: str) -> bool:
    """Return whether a file belongs to this package."""
    return os.path.abspath(file).startswith(PACKAGE + os.sep)


def shown_path(file: str) -> str:
    """Return a path as messages show it: relative if it is below the current directory."""
    if not os.path.isabs(file):
        return file
    path = os.path.relpath(file)
    return file if path.startswith("..") else path


def without_own_frames(
    traceback: TracebackType | None, *, keeps_one: bool = True
) -> TracebackType | None:
    """Drop the frames of this package, and those that Python adds to them, from a traceback.

    With `keeps_one`, nothing is dropped if nothing would be left.
    """
    kept = []
    each = traceback
    while each is not None:
        file = each.tb_frame.f_code.co_filename
        if not is_own(file) and "importlib" not in file and file != contextlib.__file__:
            kept.append(each)
        each = each.tb_next
    for outer, inner in itertools.pairwise(kept):
        outer.tb_next = inner
    if not kept:
        return traceback if keeps_one else None
    kept[-1].tb_next = None
    return kept[0]


def installed_package(file: str) -> str | None:
    """Return the folder, or the file, of the installed package that contains a file."""
    parts = file.split(os.sep)
    places = [i for i, part in enumerate(parts) if part in ("site-packages", "dist-packages")]
    return os.sep.join(parts[: places[-1] + 2]) if places else None


def is_installed(file: str) -> bool:
    """Return whether a file, as a model names it, belongs to an installed package.

    A package that defines the exported function counts as the user's code all the same.
    """
    if installed_package(file) is not None:
        return True
    folder, name = os.path.split(file)
    if not folder or os.path.isabs(file) or os.path.exists(file):
        return False
    return any(os.path.isfile(os.path.join(each, folder, name)) for each in _library_folders())


@functools.cache
def _library_folders() -> Sequence[str]:
    schemes = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [sysconfig.get_path(scheme) for scheme in schemes]
    folders += site.getsitepackages()
    folders.append(site.getusersitepackages())
    return sorted({folder for folder in folders if folder})
