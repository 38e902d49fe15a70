//! Sizes of axes: their arithmetic, and the nodes that compute them when the model runs.

use sizes::{Atom, Operation, Polynomial, Symbol, Term};

use super::Builder;
use crate::attr::Attr;
use crate::dtype::DType;
use crate::expr::Expr;
use crate::operator::OpType;
use crate::value::{Dim, Type, ValueId};

/// The axis of an input from which a symbol is computed: its size is `factor · symbol + rest`.
#[derive(Clone, Debug)]
pub struct SymbolSource {
    pub input: ValueId,
    pub axis: usize,
    pub factor: i64,
    pub rest: Dim,
}

impl Builder {
    /// Sets how to compute a symbol, unless it is already set.
    pub fn bind_symbol(&self, symbol: &Symbol, source: SymbolSource) {
        self.state.borrow_mut().symbols.entry(symbol.clone()).or_insert(source);
    }

    /// True if a source is set for the symbol.
    pub fn is_bound(&self, symbol: &Symbol) -> bool {
        self.state.borrow().symbols.contains_key(symbol)
    }

    /// Returns the size of several axes that are merged into one.
    pub fn product(&self, dims: &[Dim]) -> Dim {
        let product = self.checked(Dim::checked_product(dims), dims, "*");
        if matches!(&product, Dim::Symbolic(sum) if sum.terms().len() > 1) {
            let factors: Vec<Dim> = dims.iter().filter(|dim| !dim.is(1)).cloned().collect();
            // The order is well-founded, so no product is ever computed from itself.
            if factors.iter().all(|factor| factor.is_simpler_than(&product)) {
                let mut state = self.state.borrow_mut();
                state.products.entry(product.clone()).or_insert(factors);
            }
        }
        product
    }

    /// Returns the sum of two sizes.
    pub fn sum(&self, a: &Dim, b: &Dim) -> Dim {
        self.checked(a.checked_add(b), &[a.clone(), b.clone()], " + ")
    }

    /// Returns the difference of two sizes.
    pub fn difference(&self, a: &Dim, b: &Dim) -> Dim {
        self.checked(a.checked_sub(b), &[a.clone(), b.clone()], " - ")
    }

    /// Returns the larger of the size and a number.
    pub fn at_least(&self, size: &Dim, least: i64) -> Dim {
        let least = Dim::Known(least);
        self.checked(size.checked_max(&least), &[size.clone(), least], " or ")
    }

    fn checked(&self, result: Option<Dim>, operands: &[Dim], sign: &str) -> Dim {
        result.unwrap_or_else(|| {
            let texts: Vec<String> = operands.iter().map(|dim| format!("({dim})")).collect();
            let what = format!("the size `{}` is too large", texts.join(sign));
            let _ = self.broken(what, Type::new(DType::I64, []));
            Dim::Known(1)
        })
    }

