//! Finds how the nodes of a model use its values: the facts that the audit of every runtime needs.

use rustc_hash::{FxHashMap, FxHashSet};

use super::limit::VERY_LOW;
use crate::dtype::DType;
use crate::model::{Graph, Model, Node};
use crate::operator::OpType;
use crate::operator::properties::{CASTS, EXACT, LAYOUT_OPS, POINTWISE};
use crate::tensor::Tensor;
use crate::value::{ValueId, Values};

/// The most nodes between the keys of a sort and the array that they are made from.
const MAX_STEPS: usize = 16;

pub(super) struct Uses<'m> {
    values: &'m Values,
    producers: FxHashMap<ValueId, &'m Node>,
    readers: FxHashMap<ValueId, Vec<&'m Node>>,
    /// The outputs of all graphs.
    outputs: FxHashSet<ValueId>,
    /// The results of `TopK` whose readers do not see in which order it returns equal elements.
    settled: FxHashSet<ValueId>,
    /// The values of 64 bits whose numbers fit into 32 bits, or need not be more precise.
    narrow: FxHashSet<ValueId>,
}

impl<'m> Uses<'m> {
    pub fn of(model: &'m Model) -> Uses<'m> {
        let graphs = model.graphs();
        let mut uses = Uses {
            values: &model.values,
            producers: FxHashMap::default(),
            readers: FxHashMap::default(),
            outputs: graphs.iter().flat_map(|graph| graph.outputs.iter().copied()).collect(),
            settled: FxHashSet::default(),
            narrow: FxHashSet::default(),
        };
        for node in graphs.iter().flat_map(|graph| &graph.nodes) {
            uses.producers.extend(node.outputs.iter().map(|&output| (output, node)));
            for &input in node.inputs.iter().flatten() {
                uses.readers.entry(input).or_default().push(node);
            }
        }
        uses.settled = uses.settled(&graphs);
        uses.note_narrow(&graphs, &model.graph);
        uses
    }

    pub fn readers(&self, value: ValueId) -> &[&'m Node] {
        self.readers.get(&value).map_or(&[], Vec::as_slice)
    }

    pub fn is_output(&self, value: ValueId) -> bool {
        self.outputs.contains(&value)
    }

    pub fn is_read(&self, value: ValueId) -> bool {
        self.is_output(value) || !self.readers(value).is_empty()
    }

    /// True if a reader of positions from `TopK` sees in which order it returns equal elements.
    pub fn shows_order(&self, positions: ValueId) -> bool {
        self.is_read(positions) && !self.settled.contains(&positions)
    }

    /// True if the operands of 64 bits lose nothing that matters in 32 bits.
    pub fn has_narrow_operands(&self, node: &Node) -> bool {
        node.inputs.iter().flatten().all(|&input| self.is_narrow(input))
    }

    /// True if neither operands nor results of 64 bits lose anything that matters in 32 bits.
    pub fn fits_32_bits(&self, node: &Node) -> bool {
        self.has_narrow_operands(node) && node.outputs.iter().all(|&output| self.is_narrow(output))
    }

    /// True if a mask chooses very low numbers by flags, which may hide a whole row.
    pub fn is_low_choice(&self, mask: ValueId) -> bool {
        let is_low = |id: &ValueId| {
            let tensor = self.values[*id].tensor.as_ref();
            tensor.is_some_and(|tensor| tensor.all_floats(|number| number <= VERY_LOW))
        };
        self.producers.get(&mask).is_some_and(|choice| {
            choice.op == OpType::Where && choice.inputs.iter().skip(1).flatten().any(is_low)
        })
    }

    /// True if the program compares an operand of a limit with itself, which only NaN does not equal.
    pub fn expects_nan(&self, node: &Node) -> bool {
        use OpType::{Clip, Max, Min, Relu};
        let is_limit = node.op.onnx().is_some_and(|op| matches!(op, Clip | Max | Min | Relu));
        let is_tested = |value: ValueId| {
            let tests = |reader: &&Node| {
                reader.op == OpType::Equal && reader.inputs.iter().all(|&it| it == Some(value))
            };
            self.readers(value).iter().any(tests)
        };
        is_limit && node.inputs.iter().flatten().any(|&input| is_tested(input))
    }

    /// True if the floats that a node reads are rounded, or made from integers, so that several may be equal.
    pub fn has_likely_ties(&self, node: &Node) -> bool {
        use OpType::{Ceil, Floor, Round, Sign};
        let mut left: Vec<ValueId> = node.inputs.first().copied().flatten().into_iter().collect();
        for _ in 0..MAX_STEPS {
            let Some(value) = left.pop() else { return false };
            let is_whole = self.dtype(value).is_some_and(|dtype| !dtype.is_float());
            let Some(producer) = self.producers.get(&value) else { continue };
            if is_whole
                || producer.op.onnx().is_some_and(|op| matches!(op, Ceil | Floor | Round | Sign))
            {
                return true;
            }
            // The operands that follow the first one are indices and sizes, except those of elementwise operators.
            let is_pointwise = producer.op.onnx().is_some_and(|op| op.is(POINTWISE));
            let taken = if is_pointwise { producer.inputs.len() } else { 1 };
            let skipped = usize::from(producer.op == OpType::Where);
            left.extend(producer.inputs.iter().take(taken).skip(skipped).flatten().copied());
        }
        false
    }

    fn dtype(&self, value: ValueId) -> Option<DType> {
        self.values[value].ty.as_ref().map(|ty| ty.dtype)
    }

    fn is_narrow(&self, value: ValueId) -> bool {
        self.dtype(value) != Some(DType::F64)
            || self.narrow.contains(&value)
            || self.values[value].tensor.as_deref().is_some_and(fits_32_bits)
    }

    /// Notes the values of 64 bits whose numbers fit into 32 bits.
    fn note_narrow(&mut self, graphs: &[&'m Graph], main: &Graph) {
        // If no output has 64 bits, the last step rounds them in any case.
        let is_inner = main.outputs.iter().all(|&output| self.dtype(output) != Some(DType::F64));
        for node in graphs.iter().flat_map(|graph| &graph.nodes) {
            let keeps = match node.op.onnx() {
                Some(op) if op.is(CASTS) => {
                    let from = node.inputs.first().copied().flatten().and_then(|x| self.dtype(x));
                    from.is_some_and(|from| !matches!(from, DType::U32 | DType::U64))
                }
                Some(op) => is_inner || op.is(EXACT) || matches!(op, OpType::Neg | OpType::Abs),
                None => false,
            };
            if keeps && self.has_narrow_operands(node) {
                self.narrow.extend(&node.outputs);
            }
        }
    }

    fn settled(&self, graphs: &[&Graph]) -> FxHashSet<ValueId> {
        let nodes = graphs.iter().flat_map(|graph| &graph.nodes);
        let sorts = nodes.filter(|node| node.op == OpType::TopK);
        let positions = sorts.filter_map(|node| {
            let (keys, positions) = (node.inputs.first().copied()??, *node.outputs.get(1)?);
            self.hides_order(positions, keys, true).then_some(positions)
        });
        positions.collect()
    }

    /// True if each reader of the positions of keys either sorts equal elements by them, or takes the elements that the
    /// keys are made from.
    fn hides_order(&self, positions: ValueId, keys: ValueId, may_cast: bool) -> bool {
        let hides = |node: &&Node| match (node.op.onnx(), node.outputs.first()) {
            (Some(OpType::Cast), Some(&result)) => {
                may_cast && self.hides_order(result, keys, false)
            }
            (Some(OpType::Add), _) => !may_cast && self.is_tie_breaker(node),
            (Some(OpType::Gather | OpType::GatherElements), _) => {
                let [Some(data), Some(indices)] = node.inputs[..] else { return false };
                indices == positions && data != positions && self.is_made_from(keys, data)
            }
            _ => false,
        };
        !self.is_output(positions) && self.readers(positions).iter().all(hides)
    }

    /// True for the number of a group plus a position: a key that sorts equal elements by their positions.
    fn is_tie_breaker(&self, sum: &Node) -> bool {
        let made_by = |value: &ValueId, op: OpType| {
            self.producers.get(value).copied().filter(|node| node.op == op)
        };
        let is_group = |value: &ValueId| {
            made_by(value, OpType::Mul).is_some_and(|group| {
                group.inputs.iter().flatten().any(|each| made_by(each, OpType::CumSum).is_some())
            })
        };
        sum.inputs.iter().flatten().any(is_group)
    }

    /// True if equal elements of `keys` are equal elements of `data`, at the same positions.
    fn is_made_from(&self, keys: ValueId, data: ValueId) -> bool {
        let mut value = keys;
        for _ in 0..MAX_STEPS {
            if value == data {
                return true;
            }
            let Some(node) = self.producers.get(&value) else { return false };
            if !node.op.onnx().is_some_and(|op| op.is(POINTWISE)) {
                return false;
            }
            // A choice between the element and a constant, by a test of the element.
            let is_computed = |&value: &ValueId| self.values[value].tensor.is_none();
            let Some(next) = node.inputs.iter().flatten().copied().rfind(is_computed) else {
                return false;
            };
            value = next;
        }
        false
    }
}

/// True if the numbers of a constant have no more digits than 32 bits, or are larger or smaller than all ordinary ones.
fn fits_32_bits(tensor: &Tensor) -> bool {
    tensor.all_floats(|number| {
        let size = number.abs();
        let is_apart = size > f64::from(f32::MAX) || size < f64::from(f32::MIN_POSITIVE);
        is_apart || number.is_nan() || f64::from(number as f32) == number
    })
}

/// True if the body of a `Scan` computes a new state in the memory of an element that it scans: the runtime copies the
/// next element there before it copies the state.
///
/// A kernel with two operands writes to the memory of the first one if nothing else reads it. Kernels with one operand
/// do not, but after such a kernel they write where it wrote. So do kernels whose other operands nothing computes.
pub(super) fn overwrites_state(body: &Graph, states: usize, values: &Values) -> bool {
    let mut reads: FxHashMap<ValueId, usize> = FxHashMap::default();
    super::limit::visit_reads(body, &mut |value| *reads.entry(value).or_default() += 1);
    let is_read_once = |value: ValueId| reads.get(&value) == Some(&1);
    let states = body.outputs.get(..states).unwrap_or_default();
    let elements = body.inputs.get(states.len()..).unwrap_or_default();
    let shape = |value: ValueId| values[value].ty.as_ref().map(|ty| &ty.shape);
    let is_fused = |value: ValueId, like: ValueId| {
        let mut nodes = body.nodes.iter();
        let producer = nodes.find(|node| node.outputs.contains(&value));
        let is_pointwise =
            producer.and_then(|node| node.op.onnx()).is_some_and(|op| op.is(POINTWISE));
        is_pointwise && is_read_once(value) && shape(value) == shape(like)
    };
    elements.iter().any(|&element| {
        let mut value = element;
        let (mut is_written, mut must_end) = (false, false);
        loop {
            if states.contains(&value) {
                return true;
            }
            let reads_it = |node: &&Node| node.inputs.contains(&Some(value));
            let Some(reader) = body.nodes.iter().find(reads_it) else { return false };
            let (Some(op), Some(&result)) = (reader.op.onnx(), reader.outputs.first()) else {
                return false;
            };
            if !is_read_once(value) || must_end {
                return false;
            }
            let is_view = op.is(LAYOUT_OPS) || op == OpType::Identity;
            if !is_view && shape(result) != shape(value) {
                return false;
            }
            match &reader.inputs[..] {
                _ if is_view => {}
                _ if is_written => {
                    let is_given = |other: ValueId| {
                        other == value
                            || values[other].tensor.is_some()
                            || body.inputs.contains(&other) && is_read_once(other)
                    };
                    let follows = op.is(POINTWISE) || op == OpType::Softmax;
                    if !follows || !reader.inputs.iter().flatten().all(|&other| is_given(other)) {
                        return false;
                    }
                }
                &[Some(first), Some(other)] if first == value && op.is(POINTWISE) => {
                    let is_constant = values[other].tensor.is_some();
                    let turns_other = matches!(op, OpType::Sub | OpType::Div)
                        && !is_constant
                        && shape(other) == shape(result);
                    if turns_other || is_fused(other, result) {
                        return false;
                    }
                    let is_number = |ty: &crate::value::Type| ty.shape.is_empty();
                    must_end = is_constant && values[other].ty.as_ref().is_some_and(is_number);
                    is_written = true;
                }
                _ => return false,
            }
            value = result;
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::kernels::{Target, audit};

    /// Returns what a runtime lacks for a graph, and whether it depends on the numbers.
    fn lacks(runtime: &str, graph: &str) -> Vec<(String, bool)> {
        let model = crate::text::parse_graph(graph).unwrap();
        let found = audit(&model, Target::parse([runtime]).unwrap()).into_iter();
        found.map(|it| (it.to_string(), it.lack.depends_on_numbers())).collect()
    }

    fn scan(body: &str) -> String {
        format!(
            "graph g(x:f32[3], xs:f32[4,3]) -> (y)
y:f32[3] = Scan(x, xs) {{body={{
  graph b(v:f32[3], e:f32[3]) -> (w)
  {body}
}}, num_scan_inputs=1}}"
        )
    }

    #[test]
    fn a_state_in_the_memory_of_an_element_is_found() {
        assert_eq!(lacks("openvino", &scan("w:f32[3] = Add(e, v)")).len(), 1);
        assert_eq!(lacks("openvino", &scan("z:f32[3] = Max(e, v)\n  w:f32[3] = Tanh(z)")).len(), 1);
    }

    #[test]
    fn a_state_in_its_own_memory_is_right() {
        assert_eq!(lacks("openvino", &scan("w:f32[3] = Add(v, e)")), []);
        assert_eq!(lacks("openvino", &scan("z:f32[3] = Tanh(e)\n  w:f32[3] = Add(z, v)")), []);
    }

    #[test]
    fn an_element_of_a_constant_array_must_not_be_folded() {
        let scan = |body: &str| {
            format!(
                "graph g(x:f32[4]) -> (y)
y:f32[4] = Scan(x, [1, 2, 4]:f32) {{body={{
  graph b(v:f32[4], e:f32[]) -> (w)
  {body}
}}, num_scan_inputs=1}}"
            )
        };
        let scaled = scan("d:f32[4] = Div(v, e)\n  w:f32[4] = Mul(d, 0.5:f32)");
        assert_eq!(lacks("tract", &scaled).len(), 1);
        assert_eq!(lacks("openvino", &scaled), []);
        let computed = scan("d:f32[] = Neg(e)\n  c:f32[] = Exp(d)\n  w:f32[4] = Mul(v, c)");
        assert_eq!(lacks("tract", &computed).len(), 1);
        assert_eq!(lacks("tract", &scan("w:f32[4] = Mul(v, e)")), []);
        let once = scan("d:f32[] = Neg(e)\n  w:f32[4] = Mul(v, d)");
        assert_eq!(lacks("tract", &once), []);
    }

    #[test]
    fn a_first_branch_must_not_return_a_constant() {
        let choice = |then: &str, other: &str| {
            format!(
                "graph g(p:bool[], x:f32[2]) -> (y)
y:f32[2] = If(p) {{else_branch={{
  graph e() -> (b)
  b:f32[2] = {other}
}}, then_branch={{
  graph t() -> (a)
  a:f32[2] = {then}
}}}}"
            )
        };
        let (constant, computed) = ("Expand(0:f32, [2]:i64)", "Neg(x)");
        assert_eq!(lacks("tract", &choice(constant, computed)).len(), 1);
        assert_eq!(lacks("tract", &choice(computed, constant)), []);
        assert_eq!(lacks("openvino", &choice(constant, computed)), []);
    }

    #[test]
    fn floats_of_64_bits_are_right_if_they_were_floats_of_32_bits() {
        let keys = "graph g(x:f32[3]) -> (y)
%0:f64[3] = Cast(x) {to=11}
%1:f64[3] = Min(%0, 1e300:f64)
y:f32[3] = Cast(%1) {to=1}";
        assert_eq!(lacks("openvino", keys), []);
        let precise = "graph g(x:f64[3], z:f64[3]) -> (y)\ny:f64[3] = Add(x, z)";
        assert_eq!(lacks("openvino", precise).len(), 1);
    }

    #[test]
    fn the_order_of_equal_elements_matters_only_to_those_who_see_it() {
        let sort = |dtype: &str, reader: &str| {
            format!(
                "graph g(x:{dtype}[9]) -> (y)
%0:{dtype}[9], %1:i64[9] = TopK(x, [9]:i64)
{reader}"
            )
        };
        let positions = "y:i64[9] = Identity(%1)";
        assert!(!lacks("openvino", &sort("i32", positions))[0].1);
        assert!(lacks("openvino", &sort("f32", positions))[0].1);
        assert_eq!(lacks("openvino", &sort("i32", "y:i32[9] = Gather(x, %1) {axis=0}")), []);
    }

    #[test]
    fn a_limit_drops_nan_only_if_the_program_tests_for_it() {
        let relu = "graph g(x:f32[3]) -> (y)\ny:f32[3] = Relu(x)";
        assert_eq!(lacks("openvino", relu), []);
        let tests = "graph g(x:f32[3]) -> (y, z)\nz:bool[3] = Equal(x, x)\ny:f32[3] = Relu(x)";
        assert_eq!(lacks("openvino", tests).len(), 1);
    }

    #[test]
    fn a_constant_of_all_32_bits_is_wrong_if_a_runtime_cuts_it_off() {
        let sum =
            |constant: &str| format!("graph g(x:u32[2]) -> (y)\ny:u32[2] = Add(x, {constant}:u32)");
        assert_eq!(lacks("openvino", &sum("2147483648")).len(), 1);
        assert_eq!(lacks("openvino", &sum("2147483647")), []);
        assert_eq!(lacks("tract", &sum("2147483648")), []);
    }

    #[test]
    fn a_slice_may_not_skip_elements_along_an_axis_of_a_reshape() {
        let slice = |shape: &str| {
            format!(
                "graph g(x:f32{shape}) -> (y)
%0:f32[2,6] = Reshape(x, [2, 6]:i64)
y:f32[1,6] = Slice(%0, [0]:i64, [2]:i64, [0]:i64, [2]:i64)"
            )
        };
        assert_eq!(lacks("tract", &slice("[12]")).len(), 1);
        assert_eq!(lacks("tract", &slice("[2,3,2]")), []);
    }

    #[test]
    fn a_state_of_a_loop_must_not_be_scaled_by_one_constant() {
        let scan = |step: &str| {
            format!(
                "graph g(x:i32[4], u:i32[3,4]) -> (y)
y:i32[4] = Scan(x, u) {{body={{
  graph b(v:i32[4], e:i32[4]) -> (w)
  {step}
}}, num_scan_inputs=1}}"
            )
        };
        let divided = scan("d:i32[4] = Add(v, e)\n  w:i32[4] = Div(d, 10:i32)");
        assert_eq!(lacks("tract", &divided).len(), 1);
        assert_eq!(lacks("iree", &divided), []);
        let elements = scan("d:i32[4] = Div(e, 10:i32)\n  w:i32[4] = Add(d, v)");
        assert_eq!(lacks("tract", &elements), []);
        let several = scan("d:i32[4] = Div(v, [9, 9, 9, 9]:i32)\n  w:i32[4] = Add(d, e)");
        assert_eq!(lacks("tract", &several), []);
    }

    #[test]
    fn a_hash_must_not_be_scaled_by_two_constants() {
        let hash = |factor: &str| {
            format!(
                "graph g(x:u32[4]) -> (y, z)
h:u32[4] = BitwiseXor(x, 77:u32)
y:u32[4] = Div(h, 100:u32)
z:u32[4] = Mul(h, {factor}:u32)"
            )
        };
        assert_eq!(lacks("tract", &hash("96")).len(), 1);
        assert_eq!(lacks("tract", &hash("100")), []);
    }

    #[test]
    fn the_initial_state_of_a_loop_must_be_its_own() {
        let scan = |state: &str, reader: &str| {
            format!(
                "graph g(x:f32[4], u:f32[3,4]) -> (y)
a:f32[4] = Exp(x)
b:f32[4] = Reshape(a, [4]:i64)
s:f32[4] = Scan({state}, u) {{body={{
  graph b(v:f32[4], e:f32[4]) -> (w)
  w:f32[4] = Add(v, e)
}}, num_scan_inputs=1}}
y:f32[4] = Mul(s, {reader})"
            )
        };
        assert_eq!(lacks("iree", &scan("b", "b")).len(), 1);
        assert_eq!(lacks("iree", &scan("a", "b")).len(), 1);
        assert_eq!(lacks("iree", &scan("x", "a")), []);
        assert_eq!(lacks("tract", &scan("b", "b")), []);
    }

    #[test]
    fn lengths_and_peepholes_that_a_runtime_ignores_are_found() {
        let cell = |op: &str, gates: usize, rest: &str| {
            let (rows, biases) = (gates * 5, gates * 10);
            format!(
                "graph g(x:f32[3,2,4], w:f32[1,{rows},4], r:f32[1,{rows},5], b:f32[1,{biases}], n:i32[2], p:f32[1,15]) -> (y)
y:f32[3,1,2,5] = {op}(x, w, r, b, {rest}"
            )
        };
        let lengths = cell("LSTM", 4, "n) {hidden_size=5}");
        let peepholes = cell("LSTM", 4, "_, _, _, p) {hidden_size=5}");
        let reversed = cell("GRU", 3, "_) {direction=\"reverse\", hidden_size=5}");
        for runtime in ["iree", "rten", "mnn", "tract"] {
            assert_eq!(lacks(runtime, &lengths).len(), 1, "{runtime}");
        }
        assert_eq!(lacks("openvino", &lengths), []);
        assert_eq!(lacks("openvino", &peepholes).len(), 1);
        assert_eq!(lacks("tract", &peepholes), []);
        assert_eq!(lacks("tract", &reversed).len(), 1);
        assert_eq!(lacks("openvino", &reversed), []);
    }

    #[test]
    fn an_input_of_bytes_meets_no_others_in_mnn() {
        let choice = |first: &str| {
            format!(
                "graph g(x:i8[4], c:bool[4], f:f32[4]) -> (y)
k:i8[4] = Cast(f) {{to=3}}
v:i8[2,2] = Reshape(x, [2,2]:i64)
z:i8[4] = Reshape(v, [4]:i64)
y:i8[4] = Where(c, {first}, 1:i8)"
            )
        };
        assert_eq!(lacks("mnn", &choice("z")).len(), 1);
        assert_eq!(lacks("mnn", &choice("k")), []);
        assert_eq!(lacks("openvino", &choice("z")), []);
    }

    #[test]
    fn an_added_axis_of_a_scanned_array_is_found() {
        let scan = |result: &str| {
            format!(
                "graph g(x:f32[5,2], w:f32[5,6], s:f32[1,6]) -> (y)
e:f32[5,1,2] = Unsqueeze(x, [1]:i64)
t:f32[5,1,2] = Tanh(e)
last:f32[1,6], y:f32[5,8] = Scan(s, t, w) {{body={{
  graph b(h:f32[1,6], a:f32[1,2], v:f32[6]) -> (n, r)
  n:f32[1,6] = Add(h, v)
  c:f32[1,8] = Concat(n, a) {{axis=1}}
  {result}
}}, num_scan_inputs=2}}"
            )
        };
        assert_eq!(lacks("tract", &scan("r:f32[8] = Squeeze(c, [0]:i64)")).len(), 1);
        assert_eq!(lacks("tract", &scan("r:f32[1,8] = Neg(c)")), []);
        assert_eq!(lacks("openvino", &scan("r:f32[8] = Squeeze(c, [0]:i64)")), []);
    }

    #[test]
    fn integers_that_wrap_cannot_be_squared_in_tract() {
        let square =
            |dtype: &str| format!("graph g(x:{dtype}[3]) -> (y)\ny:{dtype}[3] = Mul(x, x)");
        assert_eq!(lacks("tract", &square("i64")).len(), 1);
        assert_eq!(lacks("tract", &square("i32")).len(), 1);
        assert_eq!(lacks("rten", &square("i32")), []);
    }
}
