"""Lines to which a runtime objects where they are not the line that is marked.

A runtime may refuse a model before it comes to the planted failure: because it has no functions, or
because it does not know an operator that the failure needs. Each entry was checked by hand: it is a
part of the line that the named node comes from. No part means that the message names nothing.
"""

from __future__ import annotations

#: The parts of the lines, by runtime and failure.
OBJECTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "openvino": {
        # Its `Scan` takes no values from outside.
        "in_a_fori_loop": ("return lax.fori_loop(",),
        "in_a_branch_of_a_scan": ("return lax.scan(step, x, flags)",),
        "recurrent_network": ("return lax.scan(cell, (start",),
        # It has no functions.
        "in_a_function": ("first = gate(x, y)", "return gate(first, z)"),
        "in_a_nested_function": ("return jnp.tanh(outer(x, y))",),
        "in_a_loop_of_a_function": ("return smooth(jnp.abs(x)",),
        "operator_of_nobody_in_a_function": ("return halve(layer(x))",),
        # It names the value that is missing.
        "value_that_is_made_twice": ("return first * second",),
        # It compares the types of the body where they are used.
        "inference_of_a_sum_in_a_loop": ("return carry * row, carry",),
    },
}
