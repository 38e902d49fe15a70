"""Whose code a file is: the rules, as folders."""

import functools
import os
import site
import sys
import sysconfig
from collections.abc import Sequence
from typing import TypedDict


class TierRules(TypedDict):
    """Files and folders by whose they are; what the user added is asked first."""

    added_user: Sequence[str]
    added_library: Sequence[str]
    internal: Sequence[str]
    library: Sequence[str]
    frozen_library: Sequence[str]


def rules(
    jax_folders: Sequence[str],
    user_code: Sequence[str] = (),
    library_code: Sequence[str] = (),
) -> TierRules:
    """Sort the folders of this interpreter."""
    return TierRules(
        added_user=user_code,
        added_library=library_code,
        internal=[*jax_folders, os.path.dirname(os.path.abspath(__file__))],
        library=_library_folders(),
        frozen_library=sorted(sys.stdlib_module_names),
    )


@functools.cache
def _library_folders() -> Sequence[str]:
    schemes = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [sysconfig.get_path(scheme) for scheme in schemes]
    folders += site.getsitepackages()
    folders.append(site.getusersitepackages())
    return sorted({folder for folder in folders if folder})
