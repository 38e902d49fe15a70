//! `fuse-causal-convolutions`: writes a convolution over a state and new entries as `CausalConvWithState` of ONNX Runtime.
//!
//! The operator convolves each channel along the last axis, and returns the entries that the next call reads as its
//! state. It also computes `SiLU`. JAX often has the channels last, so that arrays are transposed.

use algebra::axis_map::transpose;
use algebra::rewrite::require;
use onnx::{Attr, DType, Dim, Edit, Op, OpType, Operator, Outcome, Patch, Type, ValueId};

const DOMAIN: &str = "com.microsoft";
const NAME: &str = "CausalConvWithState";

/// The order of the last two axes for the operator.
const SWAPPED: [usize; 3] = [0, 2, 1];

/// A convolution whose operand consists of a state and of new entries.
struct Convolution {
    /// The node that joins them.
    joined: ValueId,
    past: ValueId,
    new: ValueId,
    /// The nodes between them and the convolution.
    nodes: Vec<usize>,
    /// True if the channels are the last axis.
    is_transposed: bool,
    /// The number of entries of the state.
    size: i64,
}

pub(crate) fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    require(edit.target().has_state_operators())?;
    let found = Convolution::at(edit, edit.root())?;
    let (weights, bias) = (edit.input(edit.root(), 1)?, edit.input(edit.root(), 2));
    let result = edit.result(edit.root());
    let silu = silu_of(edit, result);
    let presents: Vec<usize> =
        edit.readers(found.joined).filter(|&node| found.is_present(edit, node).is_some()).collect();
    let first = presents.iter().copied().chain([edit.root()]).min()?;
    edit.move_to(first);
    let order = |edit: &mut Patch<'_, '_>, id: ValueId| match found.is_transposed {
        true => edit.insert(transpose(id, &SWAPPED)),
        false => id,
    };
    let (past, new) = (order(edit, found.past), order(edit, found.new));
    let y = edit.ty(result)?.clone();
    let state = Type::new(DType::F32, [&y.shape[..2], &[Dim::Known(found.size)]].concat());
    let inputs = vec![Some(new), Some(weights), bias, Some(past)];
    let op = Op { op: Operator::new(DOMAIN, NAME), inputs, attrs: Vec::new() };
    let op = op.attr("activation", if silu.is_some() { "silu" } else { "none" });
    let types = [edit.body_input(y), edit.body_input(state)];
    edit.take(&found.nodes);
    let (root, replaced) = match &silu {
        Some((last, nodes)) => {
            edit.take(&[nodes.as_slice(), &[*last]].concat());
            (*last, nodes.as_slice())
        }
        None => (edit.root(), &[][..]),
    };
    let made = edit.insert_instead(op, &types.map(Some));
    let present = order(edit, made[1]);
    for slice in presents {
        if let Err(why) = edit.replace(slice, found.nodes.clone(), present) {
            return Some(Err(why));
        }
    }
    let fused: Vec<usize> =
        found.nodes.iter().chain(replaced).copied().chain([edit.root()]).collect();
    Some(edit.replace(root, fused, made[0]))
}

impl Convolution {
    fn at(edit: &Edit<'_>, index: usize) -> Option<Convolution> {
        let node = edit.node(index);
        require(node.op == OpType::Conv && node.attr("auto_pad").is_none())?;
        let is_all = |name: &str, number: i64| match node.attr(name) {
            None => true,
            Some(Attr::Ints(ints)) => ints.iter().all(|&int| int == number),
            Some(_) => false,
        };
        require(is_all("strides", 1) && is_all("dilations", 1) && is_all("pads", 0))?;
        let operand = edit.input(index, 0)?;
        let weights = edit.ty(edit.input(index, 1)?)?;
        let [channels, one, kernel] = &weights.shape[..] else { return None };
        let is_depthwise = one.is(1) && node.attr("group") == Some(&Attr::Int(channels.known()?));
        require(is_depthwise && weights.dtype == DType::F32)?;
        let size = kernel.known()? - 1;
        let turned = edit.made_by(operand, OpType::Transpose);
        let turned = turned.filter(|&node| edit.perm(node).is_some_and(|perm| perm == SWAPPED));
        let joined = match turned {
            Some(node) => edit.input(node, 0)?,
            None => operand,
        };
        let axis = if turned.is_some() { 1 } else { 2 };
        let concat = edit.made_by(joined, OpType::Concat)?;
        require(edit.axis(concat)? == axis && edit.node(concat).inputs.len() == 2)?;
        let (past, new) = (edit.input(concat, 0)?, edit.input(concat, 1)?);
        require(size > 0 && edit.shape(past)?.get(axis)?.is(size))?;
        let nodes = turned.into_iter().chain([concat]).collect();
        Some(Convolution { joined, past, new, nodes, is_transposed: turned.is_some(), size })
    }

