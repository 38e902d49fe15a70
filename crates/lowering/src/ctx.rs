//! What a plugin is given: the equation, and the means to build.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use jaxpr::{Atom, Aval, FromParam, Jaxpr, ParamError, Reading};
use onnx::build::Place;
use onnx::{Builder, Dim, Expr, Problem, Size, SizeOp, Tensor, Type};
use provenance::{ScopeKind, StackId};
use rustc_hash::FxHashMap;

use crate::complex::{Complex, part_type};
use crate::element::Element;
use crate::error::{LoweringError, Refused, Result, Stop};
use crate::function::Equations;
use crate::linear::{self, Linear};
use crate::plugin::{Lower, Parts, Plugin};

/// The lowering of one program.
pub(crate) struct Ctx<'g> {
    pub builder: &'g Builder,
    plugins: FxHashMap<&'static str, &'static Plugin>,
    /// Where the function that is lowered is defined.
    definition: Option<StackId>,
    /// The axis of an input that each symbol is the size of.
    symbols: RefCell<FxHashMap<Arc<str>, Size>>,
    /// The shape of the arrays on whose elements a body of scalars is lowered.
    on_each: RefCell<Option<Arc<[Dim]>>>,
}

/// An equation with its operands already lowered.
pub(crate) struct Eqn<'g, 'a> {
    pub primitive: &'a Arc<str>,
    pub inputs: Vec<Expr<'g>>,
    /// The types that JAX says the results have.
    pub outputs: Vec<Type>,
    /// What JAX calls the elements of the operands.
    pub input_dtypes: Vec<jaxpr::DType>,
    /// What JAX calls the elements of the results.
    pub output_dtypes: Vec<jaxpr::DType>,
    params: Rc<Reading<'a>>,
}

impl<'g, 'a> Eqn<'g, 'a> {
    /// The operands of a primitive that has `N`.
    pub fn operands<const N: usize>(&self) -> std::result::Result<[Expr<'g>; N], Refused> {
        self.inputs.as_slice().try_into().map_err(|_| Refused::Internal {
            primitive: self.primitive.clone(),
            what: format!("{} operands where {N} were expected", self.inputs.len()),
        })
    }

    /// The parameter `name`, which must be there.
    pub fn param<T: FromParam>(&self, name: &str) -> std::result::Result<T, ParamError> {
        self.optional(name)?.ok_or_else(|| ParamError::Missing {
            primitive: self.primitive.clone(),
            name: name.into(),
        })
    }

    /// The parameter `name`, which some versions of JAX leave out.
    pub fn optional<T: FromParam>(&self, name: &str) -> std::result::Result<Option<T>, ParamError> {
        let Some(param) = self.params.get(name) else {
            return Ok(None);
        };
        let value = T::from_param(param).ok_or_else(|| ParamError::Kind {
            primitive: self.primitive.clone(),
            name: name.into(),
            found: param.to_string(),
            wanted: T::WANTED,
        })?;
        Ok(Some(value))
    }

    /// Parameters that do not change the numbers.
    pub fn ignore(&self, names: &[&str]) {
        for name in names {
            let _ = self.params.get(name);
        }
    }

    /// Parameters that the plugin handles only where they are left out.
    pub fn refuse(&self, names: &[&str]) -> std::result::Result<(), Refused> {
        for name in names {
            match self.params.get(name) {
                None | Some(jaxpr::Param::None | jaxpr::Param::Bool(false)) => {}
                Some(given) => {
                    return Err(Refused::NoCounterpart { what: format!("{name}={given}") });
                }
            }
        }
        Ok(())
    }

    /// The parameters of an elementwise primitive: `accuracy` is a hint, the others would change the
    /// result.
    fn ignore_hints(&self) -> std::result::Result<(), Refused> {
        self.ignore(&["accuracy"]);
        self.refuse(&["out_dtype", "out_sharding"])
    }

    /// Whether an operand is complex.
    pub fn is_complex_operand(&self, index: usize) -> bool {
        matches!(self.input_dtypes.get(index), Some(jaxpr::DType::C64 | jaxpr::DType::C128))
    }

