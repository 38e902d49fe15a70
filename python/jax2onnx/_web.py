"""Check what onnxruntime-web needs: one file, and tensors that JavaScript supports."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ._errors import UnsupportedError, WriteError
from ._words import quoted

#: The tensor types of its interface. Complex numbers and random keys become some of them.
#: https://onnxruntime.ai/docs/api/js/interfaces/Tensor.DataTypeMap.html
_TYPES: Final = frozenset(
    [
        *("bool", "float16", "float32", "float64", "complex64", "complex128"),
        *("int4", "int8", "int16", "int32", "int64"),
        *("uint4", "uint8", "uint16", "uint32", "uint64"),
    ]
)


def check_types(closed_jaxpr: Any, input_names: Sequence[str], output_names: Sequence[str]) -> None:
    """Refuse inputs and outputs that a browser cannot create or read."""
    ends = (
        ("input", closed_jaxpr.in_avals, input_names),
        ("output", closed_jaxpr.out_avals, output_names),
    )
    for what, avals, names in ends:
        for place, aval in enumerate(avals):
            kind = str(aval.dtype)
            if kind not in _TYPES and not kind.startswith("key<"):
                raise UnsupportedError(
                    f"{what} {quoted(names[place])} is {kind}, which onnxruntime-web does not "
                    "support: cast it to float32 in the function"
                )


@contextmanager
def explaining_size_limit() -> Iterator[None]:
    """Explain what to do if a model is too large for one file."""
    try:
        yield
    except WriteError as error:
        if error.errno is not None:
            raise
        raise WriteError(
            "the model is larger than 2 GiB, and `export_mode='web'` writes one file: use "
            "`export_mode='standard'`, and pass the data file to onnxruntime-web as external data"
        ) from error
