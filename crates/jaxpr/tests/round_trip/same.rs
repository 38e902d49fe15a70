//! Compares programs regardless of the ids of variables, call paths and name scopes.

use std::collections::HashMap;

use jaxpr::{Atom, Jaxpr, Param, Program, SourceInfo, VarId};
use provenance::Table;

pub fn programs(left: &Program, right: &Program) -> bool {
    jaxprs((&left.main, &left.table), (&right.main, &right.table))
}

type In<'a, T> = (&'a T, &'a Table);

fn jaxprs((left, left_table): In<'_, Jaxpr>, (right, right_table): In<'_, Jaxpr>) -> bool {
    let mut pairs = HashMap::new();
    let mut define =
        |a: VarId, b: VarId| pairs.insert(a, b).is_none() && left.aval(a) == right.aval(b);
    let ids = |a: &[VarId], b: &[VarId], define: &mut dyn FnMut(VarId, VarId) -> bool| {
        all(a, b, |a, b| define(*a, *b))
    };
    let defined = ids(&left.inputs, &right.inputs, &mut define)
        && all(&left.constants, &right.constants, |a, b| define(a.0, b.0) && a.1 == b.1)
        && all(&left.eqns, &right.eqns, |a, b| ids(&a.outputs, &b.outputs, &mut define));
    let atoms = |a: &[Atom], b: &[Atom]| {
        all(a, b, |a, b| match (a, b) {
            (Atom::Var(a), Atom::Var(b)) => pairs.get(a) == Some(b),
            (Atom::Literal(a), Atom::Literal(b)) => a == b,
            _ => false,
        })
    };
    let place = |a: SourceInfo, b: SourceInfo| places(a, left_table) == places(b, right_table);
    let eqns = all(&left.eqns, &right.eqns, |a, b| {
        a.primitive == b.primitive
            && atoms(&a.inputs, &b.inputs)
            && all(a.params.entries(), b.params.entries(), |a, b| {
                a.0 == b.0 && params((&a.1, left_table), (&b.1, right_table))
            })
            && place(a.place, b.place)
    });
    defined
        && eqns
        && left.name == right.name
        && left.input_names == right.input_names
        && place(left.place, right.place)
        && atoms(&left.outputs, &right.outputs)
}

fn params((left, left_table): In<'_, Param>, (right, right_table): In<'_, Param>) -> bool {
    let inner = |a: &Param, b: &Param| params((a, left_table), (b, right_table));
    match (left, right) {
        (Param::None, Param::None) => true,
        (Param::Bool(a), Param::Bool(b)) => a == b,
        (Param::Int(a), Param::Int(b)) => a == b,
        (Param::Float(a), Param::Float(b)) => a.to_bits() == b.to_bits(),
        (Param::Str(a), Param::Str(b)) | (Param::Opaque(a), Param::Opaque(b)) => a == b,
        (Param::DType(a), Param::DType(b)) => a == b,
        (Param::Dim(a), Param::Dim(b)) => a == b,
        (Param::Aval(a), Param::Aval(b)) => a == b,
        (Param::Array(a), Param::Array(b)) => a == b,
        (Param::Enum(a, member), Param::Enum(b, other)) => a == b && member == other,
        (Param::Seq(a), Param::Seq(b)) => all(a, b, inner),
        (Param::Record(a, fields), Param::Record(b, others)) => {
            a == b && all(fields, others, |a, b| a.0 == b.0 && inner(&a.1, &b.1))
        }
        (Param::Jaxpr(a), Param::Jaxpr(b)) => jaxprs((a, left_table), (b, right_table)),
        _ => false,
    }
}

/// Resolves all ids of a source location.
fn places(place: SourceInfo, table: &Table) -> impl PartialEq {
    let frames = place.stack.map(|stack| {
        let locations = table.frames(stack).map(|id| table.get_location(id));
        let full = locations.map(|location| {
            let file = table.get_file(location.file).clone();
            (file, table.get_function(location.function).to_owned(), location.line, location.span)
        });
        full.collect::<Vec<_>>()
    });
    let scopes = place.scope.map(|scope| {
        let entries = table.scope_path(scope).into_iter().map(|id| table.get_scope(id));
        entries.map(|entry| (entry.kind, entry.name.clone())).collect::<Vec<_>>()
    });
    (frames, scopes)
}

fn all<T>(left: &[T], right: &[T], mut same: impl FnMut(&T, &T) -> bool) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(a, b)| same(a, b))
}