    /// The equation on one part of each complex operand; the others stay.
    fn part(&self, part: &dyn Fn(Complex<'g>) -> Expr<'g>) -> Eqn<'g, 'a> {
        let operands = self.inputs.iter().enumerate().map(|(index, &input)| {
            if self.is_complex_operand(index) { part(Complex::of(input)) } else { input }
        });
        self.with_operands(operands.collect())
    }

    /// The equation on real operands in place of complex ones.
    fn with_operands(&self, inputs: Vec<Expr<'g>>) -> Eqn<'g, 'a> {
        let real = |dtypes: &[jaxpr::DType]| -> Vec<jaxpr::DType> {
            let real = |dtype: &jaxpr::DType| match dtype {
                jaxpr::DType::C64 => jaxpr::DType::F32,
                jaxpr::DType::C128 => jaxpr::DType::F64,
                other => other.clone(),
            };
            dtypes.iter().map(real).collect()
        };
        let outputs = self.outputs.iter().zip(&self.output_dtypes);
        Eqn {
            primitive: self.primitive,
            inputs,
            outputs: outputs
                .map(
                    |(ty, dtype)| {
                        if Element::has_parts(dtype) { part_type(ty) } else { ty.clone() }
                    },
                )
                .collect(),
            input_dtypes: real(&self.input_dtypes),
            output_dtypes: real(&self.output_dtypes),
            params: self.params.clone(),
        }
    }

    fn refused_of(&self, dtype: &jaxpr::DType) -> Refused {
        Refused::NoCounterpart { what: format!("{} of {dtype}", self.primitive) }
    }

    /// A refusal because the equation is not what its primitive should be.
    pub fn broken(&self, what: &str) -> Refused {
        Refused::Internal { primitive: self.primitive.clone(), what: what.into() }
    }

    /// The type of the one result.
    pub fn output(&self) -> std::result::Result<&Type, Refused> {
        self.outputs.first().ok_or_else(|| self.broken("no result"))
    }

    /// How many axes the first result has behind those that JAX knows: one where its elements are
    /// carried as parts, else none.
    pub fn part_axes(&self) -> usize {
        usize::from(self.output_dtypes.first().is_some_and(Element::has_parts))
    }

    /// The first element type of the equation that is carried as parts.
    fn dtype_with_parts(&self) -> Option<&jaxpr::DType> {
        self.input_dtypes.iter().chain(&self.output_dtypes).find(|dtype| Element::has_parts(dtype))
    }
}

impl<'g> Ctx<'g> {
    pub(crate) fn new(
        builder: &'g Builder,
        plugins: &'static [Plugin],
        definition: Option<StackId>,
    ) -> Ctx<'g> {
        Ctx {
            builder,
            definition,
            plugins: plugins.iter().map(|plugin| (plugin.primitive, plugin)).collect(),
            symbols: RefCell::default(),
            on_each: RefCell::default(),
        }
    }

    /// Says that a symbol is the size of an axis of an input.
    pub(crate) fn bind_symbol(&self, name: &Arc<str>, size: Size) {
        self.symbols.borrow_mut().entry(name.clone()).or_insert(size);
    }

    /// Says what the one unknown symbol of an expression is, if the expression is linear in it and of
    /// this size.
    pub(crate) fn solve(&self, expr: &jaxpr::DimExpr, size: &Size) {
        if let Some(Linear { unknown: Some((name, factor)), rest }) = Linear::of(self, expr)
            && factor != 0
        {
            let (larger, smaller) =
                if factor > 0 { (size.clone(), rest) } else { (rest, size.clone()) };
            let multiple = linear::difference(larger, smaller);
            self.bind_symbol(&name, linear::quotient(multiple, factor.abs()));
        }
    }

    /// The ONNX type of a value; its sizes can be computed from then on.
    pub fn ty(&self, aval: &Aval) -> std::result::Result<Type, Refused> {
        match aval {
            Aval::Array { dtype, shape } => {
                let Element { dtype, parts } = Element::in_opset(dtype, self.builder.opset())?;
                let each = self.on_each.borrow().as_ref().filter(|_| shape.is_empty()).cloned();
                let mut shape = match each {
                    Some(each) => each.to_vec(),
                    None => self.dims(shape)?,
                };
                shape.extend(parts.map(Dim::Known));
                Ok(Type::new(dtype, shape))
            }
            Aval::Other(text) => Err(Refused::NoType { dtype: text.to_string() }),
        }
    }

