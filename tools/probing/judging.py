"""Compares what a runtime computes with what ONNX says."""

from __future__ import annotations

import functools

import ml_dtypes  # noqa: F401
import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

onnxruntime.set_default_logger_severity(4)

#: The share of a number by which a result may differ, and what it may differ by near zero.
TOLERANCE = {
    "float16": (1e-2, 1e-3),
    "float32": (2e-4, 2e-5),
    "float64": (1e-9, 1e-12),
}
#: The same for types in which the model computes, and whose results it casts.
ROUGH = {
    "float8e5m2": (0.3, 0.1),
    "float8e4m3fn": (0.2, 0.1),
    "bfloat16": (5e-2, 1e-2),
    "float16": TOLERANCE["float16"],
}

#: Kernels of ONNX Runtime that are known to be wrong; `crates/onnx/src/kernels/behavior.rs` has
#: them too.
DOUBTED = {
    ("Clip", "int64"), ("Max", "int64"), ("Min", "int64"), ("ReduceMax", "int64"),
    ("ReduceMin", "int64"), ("Sign", "int64"), ("MaxPool", "float32"),
    ("LogSoftmax", "float64"),
}  # fmt: skip


#: The share by which inputs are changed to see what their rounding does to a result.
SHAKE = 2.0**-22

SPECIAL = ("infinite", "nan", "negative_zero", "subnormal", "all")


class Expected:
    """The numbers that a model should compute, by every oracle that runs it."""

    def __init__(self, model: onnx.ModelProto, doubts: bool = False) -> None:
        self._model = model
        self._doubts = doubts

    @functools.cached_property
    def _session(self) -> onnxruntime.InferenceSession | None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            data, providers = self._model.SerializeToString(), ["CPUExecutionProvider"]
            return onnxruntime.InferenceSession(data, options, providers=providers)
        except Exception:
            return None

    @functools.cached_property
    def _reference(self) -> ReferenceEvaluator | None:
        try:
            return ReferenceEvaluator(self._model)
        except Exception:
            return None

    def slack(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """Returns how much each result changes if each input changes in its last bits.

        float32 cannot say more about the result: an angle of 10000 is known to 0.001.
        """
        exact = self.of(inputs)[0]
        found = [np.zeros(each.shape) for each in exact]
        for factor in (1 - SHAKE, 1 + SHAKE):
            shaken = [x * x.dtype.type(factor) if x.dtype == np.float32 else x for x in inputs]
            for at, moved in enumerate(self.of(shaken)[0]):
                with np.errstate(all="ignore"):
                    change = np.abs(moved.astype("float64") - exact[at].astype("float64"))
                found[at] = np.fmax(found[at], np.nan_to_num(change, nan=0, posinf=0))
        return found

    def of(self, inputs: list[np.ndarray], kind: str = "") -> list[list[np.ndarray]]:
        """Returns what each oracle computes, the more trusted one first.

        The reference evaluator alone does not say what infinities and NaN become: for example, its
        average of a window leaves NaN out.
        """
        names = [value.name for value in self._model.graph.input]
        feeds = dict(zip(names, inputs, strict=True))
        found = []
        if kind in SPECIAL and not self._doubts and self._session is None:
            return []
        with np.errstate(all="ignore"):
            for oracle in (None if self._doubts else self._session, self._reference):
                if oracle is None:
                    continue
                try:
                    found.append([np.asarray(each) for each in oracle.run(None, feeds)])
                except Exception:
                    continue
        return found


def same(
    got: list[np.ndarray],
    want: list[np.ndarray],
    rough: str = "",
    kind: str = "",
    slack: list[np.ndarray] | None = None,
) -> bool:
    """True if a runtime computed the numbers; types may differ in runtimes with few types."""
    allowed = slack or [np.zeros(())] * len(want)
    return len(got) == len(want) and all(
        _same(one, other, rough, kind, more)
        for one, other, more in zip(got, want, allowed, strict=True)
    )


def _same(got: np.ndarray, want: np.ndarray, rough: str, kind: str, slack: np.ndarray) -> bool:
    if got.shape != want.shape:
        return False
    if want.dtype.kind in "biu":
        if got.dtype.kind not in "biu":
            return False
        return bool(np.all(got.astype(object) == want.astype(object)))
    got, wide = got.astype("float64"), want.astype("float64")
    relative, absolute = ROUGH.get(rough) or TOLERANCE[want.dtype.name]
    with np.errstate(all="ignore"):
        near = np.abs(got - wide) <= relative * np.abs(wide) + absolute + slack
    equal = near | (got == wide) | (np.isnan(got) & np.isnan(wide))
    if kind in ("subnormal", "all"):
        equal &= (got != 0) | (wide == 0) | (np.abs(wide) > 1e-37) | (want.dtype != np.float32)
    if kind in ("negative_zero", "all"):
        equal &= (np.signbit(got) == np.signbit(wide)) | (wide != 0)
    return bool(equal.all())
