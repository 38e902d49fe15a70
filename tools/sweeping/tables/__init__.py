"""The explicit sets of arguments, by the full name of the function."""

from __future__ import annotations

from sweeping.sets import ArgumentSet

from . import lax, linalg, numpy_arrays, numpy_numbers, scipy

TABLE: dict[str, list[ArgumentSet]] = (
    numpy_arrays.TABLE | numpy_numbers.TABLE | linalg.TABLE | lax.TABLE | scipy.TABLE
)
#: Tolerances of functions whose sets are guessed.
TOLERANCES: dict[str, tuple[float, ...]] = {
    # A difference of two `lgamma`, each of about 20.
    "jax.scipy.stats.t.logpdf": (1e-5, 1e-5),
    "jax.scipy.stats.t.pdf": (1e-5, 1e-5),
}
