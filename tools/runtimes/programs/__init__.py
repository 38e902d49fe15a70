"""Programs of typical JAX code, which every runtime should run.

They are small: each one is about the operators that a kind of code needs, not about speed.
"""

from . import arrays, loops, networks, numbers, spellings, variety
from .program import PROGRAMS, Program

__all__ = ["PROGRAMS", "Program", "arrays", "loops", "networks", "numbers", "spellings", "variety"]