    /// Returns the sizes of several axes, as the list that `Reshape` and `Expand` take.
    ///
    /// JAX simplifies sizes for symbols that are positive: `B - 1` stands for `max(B - 1, 0)`. If a symbol is 0, the
    /// axis is empty.
    #[track_caller]
    pub fn sizes(&self, dims: &[Dim]) -> Expr<'_> {
        let is_size = |dim: &Dim| {
            let is_known = dim.known().is_some() || dim.is_at_least(0);
            is_known || self.axis_in(self.innermost_region(), dim).is_some()
        };
        if dims.iter().all(is_size) {
            return self.numbers(dims);
        }
        let size = |dim: &Dim| if is_size(dim) { dim.clone() } else { self.at_least(dim, 0) };
        self.numbers(&dims.iter().map(size).collect::<Vec<Dim>>())
    }

    /// Returns several integers, computed like sizes, as a list.
    #[track_caller]
    pub fn numbers(&self, dims: &[Dim]) -> Expr<'_> {
        if let Some(known) = dims.iter().map(Dim::known).collect::<Option<Vec<i64>>>() {
            return self.ints(&known);
        }
        let parts: Vec<Expr<'_>> = dims
            .chunk_by(|a, b| a.known().is_some() && b.known().is_some())
            .map(|run| match run.iter().map(Dim::known).collect::<Option<Vec<i64>>>() {
                Some(known) => self.ints(&known),
                None => self.size(&run[0]).unsqueeze(&[0]),
            })
            .collect();
        match parts[..] {
            [single] => single,
            _ => Expr::concat(&parts, 0),
        }
    }

    /// Returns the size of an axis, as a scalar of 64-bit integers.
    ///
    /// A symbolic size is computed once, in the main graph or in the enclosing function, where every body can read
    /// it.
    #[track_caller]
    pub fn size(&self, dim: &Dim) -> Expr<'_> {
        self.size_in(self.innermost_region(), dim)
    }

    /// Returns a size that is computed in the region, if the shapes of its inputs determine it. Otherwise the size
    /// is computed outside and becomes an input.
    #[track_caller]
    fn size_in(&self, region: usize, dim: &Dim) -> Expr<'_> {
        let polynomial = match dim {
            Dim::Known(size) => return self.constant_ints(DType::I64, &[], &[*size]),
            Dim::Symbolic(polynomial) => polynomial,
        };
        let computed = self.state.borrow().regions[region].sizes.get(dim).copied();
        if let Some(id) = computed {
            return Expr { builder: self, id };
        }
        let value = match (self.axis_in(region, dim), region.checked_sub(1)) {
            (Some((input, axis)), _) => self.in_region(region, || self.size_of_axis(input, axis)),
            (None, Some(outer)) if !self.can_be_computed(region, dim) => self.size_in(outer, dim),
            _ => self.in_region(region, || self.compute(region, dim, polynomial)),
        };
        let mut state = self.state.borrow_mut();
        state.values[value.id].sizes = Some([dim.clone()].into());
        state.regions[region].sizes.insert(dim.clone(), value.id);
        value
    }

    /// Returns the axis of an input of the region that has this size.
    fn axis_in(&self, region: usize, dim: &Dim) -> Option<(ValueId, usize)> {
        let state = self.state.borrow();
        state.regions[region].inputs.iter().find_map(|&id| {
            let shape = &state.values[id].ty.as_ref()?.shape;
            Some((id, shape.iter().position(|other| other == dim)?))
        })
    }

    /// True if the inputs of a region determine the size.
    fn can_be_computed(&self, region: usize, dim: &Dim) -> bool {
        if self.axis_in(region, dim).is_some() {
            return true;
        }
        let Dim::Symbolic(polynomial) = dim else { return true };
        let mut atoms = polynomial.terms().iter().flat_map(Term::factors);
        atoms.all(|(atom, _)| match atom {
            Atom::Symbol(symbol) => self.source_in(region, symbol).is_some(),
            Atom::Operation(_, operands) => {
                operands.iter().all(|operand| self.can_be_computed(region, operand))
            }
        })
    }

    /// Returns the source of a symbol in the region.
    fn source_in(&self, region: usize, symbol: &Symbol) -> Option<SymbolSource> {
        let source = self.state.borrow().symbols.get(symbol).cloned();
        if region == 0 {
            return source;
        }
        let itself = Dim::from(symbol.clone());
        if let Some((input, axis)) = self.axis_in(region, &itself) {
            return Some(SymbolSource { input, axis, factor: 1, rest: Dim::Known(0) });
        }
        let source = source?;
        let shape = self.type_of(source.input).shape;
        let (input, axis) = self.axis_in(region, shape.get(source.axis)?)?;
        let source = SymbolSource { input, axis, ..source };
        self.can_be_computed(region, &source.rest).then_some(source)
    }

    #[track_caller]
    fn size_of_axis(&self, input: ValueId, axis: usize) -> Expr<'_> {
        let input = Expr { builder: self, id: input };
        let range = vec![("start", Attr::Int(axis as i64)), ("end", Attr::Int(axis as i64 + 1))];
        self.node(OpType::Shape, &[input], range).squeeze(&[0])
    }

    #[track_caller]
    fn compute(&self, region: usize, dim: &Dim, polynomial: &Polynomial) -> Expr<'_> {
        if let Some(symbol) = dim.as_symbol() {
            return self.compute_symbol(region, symbol);
        }
        let factors = self.state.borrow().products.get(dim).cloned();
        if let Some(factors) = factors {
            let factors: Vec<Expr<'_>> =
                factors.iter().map(|factor| self.size_in(region, factor)).collect();
            return self.multiply(&factors);
        }
        // If a sum has a term with a positive coefficient, it starts with that term.
        let terms = polynomial.terms();
        let first = terms.iter().position(|term| term.coefficient() > 0).unwrap_or(0);
        let mut sum = self.compute_term(region, &terms[first], terms[first].coefficient());
        for (i, term) in terms.iter().enumerate() {
            let coefficient = term.coefficient();
            let subtracted = coefficient.checked_neg().filter(|&negated| negated > 0);
            match subtracted {
                _ if i == first => {}
                Some(negated) => sum = sum - self.compute_term(region, term, negated),
                None => sum = sum + self.compute_term(region, term, coefficient),
            }
        }
        sum
    }

    #[track_caller]
    fn compute_term(&self, region: usize, term: &Term, coefficient: i64) -> Expr<'_> {
        let mut factors = Vec::new();
        if coefficient != 1 {
            factors.push(self.constant_ints(DType::I64, &[], &[coefficient]));
        }
        for (atom, exponent) in term.factors() {
            let factor = match atom {
                Atom::Symbol(symbol) => self.size_in(region, &Dim::from(symbol.clone())),
                Atom::Operation(op, operands) => self.compute_operation(region, *op, operands),
            };
            factors.extend(std::iter::repeat_n(factor, exponent as usize));
        }
        self.multiply(&factors)
    }

    #[track_caller]
    fn multiply<'g>(&'g self, factors: &[Expr<'g>]) -> Expr<'g> {
        match factors {
            [] => self.constant_ints(DType::I64, &[], &[1]),
            [first, others @ ..] => others.iter().fold(*first, |product, &factor| product * factor),
        }
    }

    #[track_caller]
    fn compute_operation(&self, region: usize, op: Operation, operands: &[Dim; 2]) -> Expr<'_> {
        let [a, b] = [&operands[0], &operands[1]].map(|operand| self.size_in(region, operand));
        let is_truncated = operands[0].is_at_least(0) && operands[1].is_at_least(0);
        let has_divisor = operands[1].is_positive() || operands[1].known().is_some();
        // If the divisor is 0, the axis is empty and the result does not matter, but ONNX Runtime fails at the
        // division.
        let divisor = || if has_divisor { b } else { b.equal(0.0).select(b.constant(1.0), b) };
        match op {
            Operation::FloorDiv if is_truncated => a / divisor(),
            // Subtracting the remainder with the divisor's sign makes the quotient exact.
            Operation::FloorDiv => {
                let b = divisor();
                (a - a.modulo(b)) / b
            }
            Operation::Mod => a.modulo(divisor()),
            Operation::Max => a.max(b),
            Operation::Min => a.min(b),
        }
    }

    /// Solves `size of the axis = factor · symbol + rest` for the symbol.
    #[track_caller]
    fn compute_symbol(&self, region: usize, symbol: &Symbol) -> Expr<'_> {
        let Some(source) = self.source_in(region, symbol) else {
            let ty = Type::new(DType::I64, []);
            return self.broken(format!("the size `{symbol}` is not known"), ty);
        };
        let size = self.size_of_axis(source.input, source.axis);
        let rest = || self.size_in(region, &source.rest);
        let multiple = match source.factor {
            1.. if source.rest.is(0) => size,
            1.. => size - rest(),
            _ => rest() - size,
        };
        let factor = source.factor.unsigned_abs() as i64;
        if factor == 1 { multiple } else { multiple / self.size(&Dim::Known(factor)) }
    }
}
