"""Random small programs: idioms and near misses, special values, and sizes known later."""

from .check import Difference, difference
from .draw import draw_program
from .program import Program, Step
from .shrink import shrink

__all__ = ["Difference", "Program", "Step", "difference", "draw_program", "shrink"]