    /// Sizes as ONNX has them.
    pub fn dims(&self, dims: &[jaxpr::Dim]) -> std::result::Result<Vec<Dim>, Refused> {
        dims.iter().map(|dim| self.dim(dim)).collect()
    }

    pub fn dim(&self, dim: &jaxpr::Dim) -> std::result::Result<Dim, Refused> {
        match dim {
            jaxpr::Dim::Known(size) => Ok(Dim::Known(*size)),
            jaxpr::Dim::Symbolic(expr) => {
                let name: Arc<str> = expr.to_string().into();
                self.builder.declare_size(&name, self.size(expr)?);
                Ok(Dim::Named(name))
            }
        }
    }

    pub(crate) fn size(&self, expr: &jaxpr::DimExpr) -> std::result::Result<Size, Refused> {
        use jaxpr::DimExpr as D;
        let (op, a, b) = match expr {
            D::Const(value) => return Ok(Size::Known(*value)),
            D::Symbol(name) => {
                return self
                    .symbols
                    .borrow()
                    .get(name)
                    .cloned()
                    .ok_or_else(|| Refused::NoSize { name: name.to_string() });
            }
            D::Neg(a) => {
                let zero = Box::new(Size::Known(0));
                return Ok(Size::Op(SizeOp::Sub, zero, Box::new(self.size(a)?)));
            }
            D::Add(a, b) => (SizeOp::Add, a, b),
            D::Sub(a, b) => (SizeOp::Sub, a, b),
            D::Mul(a, b) => (SizeOp::Mul, a, b),
            D::FloorDiv(a, b) => (SizeOp::FloorDiv, a, b),
            D::Mod(a, b) => (SizeOp::Mod, a, b),
            D::Max(a, b) => (SizeOp::Max, a, b),
            D::Min(a, b) => (SizeOp::Min, a, b),
        };
        Ok(Size::Op(op, Box::new(self.size(a)?), Box::new(self.size(b)?)))
    }

