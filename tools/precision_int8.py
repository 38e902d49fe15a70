"""Compare int8 models of `jax2onnx.lower_precision` with those of ONNX Runtime's tools.

    python tools/precision_int8.py [--budget 0.02] [--libraries] [--only NAME]

ONNX Runtime's `quantize_static` quantizes all nodes, with scales per channel. Then the node whose
error `qdq_loss_debug` ranks first is excluded, until the outputs are as good as those of jax2onnx
on data that neither has seen. The tool tries signed and unsigned weights, because products of
unsigned operands and signed weights saturate on some CPUs, and takes what has more bytes in 8 bits.
The table shows the bytes of weights in 8 bits of both. With `--libraries`, the networks are those
that are written with flax, haiku, equinox and JAX. If a network cannot meet the budget, the tool
doubles the budget of this network.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto
from onnxruntime import quantization
from onnxruntime.quantization import qdq_loss_debug
from precision.libraries import BUILDERS
from precision.networks import NETWORKS

import jax2onnx
from jax2onnx._precision.lowered import bytes_of_weights

RANDOM = np.random.default_rng(4)


def noisy(array: Any) -> Any:
    """Return other numbers of the same kind."""
    if array.dtype != np.float32:
        return array
    return array + RANDOM.standard_normal(array.shape).astype(np.float32)


class Reader(quantization.CalibrationDataReader):
    """Feeds samples to the calibration."""

    def __init__(self, samples: list[dict[str, Any]]) -> None:
        self._waiting = iter(samples)

    def get_next(self) -> dict[str, Any] | None:
        return next(self._waiting, None)


def run(model: onnx.ModelProto | str, feeds: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    source = model if isinstance(model, str) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, feeds)
    return found


def error(before: onnx.ModelProto, after: Any, samples: list[dict[str, Any]]) -> float:
    """Return the largest error of an output, relative to its largest element."""
    pairs = [
        pair
        for feeds in samples
        for pair in zip(run(before, feeds), run(after, feeds), strict=True)
    ]
    return max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in pairs)


def excluded_until(
    model: onnx.ModelProto,
    samples: list[dict[str, Any]],
    new: list[dict[str, Any]],
    wanted: float,
    folder: Path,
    weights: quantization.QuantType,
) -> tuple[int, float, int]:
    """Return the bytes in 8 bits, the error, and how many nodes had to be excluded."""
    source, target = str(folder / "model.onnx"), str(folder / "int8.onnx")
    onnx.save(model, source)
    ranked: list[str] = []
    excluded: list[str] = []
    while True:
        quantization.quantize_static(
            source,
            target,
            Reader(samples),
            per_channel=True,
            weight_type=weights,
            activation_type=quantization.QuantType.QUInt8,
            nodes_to_exclude=excluded,
        )
        try:
            found = error(model, target, new)
        except Exception:
            # ONNX Runtime does not run what its tool writes.
            return 0, float("inf"), len(excluded)
        made = onnx.load(target)
        names = [each.name for each in made.graph.initializer]
        weights_alone = [name for name in names if not name.endswith("zero_point")]
        short = sum(
            bytes_of_weights(made, code, weights_alone)
            for code in (TensorProto.INT8, TensorProto.UINT8)
        )
        if found <= wanted or not short:
            return short, found, len(excluded)
        if not ranked:
            ranked = _ranked(source, target, samples, folder)
        rest = [name for name in ranked if name not in excluded]
        if not rest:
            return 0, found, len(excluded)
        excluded.append(rest[0])


def _ranked(source: str, target: str, samples: list[dict[str, Any]], folder: Path) -> list[str]:
    """Return the nodes, the one whose results differ most first."""
    paths = {}
    for name, path in (("float", source), ("int8", target)):
        paths[name] = str(folder / f"{name}.onnx")
        qdq_loss_debug.modify_model_output_intermediate_tensors(path, paths[name])
    float_values, int8_values = (
        qdq_loss_debug.collect_activations(paths[name], Reader(samples[:4]))
        for name in ("float", "int8")
    )
    matched = qdq_loss_debug.create_activation_matching(int8_values, float_values)
    errors = qdq_loss_debug.compute_activation_error(matched)
    model = onnx.load(source)
    makers = {name: node.name for node in model.graph.node for name in node.output}
    worst = sorted(errors, key=lambda name: errors[name]["xmodel_err"])
    names = [makers[name] for name in worst if name in makers]
    return list(dict.fromkeys([*names, *(node.name for node in model.graph.node)]))


def lowered(
    model: onnx.ModelProto, samples: list[dict[str, Any]], budget: float
) -> tuple[onnx.ModelProto, Any]:
    """Return the model in int8 and the report."""
    try:
        short, report = jax2onnx.lower_precision(model, samples, to="int8", budget=budget)
    except jax2onnx.ConfigError:
        if budget > 1:
            raise
        return lowered(model, samples, 2 * budget)
    return short, report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=0.02)
    parser.add_argument("--libraries", action="store_true")
    parser.add_argument("--only", default="", help="a part of the names of networks")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print("| network | int8 bytes | error | int8 bytes of ONNX Runtime | error | excluded |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    networks = [
        (fn.__name__, fn, inputs) for fn, inputs in (() if arguments.libraries else NETWORKS)
    ]
    for build in BUILDERS if arguments.libraries else ():
        networks.append((build.__name__, *build()))
    for name, fn, inputs in networks:
        if arguments.only not in name:
            continue
        model = jax2onnx.to_onnx(fn, list(inputs), provenance="indexed")
        names = [value.name for value in model.graph.input]
        samples = [
            {each: noisy(np.asarray(array)) for each, array in zip(names, inputs, strict=True)}
            for _ in range(24)
        ]
        known, new = samples[:16], samples[16:]
        short, report = lowered(model, known, arguments.budget)
        own = error(model, short, new)
        with tempfile.TemporaryDirectory() as folder:
            theirs = max(
                excluded_until(model, known, new, own, Path(folder), weights)
                for weights in (quantization.QuantType.QInt8, quantization.QuantType.QUInt8)
            )
        print(
            f"| {name} | {report.bytes_short} | {own:.2g} | {theirs[0]} | {theirs[1]:.2g} "
            f"| {theirs[2]} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
