"""All forms: control flow, attributes and shapes that some runtimes refuse or compute wrongly."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from .abilities import Ability, ability, branches, loops, scans, simple, structures

#: Forms of one line.
LINES: Final = (Path(__file__).resolve().parent / "forms.txt").read_text()


def weight(name: str, *shape: int) -> str:
    """Returns a constant of small numbers, for operators whose weights have to be constant."""
    numbers = ", ".join(f"{(i * 37 % 19 - 9) / 16}" for i in range(math.prod(shape)))
    return f"float[{', '.join(map(str, shape))}] {name} = {{{numbers}}}"


#: Ties, and numbers that a form needs.
CHOSEN = [
    ability("TopKTies", "float[2,6] x", "float y, int64 i", "y, i = TopK(x, k)",
            "int64[1] k = {4}", given=([[1, 3, 3, 1, 3, 2], [0, 0, 0, 0, 0, 0]],)),
    ability("TopKSmallestTies", "float[2,6] x", "float y, int64 i",
            "y, i = TopK <largest = 0> (x, k)", "int64[1] k = {4}",
            given=([[1, 3, 3, 1, 3, 1], [0, 0, 0, 0, 0, 0]],)),
    ability("TopKManyTies", "float[1,120] x", "float y, int64 i", "y, i = TopK(x, k)",
            "int64[1] k = {120}", given=([[(i * 7) % 5 for i in range(120)]],)),
    ability("TopKSomeOfManyTies", "float[1,120] x", "float y, int64 i", "y, i = TopK(x, k)",
            "int64[1] k = {30}", given=([[(i * 7) % 5 for i in range(120)]],)),
    ability("TopKManyTiesOfIntegers", "int32[1,120] x", "int32 y, int64 i",
            "y, i = TopK <largest = 0> (x, k)", "int64[1] k = {120}",
            given=([[(i * 7) % 5 for i in range(120)]],)),
    ability("ArgMaxTies", "float[2,6] x", "int64 y", "y = ArgMax <axis = 1, keepdims = 0> (x)",
            given=([[1, 3, 3, 1, 3, 2], [0, 0, 0, 0, 0, 0]],)),
    ability("ArgMaxSelectLast", "float[2,6] x", "int64 y",
            "y = ArgMax <axis = 1, keepdims = 0, select_last_index = 1> (x)",
            given=([[1, 3, 3, 1, 3, 2], [0, 0, 0, 0, 0, 0]],)),
    ability("ArgMinTies", "float[2,6] x", "int64 y", "y = ArgMin <axis = 1, keepdims = 0> (x)",
            given=([[1, 3, 3, 1, 3, 1], [0, 0, 0, 0, 0, 0]],)),
    ability("LstmSharedInput", "float[6,2,3] x", "float y, float z",
            "y = LSTM <hidden_size = 5> (x, w, r) z = GRU <hidden_size = 4> (x, v, s)",
            ", ".join([weight("w", 1, 20, 3), weight("r", 1, 20, 5), weight("v", 1, 12, 3),
                       weight("s", 1, 12, 4)]),
            given=([(i * 7 % 11 - 5) / 4 for i in range(36)],)),
    ability("ArgMaxManyTies", "float[1,120] x", "int64 y", "y = ArgMax <axis = 1> (x)",
            given=([[(i * 7) % 5 for i in range(120)]],)),
]  # fmt: skip
NEEDS = {
    "LstmLengths": (None,) * 4 + ([3, 1],), "GruLengths": (None,) * 4 + ([3, 1],),
    "MulItselfShort": ([70000, -3, 5],), "CastToShort": ([70000, -3, 40000, 5],),
    "SmallSigned": ([0, 1, 2, -1, 1, 5, 7, 1, -8],),
    "OneHotAxis": ([0, 2, 1],), "OneHotOutOfRange": ([7, 0, 2],), "OneHotNegative": ([-1, 0, 2],),
    "BroadcastClip": (None, -2, 3),
    "AttentionInfiniteMask": (None, None, None, [0, float("-inf"), 0, 0, 0, float("-inf")]),
    "RangeFloats": (1,), "DynamicReshape": (None, [6, 2]),
    "DynamicSlice": (None, [1], [3]), "DynamicGather": (None, [3, 0]), "DynamicTopK": (None, [3]),
    "DynamicPad": (None, [1, 0, 0, 2]), "ReduceDynamicAxes": (None, [1]),
    "WhereOfIsNaN": ([1, float("nan"), -2, 3, 0, float("nan"), 4, 5, 6, -7, 8, 9],),
    "ClipDynamic": (None, -1, 2), "TopKSmallest": ([5, 1, 4, 2, 3, -1, 9, 7, 8, -3],),
    "BitShiftLeft": (range(12),), "BitShiftLeftBytes": ([200, 3, 255, 129], [1, 7, 4, 0]),
    "CastFloatToByte": ([0, 1, 127, 128, 200, 255, 3.75],),
    "TopKTwice": (
        [(i * 37) % 101 - 50 for i in range(21)], [(i * 53) % 103 - 50 for i in range(21)],
    ),
    "PowComputed": ([-1.5, 2, 0, -3, 1, 4, -2, 0.5, 3, -1, 2, 5], [2, 3, 1, 0, 2, 0.5] * 2),
}  # fmt: skip


def abilities() -> list[Ability]:
    """Returns all forms."""
    lines = simple(LINES, NEEDS)
    return [*scans(), *loops(), *branches(), *structures(), *lines, *CHOSEN]
