"""Random small programs over the primitives of the table."""

from .draw import draw_program
from .program import Program, Step
from .shrink import shrink

__all__ = ["Program", "Step", "draw_program", "shrink"]