    /// Tests that a node returns the last entries, which are the next state.
    fn is_present(&self, edit: &Edit<'_>, node: usize) -> Option<()> {
        require(edit.op(node) == Some(OpType::Slice))?;
        let axis = if self.is_transposed { 1 } else { 2 };
        let length = edit.shape(self.joined)?.get(axis)?.known()?;
        let at = |operand: usize| match edit.ints(node, operand)?[..] {
            [int] => Some(int),
            _ => None,
        };
        let from_front = |place: i64| if place < 0 { place + length } else { place };
        require(at(3)? == axis as i64 && from_front(at(1)?) == length - self.size)?;
        let is_whole = from_front(at(2)?) >= length;
        (is_whole && edit.input(node, 4).is_none_or(|_| at(4) == Some(1))).then_some(())
    }
}

/// Returns the node that computes `SiLU` of a value, and the nodes between, if nothing else reads the value.
fn silu_of(edit: &Edit<'_>, value: ValueId) -> Option<(usize, Vec<usize>)> {
    require(!edit.is_result(value) && edit.reads(value) == 2)?;
    let readers: Vec<usize> = edit.readers(value).collect();
    let of = |op: OpType| readers.iter().copied().find(|&node| edit.op(node) == Some(op));
    let (sigmoid, product) = (of(OpType::Sigmoid)?, of(OpType::Mul)?);
    let gate = edit.result(sigmoid);
    require(edit.reads(gate) == 1 && edit.readers(gate).any(|node| node == product))?;
    Some((product, vec![sigmoid]))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_for;

    const TARGET: &str = "onnxruntime>=1.31";

    #[test]
    fn a_convolution_over_a_state_and_its_silu_are_one_operator() {
        check_for(
            TARGET,
            super::run,
            "graph g(s:f32[2,3,4], x:f32[2,9,4], w:f32[4,1,4], b:f32[4]) -> (y, n)
%0:f32[2,12,4] = Concat(s, x) {axis=1}
%1:f32[2,4,12] = Transpose(%0) {perm=[0, 2, 1]}
%2:f32[2,4,9] = Conv(%1, w, b) {kernel_shape=[4], group=4}
%3:f32[2,4,9] = Sigmoid(%2)
%4:f32[2,4,9] = Mul(%2, %3)
y:f32[2,9,4] = Transpose(%4) {perm=[0, 2, 1]}
n:f32[2,3,4] = Slice(%0, [9]:i64, [12]:i64, [1]:i64)",
            expect![[r#"
                graph g(s:f32[2,3,4], x:f32[2,9,4], w:f32[4,1,4], b:f32[4]) -> (y, n)
                %0 = Transpose(s) {perm=[0, 2, 1]}  # 4
                %1 = Transpose(x) {perm=[0, 2, 1]}  # 4
                %2, %3 = com.microsoft::CausalConvWithState(%1, w, b, %0) {activation="silu"}  # 4 2 3 5 6
                n:f32[2,3,4] = Transpose(%3) {perm=[0, 2, 1]}  # 3 2 4 5 6 8
                y:f32[2,9,4] = Transpose(%2) {perm=[0, 2, 1]}  # 7
            "#]],
        );
    }

    #[test]
    fn a_convolution_without_an_activation_keeps_other_readers_of_its_operand() {
        check_for(
            TARGET,
            super::run,
            "graph g(s:f32[2,4,1], x:f32[2,4,T], w:f32[4,1,2]) -> (y, n)
%0:f32[2,4,T + 1] = Concat(s, x) {axis=2}
y:f32[2,4,T] = Conv(%0, w) {kernel_shape=[2], group=4}
n:f32[2,4,1] = Slice(%0, [0]:i64, [1]:i64, [2]:i64)",
            expect![[r#"
                graph g(s:f32[2,4,1], x:f32[2,4,T], w:f32[4,1,2]) -> (y, n)
                %0 = Concat(s, x) {axis=2}  # 2
                y:f32[2,4,T], %1 = com.microsoft::CausalConvWithState(x, w, _, s) {activation="none"}  # 3 2
                n:f32[2,4,1] = Slice(%0, [0]:i64, [1]:i64, [2]:i64)  # 4
            "#]],
        );
    }

    #[test]
    fn other_convolutions_stay() {
        check_for(
            TARGET,
            super::run,
            "graph g(s:f32[2,4,2], x:f32[2,4,9], w:f32[4,1,2], u:f32[4,4,3]) -> (a, b, c)
%0:f32[2,4,11] = Concat(s, x) {axis=2}
a:f32[2,4,10] = Conv(%0, w) {kernel_shape=[2], group=4}
b:f32[2,4,9] = Conv(%0, u) {kernel_shape=[3]}
c:f32[2,4,9] = Conv(%0, w) {kernel_shape=[2], group=4, dilations=[2]}",
            expect![[r#"
                graph g(s:f32[2,4,2], x:f32[2,4,9], w:f32[4,1,2], u:f32[4,4,3]) -> (a, b, c)
                %0 = Concat(s, x) {axis=2}  # 2
                a:f32[2,4,10] = Conv(%0, w) {group=4, kernel_shape=[2]}  # 3
                b:f32[2,4,9] = Conv(%0, u) {kernel_shape=[3]}  # 4
                c:f32[2,4,9] = Conv(%0, w) {dilations=[2], group=4, kernel_shape=[2]}  # 5
            "#]],
        );
    }
}
