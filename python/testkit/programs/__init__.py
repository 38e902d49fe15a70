"""Random small programs: idioms and near misses, special values, and sizes known later."""

from .check import JaxError, difference, fails_like
from .draw import draw_program
from .program import Program
from .shrink import shrink

__all__ = ["JaxError", "Program", "difference", "draw_program", "fails_like", "shrink"]
