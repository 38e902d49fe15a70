//! What a pass makes of one node, where it needs no pattern for it.

use onnx::{Edit, Op, ValueId};

pub(crate) enum Change {
    /// It gives back a value of its type; what is looked through or decides that is its part.
    Value(ValueId, Vec<usize>),
    /// It is another operator, which computes these nodes too.
    Op(Op<'static>, Vec<usize>),
}

/// Changes every node of ONNX that there is something better for, in order.
pub(crate) fn each(edit: &mut Edit<'_>, better: fn(&Edit<'_>, usize) -> Option<Change>) {
    for index in 0..edit.len() {
        let node = edit.node(index);
        if !node.op.is_onnx() || node.outputs.len() != 1 {
            continue;
        }
        match better(edit, index) {
            Some(Change::Value(value, passed)) => {
                let result = edit.node(index).outputs[0];
                if edit.ty(value).is_some() && edit.ty(value) == edit.ty(result) {
                    edit.fuse(index, &passed);
                    edit.forward(index, value);
                }
            }
            Some(Change::Op(op, fused)) => edit.rewrite(index, &fused, op),
            None => {}
        }
    }
}
