"""The types that values are rounded to, and how to round."""

from collections.abc import Iterable
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
    """

    name: str
    code: int
    dtype: np.dtype[Any]
    largest: float = np.inf
    limit: float = np.inf
    normal: float = 0.0
    smallest: float = 0.0
    epsilon: float = 0.0

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
        Format("int4", onnx.TensorProto.INT4, np.dtype(np.int8)),
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


def quantized_weight(array: Array, axis: int | None, most: int = 127) -> tuple[Array, Array]:
    """Return a weight as whole numbers, and its scales: one per channel, or one.

    Args:
        array: The weight.
        axis: The axis of the channels; None if all elements share a scale.
        most: The largest whole number.
    """
    wide = array.astype(np.float32)
    others = tuple(i for i in range(wide.ndim) if axis is not None and i != axis % wide.ndim)
    size = np.abs(wide).max(axis=others if axis is not None else None, initial=0.0)
    scale = np.asarray(np.where(size > 0, size, 1.0) / most, np.float32)
    spread = scale if axis is None else np.expand_dims(scale, others)
    return np.clip(np.rint(wide / spread), -most, most).astype(np.int8), scale


def quantized_blocks(array: Array, axis: int, bits: int) -> tuple[Array, Array]:
    """Return a weight in few bits, as int8, and its scales: one per block along an axis.

    Args:
        array: The weight.
        axis: The axis of the blocks.
        bits: 4 or 8.
    """
    wide = np.moveaxis(array.astype(np.float32), axis, -1)
    size = wide.shape[-1]
    most = (1 << (bits - 1)) - 1
    count = -(-size // BLOCK)
    padded = np.zeros((*wide.shape[:-1], count * BLOCK), np.float32)
    padded[..., :size] = wide
    blocks = padded.reshape(*wide.shape[:-1], count, BLOCK)
    place = np.abs(blocks).argmax(-1)[..., None]
    furthest = np.take_along_axis(blocks, place, -1)[..., 0]
    # The range reaches one further below zero, so the largest element of a block goes there.
    scale = np.where(furthest == 0, 1.0, furthest / -(most + 1)).astype(np.float32)
    whole = np.clip(np.rint(blocks / scale[..., None]), -most - 1, most).astype(np.int8)
    values = whole.reshape(padded.shape)[..., :size]
    return np.moveaxis(values, -1, axis), np.moveaxis(scale, -1, axis)


@dataclass(frozen=True)
class Stored:
    """A weight in few bits.

    Attributes:
        values: The whole numbers, as int8.
        scales: The scales.
        axis: The axis of the channels or of the blocks; None if all elements share a scale.
        is_blocked: Whether there is one scale per block along the axis.
    """

    values: Array
    scales: Array
    axis: int | None
    is_blocked: bool = False

    def array(self) -> Array:
        """Return the numbers that are stored."""
        if self.is_blocked and self.axis is not None:
            return from_blocks(self.values, self.scales, self.axis)
        spread = self.scales
        if self.axis is not None:
            others = tuple(i for i in range(self.values.ndim) if i != self.axis)
            spread = np.expand_dims(spread, others)
        return np.asarray(self.values.astype(np.float32) * spread, np.float32)


def stored(array: Array, axis: int | None, kind: Format) -> Stored:
    """Return a weight in 8 or 4 bits.

    Args:
        array: The weight.
        axis: The axis of its channels; None if it has none.
        kind: `int8` or `int4`.
    """
    known = None if axis is None else axis % array.ndim
    if kind.name == "int4" and array.ndim == 2 and known is not None:
        along = 1 - known
        return Stored(*quantized_blocks(array, along, 4), along, is_blocked=True)
    values, scales = quantized_weight(array, known, 7 if kind.name == "int4" else 127)
    return Stored(values, scales, known)


def from_blocks(values: Array, scales: Array, axis: int) -> Array:
    """Return the numbers that `quantized_blocks` stores."""
    size = values.shape[axis]
    spread = np.repeat(scales, BLOCK, axis=axis)
    taken = np.take(spread, np.arange(size), axis=axis)
    return np.asarray(values.astype(np.float32) * taken, np.float32)