    /// A constant of the jaxpr as an initializer.
    pub fn constant(&self, constant: &jaxpr::Constant) -> std::result::Result<Expr<'g>, Refused> {
        let tensor = tensor(constant)?;
        let is_array = tensor.dtype.is_float() && !tensor.shape.is_empty();
        Ok(match constant.name.is_some() || is_array {
            true => self.builder.weight(tensor, constant.name.clone()),
            false => self.builder.tensor(tensor, None),
        })
    }

    /// Lowers the equations of a body in place: its results, given its arguments.
    ///
    /// `label` names the construct in the path of transformations: `jit(f)`, `cond`.
    #[track_caller]
    pub fn inline(
        &self,
        label: &str,
        jaxpr: &Jaxpr,
        arguments: &[Expr<'g>],
    ) -> Result<Vec<Expr<'g>>> {
        let entered = self.builder.enter_call();
        let Place { stack, scope } = self.builder.place();
        let scope = self.builder.table(|table| table.scope(scope, ScopeKind::Transform, label));
        let enclosing = Place { stack, scope: Some(scope) };
        let results = self.jaxpr(jaxpr, arguments, enclosing);
        self.builder.leave(entered);
        results
    }

    /// Lowers a body of scalars on each element of arrays of one shape; [`Ctx::is_elementwise`] says
    /// whether that can be done.
    #[track_caller]
    pub fn inline_on_each(
        &self,
        label: &str,
        jaxpr: &Jaxpr,
        arguments: &[Expr<'g>],
        shape: &Arc<[Dim]>,
    ) -> Result<Vec<Expr<'g>>> {
        let before = self.on_each.replace(Some(shape.clone()));
        let results = self.inline(label, jaxpr, arguments);
        self.on_each.replace(before);
        results
    }

    /// Whether a body is of scalars, and every equation is a formula of what it is given.
    pub fn is_elementwise(&self, jaxpr: &Jaxpr) -> bool {
        let is_scalar =
            |var: &jaxpr::Var| matches!(&var.aval, Aval::Array { shape, .. } if shape.is_empty());
        let is_formula = |eqn: &jaxpr::Eqn| {
            let body = ["jaxpr", "call_jaxpr"].iter().find_map(|name| eqn.params.get(name));
            match (&*eqn.primitive, body) {
                ("jit" | "pjit" | "custom_jvp_call", Some(jaxpr::Param::Jaxpr(body))) => {
                    self.is_elementwise(body)
                }
                (
                    "clamp"
                    | "convert_element_type"
                    | "integer_pow"
                    | "onnx_function"
                    | "round"
                    | "select_n",
                    _,
                ) => true,
                (primitive, _) => self
                    .plugins
                    .get(primitive)
                    .is_some_and(|it| matches!(it.lower, Lower::Unary(_) | Lower::Binary(_))),
            }
        };
        // What depends on no input would stay a scalar.
        let reads_a_variable =
            |eqn: &jaxpr::Eqn| eqn.inputs.iter().any(|atom| matches!(atom, Atom::Var(_)));
        jaxpr.constants.is_empty()
            && jaxpr.vars.iter().all(is_scalar)
            && jaxpr.eqns.iter().all(|eqn| reads_a_variable(eqn) && is_formula(eqn))
    }

    /// Lowers the equations of a jaxpr, each called from `enclosing`.
    pub(crate) fn jaxpr(
        &self,
        jaxpr: &Jaxpr,
        arguments: &[Expr<'g>],
        enclosing: Place,
    ) -> Result<Vec<Expr<'g>>> {
        if arguments.len() != jaxpr.inputs.len() {
            let what = format!("{} arguments for {} inputs", arguments.len(), jaxpr.inputs.len());
            let primitive = jaxpr.name.clone();
            return Err(Refused::Internal { primitive, what }.into());
        }
        let mut values: Vec<Option<Expr<'g>>> = vec![None; jaxpr.vars.len()];
        for (&var, &argument) in jaxpr.inputs.iter().zip(arguments) {
            values[var.index()] = Some(argument);
        }
        for (var, constant) in &jaxpr.constants {
            values[var.index()] = Some(self.constant(constant)?);
        }
        let equations = Equations::new(jaxpr, enclosing);
        self.equations(&equations, 0..jaxpr.eqns.len(), None, &mut values)?;
        self.atoms(&jaxpr.outputs, &values)
    }

    /// Lowers one equation at its place.
    pub(crate) fn equation(
        &self,
        jaxpr: &Jaxpr,
        eqn: &jaxpr::Eqn,
        place: Place,
        values: &mut [Option<Expr<'g>>],
    ) -> Result<()> {
        let entered = self.builder.enter_plugin(place, &eqn.primitive);
        let site = self.builder.site();
        let results = self.eqn(jaxpr, eqn, values);
        self.builder.leave(entered);
        let results = results.map_err(|stop| match stop {
            Stop::Here(why) => Stop::Inside(LoweringError { why, site }),
            inside @ Stop::Inside(_) => inside,
        })?;
        for (&var, result) in eqn.outputs.iter().zip(results) {
            let is_operand = eqn.inputs.iter().any(|atom| match atom {
                Atom::Var(var) => values[var.index()].is_some_and(|value| value.id == result.id),
                Atom::Literal(_) => false,
            });
            values[var.index()] = Some(match is_operand {
                true => result,
                false => self.builder.made_constant(result, site),
            });
        }
        Ok(())
    }

    /// The place of an equation inside the one that encloses it.
    ///
    /// What a transformation adds around the function that is exported, such as the last transpose
    /// of a `vmap`, has frames of JAX alone: it belongs to the function as a whole.
    pub(crate) fn place(&self, inner: jaxpr::Place, enclosing: Place) -> Place {
        self.builder.table(|table| {
            let mut stack = table.stack_called_from(inner.stack, enclosing.stack);
            let is_users = |stack| table.user_frame(stack).is_some();
            if enclosing.stack.is_none() && !stack.is_some_and(is_users) {
                stack = table.stack_called_from(stack, self.definition);
            }
            Place { stack, scope: table.scope_inside(inner.scope, enclosing.scope) }
        })
    }

    /// What is read there.
    pub(crate) fn atoms(
        &self,
        atoms: &[Atom],
        values: &[Option<Expr<'g>>],
    ) -> Result<Vec<Expr<'g>>> {
        atoms.iter().map(|atom| self.atom(atom, values)).collect()
    }

    fn atom(&self, atom: &Atom, values: &[Option<Expr<'g>>]) -> Result<Expr<'g>> {
        match atom {
            Atom::Literal(literal) => Ok(self.constant(literal)?),
            Atom::Var(var) => values[var.index()].ok_or_else(|| {
                let what = format!("variable {} is used before it is defined", var.0);
                let primitive = "jaxpr".into();
                Refused::Internal { primitive, what }.into()
            }),
        }
    }

    fn eqn(
        &self,
        jaxpr: &Jaxpr,
        data: &jaxpr::Eqn,
        values: &[Option<Expr<'g>>],
    ) -> Result<Vec<Expr<'g>>> {
        let primitive = &data.primitive;
        if let Some(recipe) = &data.recipe {
            return self.recipe(jaxpr, data, recipe, values);
        }
        let Some(plugin) = self.plugins.get(&**primitive) else {
            let primitive = primitive.clone();
            return Err(Refused::NoPlugin { primitive }.into());
        };
        let inputs = self.atoms(&data.inputs, values)?;
        let outputs = data.outputs.iter().map(|&var| self.ty(jaxpr.aval(var)));
        let eqn = Eqn {
            primitive,
            inputs,
            outputs: outputs.collect::<std::result::Result<_, _>>()?,
            input_dtypes: data.inputs.iter().filter_map(|atom| jaxpr.atom_dtype(atom)).collect(),
            output_dtypes: data.outputs.iter().filter_map(|&var| jaxpr.aval(var).dtype()).collect(),
            params: Rc::new(data.params.reading()),
        };
        eqn.ignore(plugin.ignored);
        let results = match eqn.dtype_with_parts() {
            Some(dtype) => self.run_on_parts(plugin, &eqn, dtype)?,
            None => self.run(plugin, &eqn)?,
        };
        if let Some(problem) = self.builder.take_problem() {
            return Err(refusal(problem, primitive, self.builder.opset()).into());
        }
        if let Some(param) = eqn.params.unread() {
            let value = data.params.get(param).map(ToString::to_string);
            return Err(Refused::UnreadParam {
                primitive: primitive.clone(),
                param: param.into(),
                value: value.unwrap_or_default(),
            }
            .into());
        }
        check_results(&eqn, &results)?;
        Ok(results)
    }

    /// Runs a plugin on elements that are carried as parts, as it says it takes them.
    fn run_on_parts(
        &self,
        plugin: &Plugin,
        eqn: &Eqn<'g, '_>,
        dtype: &jaxpr::DType,
    ) -> Result<Vec<Expr<'g>>> {
        let is_complex = matches!(dtype, jaxpr::DType::C64 | jaxpr::DType::C128);
        match plugin.parts {
            Parts::AsTheyAre => self.run(plugin, eqn),
            _ if !is_complex => Err(eqn.refused_of(dtype).into()),
            Parts::Refused => Err(eqn.refused_of(dtype).into()),
            Parts::Linear => {
                let re = self.run(plugin, &eqn.part(&|z| z.re))?;
                let im = self.run(plugin, &eqn.part(&|z| z.im))?;
                Ok(re.into_iter().zip(im).map(|(re, im)| Complex { re, im }.pairs()).collect())
            }
            Parts::Bilinear => {
                let [x, y] = eqn.operands()?;
                let run = |x: Expr<'g>, y: Expr<'g>| -> Result<Expr<'g>> {
                    let results = self.run(plugin, &eqn.with_operands(vec![x, y]))?;
                    Ok(results.first().copied().ok_or_else(|| eqn.broken("no result"))?)
                };
                let (re, im) = match [0, 1].map(|index| eqn.is_complex_operand(index)) {
                    [true, false] => (run(Complex::of(x).re, y)?, run(Complex::of(x).im, y)?),
                    [false, true] => (run(x, Complex::of(y).re)?, run(x, Complex::of(y).im)?),
                    _ => {
                        let (z, w) = (Complex::of(x), Complex::of(y));
                        let re = run(z.re, w.re)? - run(z.im, w.im)?;
                        (re, run(z.re, w.im)? + run(z.im, w.re)?)
                    }
                };
                Ok(vec![Complex { re, im }.pairs()])
            }
            Parts::Unary(formula) => {
                eqn.ignore_hints()?;
                let [z] = eqn.operands()?.map(Complex::of);
                Ok(vec![formula(z).pairs()])
            }
            Parts::Binary(formula) => {
                eqn.ignore_hints()?;
                let [z, w] = eqn.operands()?.map(Complex::of);
                Ok(vec![formula(z, w).pairs()])
            }
            Parts::Eqn(lower) => Ok(vec![lower(self, eqn)?]),
        }
    }

    fn run(&self, plugin: &Plugin, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
        if let Lower::Unary(_) | Lower::Binary(_) = plugin.lower {
            eqn.ignore_hints()?;
        }
        match plugin.lower {
            Lower::Unary(formula) => {
                let [x] = eqn.operands()?;
                if plugin.composite && x.tensor().is_none() {
                    let name = plugin.primitive;
                    let attrs = Vec::new();
                    return Ok(vec![self.builder.composite(name, [x], attrs, |[x]| formula(x))]);
                }
                Ok(vec![formula(x)])
            }
            Lower::Binary(formula) => {
                let [x, y] = eqn.operands()?;
                Ok(vec![formula(x, y)])
            }
            Lower::One(lower) => Ok(vec![lower(self, eqn)?]),
            Lower::Many(lower) => lower(self, eqn),
        }
    }
}

