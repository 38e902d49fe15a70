"""Hints for code in Python that needs the value of a traced array: conditions and builtins."""

import re
import types
from typing import Final

from .. import _cells

#: What to use instead of functions of Python that compare the elements of a traced array.
_BUILTINS: Final = {
    "max": "jnp.max(x) or jnp.maximum(a, b)",
    "min": "jnp.min(x) or jnp.minimum(a, b)",
    "any": "jnp.any(x)",
    "all": "jnp.all(x)",
    "sorted": "jnp.sort(x)",
    "bool": "x != 0",
}
_CALL: Final = re.compile(rf"(?<![\w.])({'|'.join(_BUILTINS)})\(")
_STATEMENT: Final = re.compile(r"\s*(assert|while|if|elif)\b")
_OPERATOR: Final = re.compile(r"\b(not|and|or)\b")
_CHOICE: Final = re.compile(r"\bif\b.*\belse\b")

_OF_STATEMENT: Final = {
    "if": "instead of `if`, use jnp.where or jax.lax.cond",
    "while": "instead of `while`, use jax.lax.while_loop",
    "assert": "leave out the assertion, which needs a value, or use equinox.error_if, "
    "which the model leaves out",
}
_OF_OPERATOR: Final = {
    "not": "instead of `not`, use ~ or jnp.logical_not",
    "and": "instead of `and`, use & or jnp.logical_and",
    "or": "instead of `or`, use | or jnp.logical_or",
}
_OTHERS: Final = "instead of `if` and `while`, use jnp.where, jax.lax.cond or jax.lax.while_loop"


def advice(code: types.CodeType, instruction: int, number: int, names: dict[str, object]) -> str:
    """Return what to write instead of the code that asked a traced array for its truth.

    Args:
        code: The code of the user's function.
        instruction: The instruction that asked.
        number: The number of its line.
        names: The globals of the function.
    """
    text = _cells.source_line(code, number, names)
    part = _part(code, instruction, number, text)
    statement = _STATEMENT.match(text)
    word = statement[1].removeprefix("el") if statement else ""
    if not word and _CHOICE.search(text):
        word = "if"
    parts = []
    called = _CALL.match(part) or (None if part else _CALL.search(text))
    operator = _OPERATOR.search(part or text)
    if called and called[1] not in names:
        parts.append(f"instead of {called[1]}(...), use {_BUILTINS[called[1]]}")
    elif operator and word != "assert":
        parts.append(_OF_OPERATOR[operator[1]])
    if word:
        parts.append(_OF_STATEMENT[word])
    return ", and ".join(parts) if parts else _OTHERS


def _part(code: types.CodeType, instruction: int, number: int, text: str) -> str:
    """Return the expression of an instruction, if it is on one line; otherwise an empty text."""
    positions = list(code.co_positions())
    if not 0 <= instruction // 2 < len(positions):
        return ""
    line, end_line, start, end = positions[instruction // 2]
    if line != number or end_line != number or start is None or end is None:
        return ""
    return text.encode()[start:end].decode(errors="replace")
