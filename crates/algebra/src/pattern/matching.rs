//! Matches a pattern against a graph.

use onnx::operator::Properties;
use onnx::{DType, Edit, OpType, Operator, ValueId};

use super::{Pattern, PatternKind};

/// The maximum number of nodes that `PatternKind::Through` skips.
const MAX_SKIPPED: usize = 4;

/// The values of the names of a pattern, and the matched nodes.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    values: Vec<(&'static str, ValueId)>,
    pub nodes: Vec<usize>,
}

impl Bindings {
    pub fn value(&self, name: &str) -> Option<ValueId> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Binds a name to a value. False if the name has another value.
    fn bind(&mut self, name: &'static str, value: ValueId) -> bool {
        if let Some(known) = self.value(name) {
            return known == value;
        }
        self.values.push((name, value));
        true
    }
}

/// Matches the pattern, with its last node at `index`.
pub fn find(edit: &Edit<'_>, pattern: &Pattern, index: usize) -> Option<Bindings> {
    let mut bindings = Bindings::default();
    let result = *edit.node(index).outputs.first()?;
    let mut search = Search { edit, bindings: &mut bindings };
    search.value(pattern, result).then_some(bindings)
}

struct Search<'s, 'e> {
    edit: &'s Edit<'e>,
    bindings: &'s mut Bindings,
}

impl Search<'_, '_> {
    /// Runs an attempt. If it fails, drops the names that it bound.
    fn attempt(&mut self, attempt: impl FnOnce(&mut Self) -> bool) -> bool {
        let (values, nodes) = (self.bindings.values.len(), self.bindings.nodes.len());
        let fits = attempt(self);
        if !fits {
            self.bindings.values.truncate(values);
            self.bindings.nodes.truncate(nodes);
        }
        fits
    }

    fn value(&mut self, pattern: &Pattern, value: ValueId) -> bool {
        match &*pattern.0 {
            PatternKind::Hole(name) => self.bindings.bind(name, value),
            PatternKind::Constant(name) => {
                self.edit.tensor(value).is_some() && self.bindings.bind(name, value)
            }
            PatternKind::Number(number) => self
                .number(value)
                .is_some_and(|(found, dtype)| is_near(found, *number, self.digits(dtype))),
            PatternKind::AnyNumber(name) => {
                let (found, known) = (self.number(value), self.bindings.value(name));
                match known {
                    Some(known) => found.is_some() && found == self.number(known),
                    None => found.is_some() && self.bindings.bind(name, value),
                }
            }
            PatternKind::Named(name, inner) => {
                self.attempt(|s| s.value(inner, value) && s.bindings.bind(name, value))
            }
            PatternKind::SuchThat(inner, condition) => {
                condition(self.edit, value) && self.value(inner, value)
            }
            PatternKind::Either(patterns) => {
                patterns.iter().any(|pattern| self.attempt(|s| s.value(pattern, value)))
            }
            PatternKind::Through(ops, inner) => self.through(inner, value, *ops),
            PatternKind::Product { factors, number } => {
                let factors: Vec<&Pattern> = factors.iter().collect();
                self.attempt(|s| s.product(&[value], &factors, *number, value, 0))
            }
            PatternKind::Node { op, operands, commutes } => {
                self.attempt(|s| s.node(op, operands, *commutes, value))
            }
        }
    }

    /// Matches a value, or a value before a few nodes with these operators.
    fn through(&mut self, inner: &Pattern, value: ValueId, ops: Properties) -> bool {
        let edit = self.edit;
        self.attempt(|s| {
            s.attempt(|s| s.value(inner, value))
                || edit.walk(value, ops).take(MAX_SKIPPED).any(|(index, operand)| {
                    s.bindings.nodes.push(index);
                    s.attempt(|s| s.value(inner, operand))
                })
        })
    }

    fn node(
        &mut self,
        op: &Operator,
        operands: &[Pattern],
        commutes: bool,
        value: ValueId,
    ) -> bool {
        let Some(index) = self.edit.producer(value) else { return false };
        let node = self.edit.node(index);
        if node.op != *op || node.inputs.len() < operands.len() {
            return false;
        }
        self.bindings.nodes.push(index);
        let all = |s: &mut Self, is_swapped: bool| {
            operands.iter().enumerate().all(|(operand, pattern)| {
                let operand = if is_swapped { 1 - operand } else { operand };
                s.edit.input(index, operand).is_some_and(|input| s.value(pattern, input))
            })
        };
        self.attempt(|s| all(s, false)) || (commutes && self.attempt(|s| all(s, true)))
    }

    /// Matches the remaining factors with the open values. The product of the numbers among these values must be
    /// `number`.
    fn product(
        &mut self,
        open: &[ValueId],
        factors: &[&Pattern],
        number: f64,
        whole: ValueId,
        depth: usize,
    ) -> bool {
        let Some((&value, rest)) = open.split_first() else {
            let dtype = self.edit.ty(whole).map_or(DType::F32, |ty| ty.dtype);
            return factors.is_empty() && is_near(1.0, number, self.digits(dtype));
        };
        // A number is part of `number`, or matches a hole.
        if let Some((found, _)) = self.number(value)
            && found != 0.0
            && self.attempt(|s| s.product(rest, factors, number / found, whole, depth))
        {
            return true;
        }
        for (position, factor) in factors.iter().enumerate() {
            let mut left = factors.to_vec();
            left.remove(position);
            if self
                .attempt(|s| s.value(factor, value) && s.product(rest, &left, number, whole, depth))
            {
                return true;
            }
        }
        if depth > 6 {
            return false;
        }
        let Some(index) = self.edit.producer(value) else { return false };
        let node = self.edit.node(index);
        let operands = (self.edit.input(index, 0), self.edit.input(index, 1));
        let (true, (Some(a), Some(b))) = (node.op.is_onnx(), operands) else { return false };
        self.attempt(|s| {
            s.bindings.nodes.push(index);
            match s.edit.op(index) {
                Some(OpType::Mul) => {
                    let open = [&[a, b], rest].concat();
                    s.product(&open, factors, number, whole, depth + 1)
                }
                Some(OpType::Div) => s.number(b).is_some_and(|(found, _)| {
                    let open = [&[a], rest].concat();
                    s.product(&open, factors, number * found, whole, depth + 1)
                }),
                _ => false,
            }
        })
    }

    /// Returns the number that all elements of a constant are equal to, and its type.
    fn number(&self, value: ValueId) -> Option<(f64, DType)> {
        let tensor = self.edit.tensor(value)?;
        Some((tensor.number()?, tensor.dtype))
    }

    /// Returns the type whose digits a constant of a type has.
    fn digits(&self, dtype: DType) -> DType {
        self.edit.widened().filter(|_| dtype == DType::F32).unwrap_or(dtype)
    }
}

/// True if a constant of a type is a number, up to the last digits. Libraries round constants differently.
fn is_near(found: f64, number: f64, dtype: DType) -> bool {
    let tolerance = match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 1e-6,
        DType::F16 => 2e-3,
        DType::Bf16 => 2e-2,
        _ => 0.0,
    };
    if number == 0.0 {
        return found == 0.0 && found.is_sign_negative() == number.is_sign_negative();
    }
    found == number || (number.is_finite() && (found - number).abs() <= tolerance * number.abs())
}
