"""Forms of operators that some runtimes refuse or compute wrongly, each as a tiny model."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import helper

from .models import complete
from .values import fill


@dataclass(frozen=True)
class Ability:
    """A form, and a model that shows whether a runtime has it."""

    name: str
    text: str
    opset: int
    #: The numbers of the inputs, if not any numbers do.
    given: tuple[Any, ...] = ()
    #: True if the model says nothing about values between its nodes, like a model of jax2onnx.
    is_bare: bool = False

    @functools.cached_property
    def parsed(self) -> onnx.ModelProto:
        """The model without shapes of its results."""
        imports = f'["" : {self.opset}, "own" : 1]'
        header = f"<ir_version: {8 if self.opset <= 18 else 10}, opset_import: {imports}>"
        model = onnx.parser.parse_model(f"{header}\n{self.text}")
        if not model.functions:
            del model.opset_import[1]
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")
        return model

    @functools.cached_property
    def model(self) -> onnx.ModelProto:
        """The model with the shapes of its results."""
        model = onnx.shape_inference.infer_shapes(self.parsed)
        if all(d.HasField("dim_value") for x in model.graph.input for d in _sizes(x)):
            complete(model, self.inputs())
        if self.is_bare:
            del model.graph.value_info[:]
        return model

    def inputs(self) -> list[np.ndarray]:
        found = []
        for at, value in enumerate(self.parsed.graph.input):
            kind = value.type.tensor_type
            dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type).name
            # A symbol stands for two.
            shape = tuple(d.dim_value if d.HasField("dim_value") else 2 for d in kind.shape.dim)
            if at < len(self.given) and self.given[at] is not None:
                found.append(np.array(self.given[at], dtype).reshape(shape))
            else:
                found.append(fill("negative", dtype, shape, at, "any"))
        return found


def ability(
    name: str, inputs: str, outputs: str, body: str, constants: str = "", opset: int = 21,
    given: Sequence[Any] = (), functions: str = "", is_bare: bool = False,
) -> Ability:  # fmt: skip
    held = f"<{constants}>" if constants else ""
    text = f"g ({inputs}) => ({outputs}) {held} {{ {body} }}\n{functions}"
    return Ability(name, text, opset, tuple(given), is_bare)


def _sizes(value: onnx.ValueInfoProto) -> Sequence[onnx.TensorShapeProto.Dimension]:
    return value.type.tensor_type.shape.dim


def simple(lines: str, given: dict[str, tuple[Any, ...]]) -> list[Ability]:
    """Reads forms of one line: the name, the inputs, the outputs, the constants and the nodes."""
    found = []
    opset = 0
    for line in lines.splitlines():
        if line.startswith("opset "):
            opset = int(line.removeprefix("opset "))
        elif line and not line.startswith("#"):
            name, inputs, outputs, constants, body = (part.strip() for part in line.split("|"))
            numbers = given.get(name, ())
            found.append(ability(name, inputs, outputs, body, constants, opset, numbers))
    return found


#: A body that adds each row to a state, and returns the states.
SUMS = "s1 = Add(s0, x0) y0 = Identity(s1)"
STATE = "float[3] s0, float[3] x0"
RESULT = "float[3] s1, float[3] y0"


def scan(name: str, body: str, attributes: str = "", **rest: str) -> Ability:
    inputs = rest.get("inputs", "float[3] s, float[4,3] x, float[3] w")
    scanned = "Scan <num_scan_inputs = 1, " + attributes + (", " if attributes else "")
    text = f"{scanned}body = b ({STATE}) => ({RESULT}) {{ {body} }}> (s, x)"
    return ability(name, inputs, "float t, float y", f"t, y = {text}", rest.get("constants", ""))


LOOP = "float[3] s, float[3] w"
FOUR = "int64 n = {4}, bool c = {1}"
HEAD = "int64 i, bool c0, float[3] s0"
TAIL = "bool c1, float[3] s1"


def loop(
    name: str, body: str, call: str = "n, c, s", constants: str = FOUR, inputs: str = LOOP,
    outputs: str = "float t", tail: str = TAIL, head: str = HEAD, given: Sequence[Any] = (),
) -> Ability:  # fmt: skip
    results = ", ".join(each.split()[-1] for each in outputs.split(","))
    text = f"{results} = Loop <body = b ({head}) => ({tail}) {{ {body} }}> ({call})"
    return ability(name, inputs, outputs, text, constants, given=given)


def scans() -> list[Ability]:
    return [
        scan("Scan", SUMS, inputs="float[3] s, float[4,3] x"),
        scan("ScanCaptures", "z = Mul(x0, w) s1 = Add(s0, z) y0 = Identity(s1)"),
        scan(
            "ScanCapturesConstant",
            "z = Mul(x0, k) s1 = Add(s0, z) y0 = Identity(s1)",
            inputs="float[3] s, float[4,3] x",
            constants="float[3] k = {1, -2, 3}",
        ),
        scan(
            "ScanInnerConstant",
            "k = Constant <value = float[3] {1, -2, 3}> () z = Mul(x0, k) s1 = Add(s0, z) "
            "y0 = Identity(s1)",
            inputs="float[3] s, float[4,3] x",
        ),
        scan("ScanAddsThenTanh", "z = Add(x0, s0) s1 = Tanh(z) y0 = Neg(s1)"),
        scan("ScanReadsResult", "y0 = Add(s0, x0) s1 = Neg(y0)"),
        scan("ScanReverse", SUMS, "scan_input_directions = [1]"),
        scan("ScanReverseOutput", SUMS, "scan_output_directions = [1]"),
        scan("ScanUnreadInput", "s1 = Add(s0, s0) y0 = Identity(s0)"),
        scan("ScanInputAxis", SUMS, "scan_input_axes = [1]", inputs="float[3] s, float[3,4] x"),
        scan("ScanOutputAxis", SUMS, "scan_output_axes = [1]"),
        ability(
            "ScanSeveralStates", "float[3] s, float[2] r, float[4,3] x",
            "float t, float q, float y",
            "t, q, y = Scan <num_scan_inputs = 1, body = b (float[3] s0, float[2] r0, float[3] x0) "
            "=> (float[3] s1, float[2] r1, float[3] y0) "
            "{ s1 = Add(s0, x0) r1 = Add(r0, r0) y0 = Identity(s0) }> (s, r, x)",
        ),
        ability(
            "ScanSeveralInputs", "float[3] s, float[4,3] x, float[4,3] z", "float t, float y",
            "t, y = Scan <num_scan_inputs = 2, body = b (float[3] s0, float[3] x0, float[3] z0) "
            "=> (float[3] s1, float[3] y0) "
            "{ s1 = Add(s0, x0) y0 = Mul(s1, z0) }> (s, x, z)",
        ),
        ability(
            "ScanScalesConstant", "float[3] s, float[3,3] x", "float t",
            "t = Scan <num_scan_inputs = 2, body = b (float[3] s0, float[3] x0, float c0) => "
            "(float[3] s1) { d = Div(s0, c0) m = Mul(d, k) s1 = Add(m, x0) }> (s, x, c)",
            "float[3] c = {1, 2, 4}, float k = {0.5}",
        ),
        ability(
            "ScanDividesState", "int32[3] s, int32[4,3] x", "int32 t",
            "t = Scan <num_scan_inputs = 1, body = b (int32[3] s0, int32[3] x0) => (int32[3] s1) "
            "{ d = Div(s0, k) s1 = Add(d, x0) }> (s, x)",
            "int32 k = {10}",
        ),
        ability(
            "ScanStateShared", "float[3] s, float[4,3] x", "float t",
            "a = Exp(s) h = Scan <num_scan_inputs = 1, body = b (float[3] s0, float[3] x0) => "
            "(float[3] s1) { s1 = Sub(s0, x0) }> (a, x) t = Mul(a, h)",
        ),
        ability(
            "ScanWidened", "float[5,2] x, float[5,6] w", "float t",
            "e = Unsqueeze(x, o) last, y = Scan <num_scan_inputs = 2, body = b (float[1,6] s0, "
            "float[1,2] x0, float[6] w0) => (float[1,6] s1, float[8] y0) { a = Add(s0, w0) "
            "s1 = Tanh(a) c = Concat <axis = 1> (s1, x0) y0 = Squeeze(c, z) }> (s, e, w) "
            "t = Neg(y)",
            "int64[1] o = {1}, int64[1] z = {0}, float[1,6] s = {1, 2, 3, 4, 5, 6}",
        ),
        ability(
            "ScanWithoutResults", "float[3] s, float[4,3] x", "float t",
            "t = Scan <num_scan_inputs = 1, body = b (float[3] s0, float[3] x0) => (float[3] s1) "
            "{ s1 = Add(s0, x0) }> (s, x)",
        ),
        ability(
            "ScanWithoutStates", "float[4,3] x", "float y",
            "y = Scan <num_scan_inputs = 1, body = b (float[3] x0) => (float[3] y0) "
            "{ y0 = Exp(x0) }> (x)",
        ),
        ability(
            "ScanScalarState", "float s, float[4] x", "float t, float y",
            "t, y = Scan <num_scan_inputs = 1, body = b (float s0, float x0) => (float s1, "
            "float y0) { s1 = Add(s0, x0) y0 = Identity(s1) }> (s, x)",
        ),
        ability(
            "ScanUnchangedState", "float[3] s, float[4,3] x", "float t, float y",
            "t, y = Scan <num_scan_inputs = 1, body = b (float[3] s0, float[3] x0) => "
            "(float[3] s1, float[3] y0) { s1 = Identity(s0) y0 = Mul(x0, s0) }> (s, x)",
        ),
        ability(
            "ScanSymbolicLength", "float[3] s, float[N,3] x", "float t, float y",
            "t, y = Scan <num_scan_inputs = 1, body = b (float[3] s0, float[3] x0) => "
            "(float[3] s1, float[3] y0) { s1 = Add(s0, x0) y0 = Mul(x0, s0) }> (s, x)",
        ),
        ability(
            "ScanInScan", "float[3] s, float[4,2,3] x", "float t",
            "t = Scan <num_scan_inputs = 1, body = b (float[3] s0, float[2,3] x0) => (float[3] s1) "
            "{ s1 = Scan <num_scan_inputs = 1, body = d (float[3] p0, float[3] q0) => "
            "(float[3] p1) { p1 = Add(p0, q0) }> (s0, x0) }> (s, x)",
        ),
        ability(
            "ScanInScanRestarts", "float[3] s, float[4,2,3] x", "float t",
            "t = Scan <num_scan_inputs = 1, body = b (float[3] s0, float[2,3] x0) => (float[3] s1) "
            "{ z = Neg(s0) r = Scan <num_scan_inputs = 1, body = d (float[3] p0, float[3] q0) => "
            "(float[3] p1) { p1 = Add(p0, q0) }> (z, x0) s1 = Exp(r) }> (s, x)",
        ),
        ability(
            "LoopInScan", "float[3] s, float[4,3] x", "float t",
            "t = Scan <num_scan_inputs = 1, body = b (float[3] s0, float[3] x0) => (float[3] s1) "
            "{ m = Constant <value = int64 {3}> () k = Constant <value = bool {1}> () "
            "s1 = Loop <body = d (int64 i, bool c0, float[3] p0) => (bool c1, float[3] p1) "
            "{ c1 = Identity(c0) p1 = Add(p0, x0) }> (m, k, s0) }> (s, x)",
        ),
        ability(
            "ScanInLoop", "float[3] s, float[4,3] x", "float t",
            "t = Loop <body = d (int64 i, bool c0, float[3] p0) => (bool c1, float[3] p1) "
            "{ c1 = Identity(c0) p1 = Scan <num_scan_inputs = 1, body = b (float[3] s0, "
            "float[3] x0) => (float[3] s1) { s1 = Add(s0, x0) }> (p0, x) }> (n, c, s)",
            FOUR,
        ),
    ]  # fmt: skip


def loops() -> list[Ability]:
    step = "f = Cast <to = 1> (i) g0 = Mul(w, f) s1 = Add(s0, g0)"
    keep = f"c1 = Identity(c0) {step}"
    return [
        loop("Loop", keep),
        loop("LoopUnreadCounter", "c1 = Identity(c0) s1 = Add(s0, s0)", inputs="float[3] s"),
        loop(
            "LoopConstantCondition",
            f"c1 = Constant <value = bool {{1}}> () {step}",
        ),
        loop("LoopCapturedCondition", f"c1 = Identity(c) {step}"),
        loop("LoopWithoutCondition", keep, 'n, "", s', "int64 n = {4}"),
        loop("LoopWithoutCaptures", "c1 = Identity(c0) s1 = Add(s0, s0)", inputs="float[3] s"),
        loop("LoopCapturesConstant", "c1 = Identity(c0) s1 = Add(s0, k)", inputs="float[3] s",
             constants=FOUR + ", float[3] k = {1, -2, 3}"),
        loop("LoopInnerConstant",
             "k = Constant <value = float[3] {1, -2, 3}> () c1 = Identity(c0) s1 = Add(s0, k)",
             inputs="float[3] s"),
        loop("LoopDynamicTripCount", keep, constants="bool c = {1}",
             inputs="int64 n, float[3] s, float[3] w", given=(3,)),
        loop("LoopZeroTrips", keep, constants="bool c = {1}",
             inputs="int64 n, float[3] s, float[3] w", given=(0,)),
        loop("LoopDynamicCondition", keep, constants="int64 n = {4}",
             inputs="bool c, float[3] s, float[3] w", given=(True,)),
        loop("LoopFalseCondition", keep, constants="int64 n = {4}",
             inputs="bool c, float[3] s, float[3] w", given=(False,)),
        loop("LoopWhile", "s1 = Add(s0, s0) m = ReduceMax <keepdims = 0> (s1) c1 = Less(m, k)",
             '"", c, s', "bool c = {1}, float k = {100}", "float[3] s", given=([1, 2, 3],)),
        loop("LoopWhileLargestTripCount",
             "s1 = Add(s0, s0) m = ReduceMax <keepdims = 0> (s1) c1 = Less(m, k)",
             "n, c, s", "int64 n = {9223372036854775807}, bool c = {1}, float k = {100}",
             "float[3] s", given=([1, 2, 3],)),
        loop("LoopWhileCounted",
             "s1 = Add(s0, s0) m = ReduceMax <keepdims = 0> (s1) c1 = Less(m, k)",
             "n, c, s", "int64 n = {1000}, bool c = {1}, float k = {100}",
             "float[3] s", given=([1, 2, 3],)),
        loop("LoopScanOutput", f"{keep} y0 = Exp(s0)", outputs="float t, float y",
             tail="bool c1, float[3] s1, float[3] y0", inputs="float[3] s, float[3] w"),
        loop("LoopScanOutputWhile",
             "s1 = Add(s0, s0) m = ReduceMax <keepdims = 0> (s1) c1 = Less(m, k) y0 = Neg(s0)",
             "n, c, s", "int64 n = {1000}, bool c = {1}, float k = {100}", "float[3] s",
             "float t, float y", "bool c1, float[3] s1, float[3] y0", given=([1, 2, 3],)),
        loop("LoopScanOutputZeroTrips", f"{keep} y0 = Exp(s0)", outputs="float t, float y",
             tail="bool c1, float[3] s1, float[3] y0", constants="bool c = {1}",
             inputs="int64 n, float[3] s, float[3] w", given=(0,)),
        loop("LoopScalarScanOutput", f"{keep} y0 = Cast <to = 1> (i)", outputs="float t, float y",
             tail="bool c1, float[3] s1, float y0"),
        loop("LoopSeveralStates", "c1 = Identity(c0) s1 = Add(s0, r0) r1 = Mul(r0, w)",
             "n, c, s, w", head=HEAD + ", float[3] r0", tail=TAIL + ", float[3] r1",
             outputs="float t, float q"),
        loop("LoopSwappedStates", "c1 = Identity(c0) s1 = Identity(r0) r1 = Identity(s0)",
             "n, c, s, w", "int64 n = {3}, bool c = {1}", head=HEAD + ", float[3] r0",
             tail=TAIL + ", float[3] r1", outputs="float t, float q"),
        loop("LoopUnchangedState", "c1 = Identity(c0) s1 = Add(s0, r0) r1 = Identity(r0)",
             "n, c, s, w", head=HEAD + ", float[3] r0", tail=TAIL + ", float[3] r1",
             outputs="float t, float q"),
        loop("LoopBoolState", "c1 = Identity(c0) s1 = Not(s0)", "n, c, s",
             inputs="bool[3] s", head="int64 i, bool c0, bool[3] s0", tail="bool c1, bool[3] s1",
             outputs="bool t", constants="int64 n = {3}, bool c = {1}"),
        loop("LoopIntegerState", "c1 = Identity(c0) s1 = Add(s0, s0)", "n, c, s",
             inputs="int32[3] s", head="int64 i, bool c0, int32[3] s0",
             tail="bool c1, int32[3] s1", outputs="int32 t"),
        loop("LoopScalarState", "c1 = Identity(c0) s1 = Add(s0, s0)", "n, c, s",
             inputs="float s", head="int64 i, bool c0, float s0", tail="bool c1, float s1"),
        loop("LoopMixedStates",
             "c1 = Identity(c0) s1 = Add(s0, s0) j1 = Add(j0, k)", "n, c, s, j",
             constants=FOUR + ", int64 k = {2}", inputs="float[3] s, int64 j",
             head=HEAD + ", int64 j0", tail=TAIL + ", int64 j1", outputs="float t, int64 q"),
        loop("LoopGrowingState", "c1 = Identity(c0) s1 = Concat <axis = 0> (s0, s0)",
             head="int64 i, bool c0, float[N] s0", tail="bool c1, float[M] s1",
             inputs="float[3] s"),
        loop("LoopGathersByCounter",
             "c1 = Identity(c0) r = Gather <axis = 0> (x, i) s1 = Add(s0, r)",
             inputs="float[3] s, float[4,3] x"),
        loop("LoopAddsThenTanh",
             "c1 = Identity(c0) r = Gather <axis = 0> (x, i) z = Add(s0, r) s1 = Tanh(z)",
             inputs="float[3] s, float[4,3] x"),
        loop("LoopScattersByCounter",
             "c1 = Identity(c0) j = Reshape(i, one) r = Mul(w, w) u = Unsqueeze(r, zero) "
             "jj = Reshape(i, oneone) s1 = ScatterND(s0, jj, u)",
             constants=FOUR + ", int64[1] one = {1}, int64[2] oneone = {1, 1}, int64[1] zero = {0}",
             inputs="float[4,3] s, float[3] w", head="int64 i, bool c0, float[4,3] s0",
             tail="bool c1, float[4,3] s1"),
        loop("LoopInLoop",
             "c1 = Identity(c0) s1 = Loop <body = d (int64 i2, bool c2, float[3] p0) => "
             "(bool c3, float[3] p1) { c3 = Identity(c2) p1 = Add(p0, w) }> (n, c, s0)"),
        loop("LoopInLoopReadsBoth",
             "c1 = Identity(c0) f = Cast <to = 1> (i) s1 = Loop <body = d (int64 i2, bool c2, "
             "float[3] p0) => (bool c3, float[3] p1) { c3 = Identity(c2) f2 = Cast <to = 1> (i2) "
             "a = Add(f, f2) e = Mul(w, a) p1 = Add(p0, e) }> (n, c, s0)"),
        loop("IfInLoop",
             "c1 = Identity(c0) h = Less(i, k) s1 = If <then_branch = a () => (float[3] ta) "
             "{ ta = Add(s0, w) }, else_branch = e () => (float[3] te) { te = Mul(s0, w) }> (h)",
             constants=FOUR + ", int64 k = {2}"),
    ]  # fmt: skip


def branches() -> list[Ability]:
    then = "then_branch = a () => (float[3] ta) {{ {} }}"
    other = "else_branch = e () => (float[3] te) {{ {} }}"
    both = f"If <{then}, {other}> (c)"
    sums = both.format("ta = Add(x, w)", "te = Mul(x, w)")
    one = "float[3] x, float[3] w"
    return [
        ability("If", f"bool c, {one}", "float y", f"y = {sums}", given=(True,)),
        ability("IfElse", f"bool c, {one}", "float y", f"y = {sums}", given=(False,)),
        ability("IfComputedCondition", f"float z, {one}", "float y",
                f"c = Less(z, k) y = {sums}", "float k = {0}"),
        ability("IfConstantCondition", one, "float y", f"y = {sums}", "bool c = {1}"),
        ability("IfPassesOuterValue", f"bool c, {one}", "float y",
                "y = " + both.format("ta = Identity(x)", "te = Identity(w)"), given=(False,)),
        ability("IfUnitCondition", f"bool[1] c, {one}", "float y", f"y = {sums}", given=([True],)),
        ability("IfSeveralResults", f"bool c, {one}", "float y, float z",
                "y, z = If <then_branch = a () => (float[3] ta, float[3] tb) "
                "{ ta = Add(x, w) tb = Sub(x, w) }, else_branch = e () => (float[3] te, float[3] "
                "tf) { te = Mul(x, w) tf = Neg(x) }> (c)", given=(True,)),
        ability("IfDifferentShapes", "bool c, float[3] x, float[2] z", "float y",
                "y = If <then_branch = a () => (float[N] ta) { ta = Neg(x) }, else_branch = e () "
                "=> (float[M] te) { te = Neg(z) }> (c)", given=(False,)),
        ability("IfMultipliesProduct", "bool c, float[3,3] x", "float y",
                "y = If <then_branch = a () => (float[3,3] ta) { p = MatMul(x, x) "
                "ta = MatMul(x, p) }, else_branch = e () => (float[3,3] te) { te = Neg(x) }> (c)",
                given=(True,)),
        ability("IfReturnsConstant", "bool c, float[3] x", "float y",
                "z = " + both.format("ta = Identity(k)", "te = Identity(x)") + " y = Neg(z)",
                "float[3] k = {1, 2, 3}", given=(False,)),
        ability("IfInIf", f"bool c, bool c2, {one}", "float y",
                "y = If <then_branch = a () => (float[3] ta) { ta = If <then_branch = a2 () => "
                "(float[3] tb) { tb = Add(x, w) }, else_branch = e2 () => (float[3] tc) "
                "{ tc = Sub(x, w) }> (c2) }, else_branch = e () => (float[3] te) "
                "{ te = Mul(x, w) }> (c)", given=(True, False)),
        ability("LoopInIf", f"bool c, {one}", "float y",
                "y = If <then_branch = a () => (float[3] ta) { m = Constant <value = int64 {3}> () "
                "k = Constant <value = bool {1}> () ta = Loop <body = d (int64 i, bool c0, "
                "float[3] p0) => (bool c1, float[3] p1) { c1 = Identity(c0) p1 = Add(p0, w) }> "
                "(m, k, x) }, else_branch = e () => (float[3] te) { te = Mul(x, w) }> (c)",
                given=(True,)),
        ability("IfInScan", "float[3] s, float[4,3] x", "float t",
                "t = Scan <num_scan_inputs = 1, body = b (float[3] s0, float[3] x0) => "
                "(float[3] s1) { m = ReduceSum <keepdims = 0> (x0) z = Constant <value = float {0}>"
                " () c = Less(m, z) s1 = If <then_branch = a () => (float[3] ta) "
                "{ ta = Add(s0, x0) }, else_branch = e () => (float[3] te) { te = Mul(s0, x0) }> "
                "(c) }> (s, x)"),
    ]  # fmt: skip


def structures() -> list[Ability]:
    function = '<opset_import: ["" : 21], domain: "own">\nTwice (a) => (b) { b = Add(a, a) }\n'
    nested = function + (
        '<opset_import: ["" : 21, "own" : 1], domain: "own">\n'
        "Fourfold (a) => (b) { c = own.Twice(a) b = own.Twice(c) }\n"
    )
    attributed = (
        '<opset_import: ["" : 21], domain: "own">\n'
        "Leaky <alpha> (a) => (b) { b = LeakyRelu <alpha: float = @alpha> (a) }\n"
    )
    return [
        ability("Functions", "float[3] x", "float y", "y = own.Twice(x)", functions=function),
        ability("NestedFunctions", "float[3] x", "float y", "y = own.Fourfold(x)",
                functions=nested),
        ability("FunctionAttributes", "float[3] x", "float y", "y = own.Leaky <alpha = 0.5> (x)",
                functions=attributed),
    ]  # fmt: skip
