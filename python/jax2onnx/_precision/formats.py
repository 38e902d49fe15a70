"""The types that values are rounded to, and how to round."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx

from .._comparing.arrays import Array
from .._comparing.judging import float_info
from .._errors import ConfigError
from .._words import did_you_mean, quoted

#: The types that are longer than all others here, and are rounded.
LONG: Final = (np.dtype(np.float32), np.dtype(np.float64))
#: How many weights share a scale if they have four bits.
BLOCK: Final = 32
#: With few steps, a smaller scale that clips the largest weight may lose less.
_FACTORS: Final = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)


@dataclass(frozen=True)
class Format:
    """A type with fewer digits or a smaller range than float32.

    Attributes:
        name: The name as users write it.
        code: The code of the type in ONNX.
        largest: The largest finite number.
        limit: From this number on, a number becomes infinite.
        normal: The smallest number with all digits.
        smallest: The smallest number greater than 0.
        epsilon: The distance from 1 to the next number.
        is_blocked: Whether elements of a weight share a scale in small blocks.
    """

    name: str
    code: int
    dtype: np.dtype[Any]
    largest: float = np.inf
    limit: float = np.inf
    normal: float = 0.0
    smallest: float = 0.0
    epsilon: float = 0.0
    is_blocked: bool = False

    @property
    def is_float(self) -> bool:
        """True for a floating-point type."""
        return self.epsilon > 0

    def rounded(self, array: Array) -> Array:
        """Return the nearest numbers of this type, in the type of the array."""
        with np.errstate(all="ignore"):
            if self.is_float:
                return array.astype(self.dtype).astype(array.dtype)
            return quantized_activation(array)[0]


def _float(name: str, code: int, dtype: Any) -> Format:
    info = float_info(dtype)
    largest, epsilon = float(info.max), float(info.eps)
    half_a_step = largest / (2 - epsilon) * epsilon / 2
    return Format(
        name,
        code,
        np.dtype(dtype),
        largest,
        largest + half_a_step,
        float(info.smallest_normal),
        float(info.smallest_subnormal),
        epsilon,
    )


FORMATS: Final = {
    each.name: each
    for each in (
        _float("float16", onnx.TensorProto.FLOAT16, np.float16),
        _float("bfloat16", onnx.TensorProto.BFLOAT16, ml_dtypes.bfloat16),
        Format("int8", onnx.TensorProto.INT8, np.dtype(np.int8)),
        Format("int4", onnx.TensorProto.INT4, np.dtype(np.int8), is_blocked=True),
    )
}


def format_of(name: Any, known: Iterable[str] = FORMATS) -> Format:
    """Return the type of a name.

    Raises:
        ConfigError: There is no such type.
    """
    names = list(known)
    if not isinstance(name, str) or name not in names:
        hint = did_you_mean(str(name), names, ": ") or f": use {', '.join(names)}"
        raise ConfigError(f"{quoted(name)} is not a type that values can be rounded to{hint}")
    return FORMATS[name]


def scale_of(low: float, high: float) -> tuple[float, int]:
    """Return the scale and the zero point that map a range to the integers from 0 to 255."""
    low, high = min(low, 0.0), max(high, 0.0)
    if not np.isfinite(low) or not np.isfinite(high) or high - low < 1e-30:
        return 1.0, 0
    scale = float(np.float32((high - low) / 255))
    return scale, round(-low / scale)


def quantized_activation(array: Array) -> tuple[Array, float, int]:
    """Return an array as 8 bits hold it, with the scale and the zero point."""
    finite = array[np.isfinite(array)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    scale, zero = scale_of(low, high)
    with np.errstate(all="ignore"):
        whole = np.clip(np.rint(array / scale) + zero, 0, 255)
    return ((whole - zero) * scale).astype(array.dtype), scale, zero


def _whole(blocks: Array, lowest: int, most: int, factors: Iterable[float]) -> tuple[Array, Array]:
    """Return numbers along the last axis as whole numbers, and one scale for each row of them.

    Args:
        blocks: The numbers, as float32.
        lowest: The smallest whole number.
        most: The largest whole number.
        factors: What the scale of the whole range is multiplied by; the one that loses least is
            taken for each row.
    """
    place = np.abs(blocks).argmax(-1)[..., None]
    furthest = np.take_along_axis(blocks, place, -1)[..., 0]
    # If the range reaches one further below zero, the largest element goes there.
    limits = [np.abs(furthest) / most]
    if lowest < -most:
        limits.insert(0, furthest / lowest)
    found: tuple[Array, Array] | None = None
    least: Any = None
    for limit in limits:
        for factor in factors:
            scale = np.where(furthest == 0, 1.0, limit * factor).astype(np.float32)
            whole = np.clip(np.rint(blocks / scale[..., None]), lowest, most)
            lost = np.square(whole * scale[..., None] - blocks).sum(-1)
            if found is None:
                found, least = (whole.astype(np.int8), scale), lost
                continue
            is_better = lost < least
            least = np.where(is_better, lost, least)
            found = (
                np.where(is_better[..., None], whole, found[0]).astype(np.int8),
                np.where(is_better, scale, found[1]),
            )
    return found if found is not None else (blocks.astype(np.int8), furthest)


@dataclass(frozen=True)
class Stored:
    """A weight in few bits.

    Attributes:
        values: The whole numbers, as int8.
        scales: The scales.
        axis: The axis of the channels or of the blocks; None if all elements share a scale.
        block: How many elements along the axis share a scale; None if the axis has channels.
    """

    values: Array
    scales: Array
    axis: int | None
    block: int | None = None

    def array(self) -> Array:
        """Return the numbers that are stored."""
        spread = self.scales
        if self.block is not None and self.axis is not None:
            taken = np.arange(self.values.shape[self.axis]) // self.block
            spread = np.take(spread, taken, axis=self.axis)
        elif self.axis is not None:
            others = tuple(i for i in range(self.values.ndim) if i != self.axis)
            spread = np.expand_dims(spread, others)
        return np.asarray(self.values.astype(np.float32) * spread, np.float32)


def bytes_of(shape: Sequence[int], axis: int, kind: Format, *, has_blocks: bool) -> int:
    """Return the bytes of a weight in 8 or 4 bits, with its scales."""
    known = tuple(shape)
    along = _blocks_along(known, axis, kind) if has_blocks else None
    size = math.prod(known)
    if along is None:
        scales = known[axis]
    else:
        scales = size // known[along] * (-(-known[along] // BLOCK) if kind.is_blocked else 1)
    return -(-size * (4 if kind.name == "int4" else 8) // 8) + 4 * scales


def stored(array: Array, axis: int | None, kind: Format, *, has_blocks: bool = True) -> Stored:
    """Return a weight in 8 or 4 bits.

    Args:
        array: The weight.
        axis: The axis of its channels; None if it has none.
        kind: `int8` or `int4`.
        has_blocks: Whether the opset has scales of blocks.
    """
    wide: Any = np.asarray(array, np.float32)
    known = None if axis is None else axis % wide.ndim
    is_short = kind.name == "int4"
    lowest, most = (-8, 7) if is_short else (-127, 127)
    factors = _FACTORS if is_short else (1.0,)
    along = _blocks_along(wide.shape, known, kind) if has_blocks else None
    if along is None:
        rows = wide.reshape(1, -1) if known is None else np.moveaxis(wide, known, 0)
        flat = rows.reshape(rows.shape[0], -1)
        values, scales = _whole(flat, -most, most, factors)
        values = values.reshape(rows.shape) if known is not None else values.reshape(wide.shape)
        if known is None:
            return Stored(values, np.asarray(scales[0]), None)
        return Stored(np.moveaxis(values, 0, known), scales, known)
    size = wide.shape[along]
    block = min(BLOCK, size) if kind.is_blocked else size
    moved = np.moveaxis(wide, along, -1)
    count = -(-size // block)
    padded = np.zeros((*moved.shape[:-1], count * block), np.float32)
    padded[..., :size] = moved
    blocks = padded.reshape(*moved.shape[:-1], count, block)
    values, scales = _whole(blocks, lowest, most, factors)
    values = values.reshape(padded.shape)[..., :size]
    return Stored(np.moveaxis(values, -1, along), np.moveaxis(scales, -1, along), along, block)


def rounded_weight(
    array: Array, axis: int | None, kind: Format, *, has_blocks: bool = True
) -> Array:
    """Return the numbers of a weight that a type can hold, in the type of the weight."""
    if kind.is_float:
        return kind.rounded(np.asarray(array))
    return stored(array, axis, kind, has_blocks=has_blocks).array().astype(array.dtype)


def _blocks_along(shape: tuple[int, ...], axis: int | None, kind: Format) -> int | None:
    """Return the axis along which elements share a scale in blocks; None if channels have scales.

    A stack of matrices has one scale per matrix and channel.
    """
    rank = len(shape)
    if axis is None or rank < 2 or 0 in shape:
        return None
    if rank > 3:
        # The weight of a convolution.
        return 1 - axis if kind.is_blocked and axis < 2 and shape[1 - axis] >= BLOCK // 2 else None
    if rank == 3 and axis == 0:
        return 1 if kind.is_blocked and shape[1] >= BLOCK // 2 else None
    along = rank - 2 if axis == rank - 1 else rank - 1
    return along if kind.is_blocked or rank == 3 else None
