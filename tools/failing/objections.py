"""Lines to which a runtime objects where they are not the line that is marked.

A runtime may refuse a model before it comes to the planted failure: because it has no functions, or
because it does not know an operator that the failure needs. Each entry was checked by hand: it is a
part of the line that the named node comes from. No part means that the message names nothing.
"""

from __future__ import annotations

#: The lines that call a function, for runtimes without functions.
_CALLS = {
    "in_a_function": ("first = gate(x, y)", "return gate(first, z)"),
    "in_a_nested_function": ("return jnp.tanh(outer(x, y))",),
    "in_a_loop_of_a_function": ("return smooth(jnp.abs(x)",),
    "operator_of_nobody_in_a_function": ("return halve(layer(x))",),
}
#: The lines of loops, for runtimes without `Scan`.
_SCANS = {
    "in_a_scan": ("last, sums = lax.scan(",),
    "index_in_a_scan": ("return lax.scan(step, jnp.zeros((2,)), order)",),
    "in_a_fori_loop": ("return lax.fori_loop(",),
    "in_a_branch_of_a_scan": ("return lax.scan(step, x, flags)",),
    "recurrent_network": ("return lax.scan(cell, (start",),
    "inference_of_a_sum_in_a_loop": ("return lax.scan(step, x, rows)",),
    "no_kernel_in_a_body": ("return lax.scan(step, x[0], x)",),
}

#: The parts of the lines, by runtime and failure.
OBJECTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "openvino": {
        **_CALLS,
        # Its `Scan` takes no values from outside.
        **{key: _SCANS[key] for key in ("in_a_fori_loop", "in_a_branch_of_a_scan")},
        "recurrent_network": _SCANS["recurrent_network"],
        # It names the value that is missing.
        "value_that_is_made_twice": ("return first * second",),
        # It compares the types of the body where they are used.
        "inference_of_a_sum_in_a_loop": ("return carry * row, carry",),
    },
    "mnn": {
        **_CALLS,
        **_SCANS,
        # It has no `IsNaN`.
        "too_large_for_memory": ("return table.max()",),
    },
    "rten": {
        **_CALLS,
        **_SCANS,
        # It has no integers of this type.
        "in_one_of_three_branches": ("return lax.switch(",),
        # It names the value that is missing.
        "value_that_is_made_twice": ("return first * second",),
        # It has no buffers for the planned sizes, and stops at the sum.
        "buffer_of_another_size": ("return second + x",),
    },
    "tract": {
        **_CALLS,
        # It cannot unify the name of a size with a number, and stops at the first node.
        "largest_of_too_few": ("shifted = x - y.sum()",),
        "in_a_scan": ("last, sums = lax.scan(step, table, x)",),
        "in_a_while_loop": ("return lax.while_loop(lambda state: state[0] < n, bo",),
        "in_a_branch_of_a_scan": ("return lax.scan(step, x, flags)[0]",),
        "product_and_bias": ("x = jnp.abs(x)",),
        "product_before_bias": ("x = jnp.sin(x)",),
        "convolution_and_relu": ("x = x * 0.5",),
        "layer_normalization": ("return normalize(x * 2.0, scale, bias) - 1.0",),
        "gelu_of_a_bias": ("rows = jnp.sin(x)",),
        "attention_by_hand": ("return jnp.tanh(attend(q, k, v + 1.0))",),
        "attention_of_heads": ("shifted = v * 0.5",),
        "recurrent_network": ("return lax.scan(cell, (start, start), xs)[1]",),
        "product_and_bias_of_rows": ("hidden = jnp.cos(x) @ w + b",),
        "product_of_two_lines": ("first = (x + 1.0) @ w",),
        "softmax_and_mask": ("scaled = scores * 0.125",),
        "value_that_is_made_twice": ("return first * second",),
        "input_of_another_rank": ("return jnp.tanh(x) + 1.0",),
        "inference_of_a_sum_in_a_loop": ("return carry * row, carry",),
        "add_of_two_lengths": ("warm = jnp.tanh(x)",),
        "multiply_rows": ("scaled = jnp.exp(x) - 1.5",),
        "matmul_inner_size": ("x = jnp.abs(x)",),
        "batched_product": ("doubled = q * 2.0",),
        "concatenate_rows": ("parts = [x * 2.0, jnp.sqrt(y)]",),
        "reshape_in_the_middle": ("return jnp.tanh(split_heads(x + 1.0, 4)) * bias",),
        "product_of_three": ("shifted = a - 1.0",),
        "select_by_mask": ("hidden = x * 3.0",),
        "convolve_channels": ("x = jnp.tanh(x)",),
        "sum_of_three": ("first = x * y",),
        "buffer_of_another_size": ("first = jnp.exp(x).sum()",),
        "minimum_in_a_vmap": ("low = x * 0.5",),
        "too_large_for_memory": ("shifted = x + 1.0",),
    },
}
