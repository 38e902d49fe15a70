//! The fusions of ONNX Runtime after which a value no longer exists.
//!
//! Only fusions that save memory are here: without them, the value that disappears would count at the peak.

use onnx::scan::{Attribute, AttributeValue, Scan};
use onnx::{Dim, OpType, Type};

use super::flat::{Flat, Node};

/// Merges nodes as ONNX Runtime does by default.
pub(super) fn fuse(flat: &mut Flat, scan: &Scan<'_>) {
    let mut fuser = Fuser {
        scan,
        makers: flat.makers(),
        readers: flat.readers(),
        is_gone: vec![false; flat.nodes.len()],
        last: flat.nodes.len(),
    };
    for number in 0..flat.nodes.len() {
        fuser.node(flat, number);
    }
    let mut gone = fuser.is_gone.into_iter();
    flat.nodes.retain(|_| !gone.next().unwrap_or(false));
}

struct Fuser<'s, 'a> {
    scan: &'s Scan<'a>,
    makers: Vec<Option<usize>>,
    readers: Vec<usize>,
    is_gone: Vec<bool>,
    /// The rank of the last node.
    last: usize,
}

impl Fuser<'_, '_> {
    fn node(&mut self, flat: &mut Flat, number: usize) {
        let Node { op, ref reads, .. } = flat.nodes[number];
        let [a, b] = reads[..] else { return };
        match op {
            Some(OpType::Add) => {
                for (product, other) in [(a, b), (b, a)] {
                    if self.is_product_with_bias(flat, product, other) {
                        flatten_rows(flat, number, product);
                        return self.absorb(flat, number, product);
                    }
                }
            }
            Some(OpType::Mul) => {
                for (x, gate) in [(a, b), (b, a)] {
                    if self.is_gate(flat, x, gate) {
                        return self.absorb(flat, number, gate);
                    }
                }
                self.scale(flat, number, a, b);
            }
            Some(OpType::Div) => self.scale(flat, number, a, b),
            Some(OpType::MatMul) => {
                for operand in [a, b] {
                    if self.swaps_last_axes(flat, operand) {
                        self.absorb(flat, number, operand);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the node that makes a value, if only one operand is this value.
    fn only_for(&self, flat: &Flat, value: u32, op: OpType) -> Option<usize> {
        let maker = self.makers[value as usize]?;
        let is_it = flat.nodes[maker].op == Some(op) && self.readers[value as usize] == 1;
        (is_it && !self.is_gone[maker]).then_some(maker)
    }

    /// A matrix product plus a row, or plus a matrix of its shape, is `Gemm`.
    fn is_product_with_bias(&self, flat: &Flat, product: u32, other: u32) -> bool {
        let Some(maker) = self.only_for(flat, product, OpType::MatMul) else { return false };
        let weights = flat.nodes[maker].reads.get(1).and_then(|&value| flat.ty(value));
        let (Some(weights), Some(ty), Some(bias)) = (weights, flat.ty(product), flat.ty(other))
        else {
            return false;
        };
        let is_row = bias.rank() == 1 && bias.shape.first() == ty.shape.last();
        let is_matrix = ty.rank() == 2 && bias.shape == ty.shape;
        weights.rank() == 2 && ty.dtype.is_float() && (is_row || is_matrix)
    }

    /// `x · sigmoid(x)` is `QuickGelu`.
    fn is_gate(&self, flat: &Flat, x: u32, gate: u32) -> bool {
        let maker = self.only_for(flat, gate, OpType::Sigmoid);
        maker.is_some_and(|maker| flat.nodes[maker].reads[..] == [x])
    }

    /// A product times a constant number is one product.
    fn scale(&mut self, flat: &mut Flat, number: usize, a: u32, b: u32) {
        let is_number =
            |value: u32| flat.is_constant(value) && flat.ty(value).is_some_and(|ty| ty.rank() == 0);
        let product = if is_number(b) { a } else { b };
        let is_scaled =
            is_number(b) || (is_number(a) && flat.nodes[number].op == Some(OpType::Mul));
        if is_scaled && self.only_for(flat, product, OpType::MatMul).is_some() {
            self.absorb(flat, number, product);
        }
    }

    /// A product transposes the last two axes of its operands itself.
    fn swaps_last_axes(&self, flat: &Flat, operand: u32) -> bool {
        let Some(maker) = self.only_for(flat, operand, OpType::Transpose) else { return false };
        let Some(rank) = flat.ty(operand).map(Type::rank) else { return false };
        let node = self.scan.nodes.get(flat.nodes[maker].number);
        let perm = match node.and_then(|node| node.attribute("perm")).map(Attribute::value) {
            Some(AttributeValue::Ints(perm)) => perm,
            Some(_) => return false,
            None => (0..rank as i64).rev().collect(),
        };
        let mut swapped: Vec<i64> = (0..rank as i64).collect();
        if rank >= 2 {
            swapped.swap(rank - 1, rank - 2);
        }
        rank >= 2 && perm == swapped
    }

    /// Lets a node do the work of the node that makes one of its operands.
    fn absorb(&mut self, flat: &mut Flat, number: usize, operand: u32) {
        let Some(maker) = self.makers[operand as usize] else { return };
        let reads = flat.nodes[maker].reads.clone();
        let node = &mut flat.nodes[number];
        node.reads.retain(|value| *value != operand);
        for value in reads {
            if node.reads.contains(&value) {
                self.readers[value as usize] -= 1;
            } else {
                node.reads.push(value);
            }
        }
        self.is_gone[maker] = true;
        self.last += 1;
        node.rank = self.last;
    }
}

/// `Gemm` computes with matrices, so the buffer of its result has two axes.
fn flatten_rows(flat: &mut Flat, number: usize, product: u32) {
    let Some(ty) = flat.ty(product) else { return };
    let Some((last, rows)) = ty.shape.split_last() else { return };
    let rows = Dim::checked_product(rows).filter(|rows| rows.known().is_some());
    if let (Some(rows), true) = (rows, ty.rank() > 2) {
        let matrix = Type::new(ty.dtype, vec![rows, last.clone()]);
        if let Some(result) = flat.nodes[number].writes.first().copied().flatten() {
            flat.values[result as usize].computed = Some(matrix);
        }
    }
}