/// What a plugin built must have the types that JAX says; so a wrong shape is found here and not by
/// a runtime.
fn check_results(eqn: &Eqn<'_, '_>, results: &[Expr<'_>]) -> std::result::Result<(), Refused> {
    let broken = |what: String| {
        let primitive = eqn.primitive.clone();
        Err(Refused::Internal { primitive, what })
    };
    if results.len() != eqn.outputs.len() {
        return broken(format!("{} results where {} are due", results.len(), eqn.outputs.len()));
    }
    for (result, expected) in results.iter().zip(&eqn.outputs) {
        let found = result.ty();
        if found != *expected {
            return broken(format!("a result of type `{found}` where `{expected}` is due"));
        }
    }
    Ok(())
}

fn refusal(problem: Problem, primitive: &Arc<str>, opset: i64) -> Refused {
    match problem {
        Problem::NoKernel { op, dtype } => Refused::NoKernel { op, dtype: dtype.to_string() },
        Problem::NeedsOpset { op, needed } => Refused::NeedsOpset { op, needed, opset },
        Problem::Internal(what) => Refused::Internal { primitive: primitive.clone(), what },
        other => Refused::Internal { primitive: primitive.clone(), what: format!("{other:?}") },
    }
}

/// A constant of the jaxpr as ONNX has it.
pub(crate) fn tensor(constant: &jaxpr::Constant) -> std::result::Result<Tensor, Refused> {
    let Element { dtype, parts } = Element::of(&constant.dtype)?;
    let data = match dtype.bits() {
        bits @ (2 | 4) => pack(&constant.data, bits),
        _ => constant.data.clone(),
    };
    Ok(Tensor { dtype, shape: constant.shape.iter().copied().chain(parts).collect(), data })
}

/// Packs elements that came a byte each, the first in the lowest bits.
fn pack(data: &[u8], bits: usize) -> bytes::Bytes {
    let mask = (1u8 << bits) - 1;
    let join = |byte: u8, (i, &element): (usize, &u8)| byte | (element & mask) << (i * bits);
    data.chunks(8 / bits).map(|chunk| chunk.iter().enumerate().fold(0, join)).collect()
}
