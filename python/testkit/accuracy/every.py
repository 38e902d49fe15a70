"""Every sample there is."""

from __future__ import annotations

from . import (
    SAMPLES,
    bodies,
    extensions,
    fusions,
    jax_forms,
    libraries,
    library_transforms,
    plain,
    python_forms,
    transforms,
)

MODULES = (
    *(plain, python_forms, jax_forms, transforms, bodies),
    *(libraries, library_transforms, extensions, fusions),
)

__all__ = ["MODULES", "SAMPLES"]
