"""Functions that are not tried, with the reason."""

from __future__ import annotations

_REASONS: dict[str, dict[str, str]] = {
    "says something about types, shapes or Python objects, and computes no array": {
        "jax.numpy": """broadcast_shapes can_cast einsum_path finfo iinfo get_printoptions
            iscomplexobj isdtype isrealobj isscalar issubdtype iterable ndim printoptions
            promote_types result_type set_printoptions shape size array_repr array_str""",
        "jax.lax": """broadcast_shapes conv_dimension_numbers conv_general_permutations
            conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple dtype
            padtype_to_pads reduce_window_shape_tuple shape_as_value""",
        "jax.nn": "get_scaled_dot_general_config",
    },
    "a type or an option, not a function": {
        "jax.lax": """AccuracyMode ConvDimensionNumbers ConvGeneralDilatedDimensionNumbers
            DotAlgorithm DotAlgorithmPreset DotDimensionNumbers FftType GatherDimensionNumbers
            GatherScatterMode Precision PrecisionLike RaggedDotDimensionNumbers RandomAlgorithm
            RoundingMethod ScatterDimensionNumbers Tolerance""",
        "jax.lax.linalg": "EigImplementation EighImplementation SvdAlgorithm",
        "jax.image": "ResizeMethod",
        "jax.scipy.optimize": "OptimizeResults",
    },
    "reads or writes files, buffers or iterators": {
        "jax.numpy": "from_dlpack frombuffer fromfile fromiter fromstring load save savez",
    },
    "the shape of its result depends on values, so JAX cannot trace it": {
        "jax.numpy": "trim_zeros",
    },
    "communicates between devices or needs a mapped axis": {
        "jax.lax": """all_gather all_to_all axis_index axis_size pbroadcast pcast pmax pmean pmin
            ppermute precv psend pshuffle psum psum_scatter pswapaxes ragged_all_to_all
            with_sharding_constraint""",
    },
    "orders effects with tokens": {"jax.lax": "after_all create_token dce_sink"},
    "runs on accelerators only": {"jax.nn": "scaled_matmul", "jax.lax": "scaled_dot"},
    "stages code for JAX's own use": {"jax.lax": "stage"},
    "draws numbers from a generator of the device": {"jax.lax": "rng_uniform"},
}

LISTED: dict[str, str] = {
    f"{module}.{name}": reason
    for reason, modules in _REASONS.items()
    for module, names in modules.items()
    for name in names.split()
}
