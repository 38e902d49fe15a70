//! Generates random programs from a list of choices, so that they shrink.

use std::sync::Arc;

use jaxpr::{
    Atom, Aval, Constant, DType, Dim, Eqn, Jaxpr, Param, Params, Program, SourceInfo, Var, VarId,
};
use provenance::{Location, ScopeId, ScopeKind, Span, StackId, Table, Tier};

const WORDS: &[&str] = &[
    "x",
    "f32",
    "main",
    "dim",
    "jaxpr",
    "return",
    "const",
    "None",
    "inf",
    "nan",
    "max",
    "hex",
    "key",
    "array",
    "B",
    "<lambda>",
    "a.b",
    "f.<locals>.g",
    "",
    "two words",
    "quo\"te",
    "back\\slash",
    "new\nline",
    "é",
    "a/b",
    "jit(f)",
    "tab\t",
    "\u{7}",
    "0x1",
    ".",
    "in",
    "aval",
    "dtype",
    "float0",
];

const SYMBOLS: &[&str] = &["a", "B", "f32", "inf", "max", "None", "dim"];

/// Makes decisions from a list. After the end of the list, every decision is the first choice.
pub struct Draw<'a> {
    choices: std::slice::Iter<'a, u8>,
    table: Table,
}

impl<'a> Draw<'a> {
    pub fn new(choices: &'a [u8]) -> Draw<'a> {
        Draw { choices: choices.iter(), table: Table::default() }
    }

    pub fn program(mut self) -> Program {
        let main = Arc::new(self.jaxpr(3));
        Program { table: self.table, main }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.choices.next().map_or(0, |&choice| usize::from(choice)) % limit
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    fn number(&mut self) -> i64 {
        let bytes = std::array::from_fn(|_| self.below(256) as u8);
        i64::from_le_bytes(bytes) >> (8 * self.below(8))
    }

    fn word(&mut self) -> Arc<str> {
        WORDS[self.below(WORDS.len())].into()
    }

    fn many<T>(&mut self, most: usize, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| item(self)).collect()
    }

    fn jaxpr(&mut self, depth: usize) -> Jaxpr {
        let mut jaxpr = Jaxpr::default();
        jaxpr.name = self.word();
        jaxpr.place = self.place();
        for _ in 0..self.below(4) {
            let input = self.var(&mut jaxpr);
            jaxpr.inputs.push(input);
        }
        jaxpr.input_names = self.many(3, Draw::word);
        for _ in 0..self.below(3) {
            let constant = self.constant();
            let var = VarId(jaxpr.vars.len() as u32);
            let shape: Vec<Dim> = constant.shape.iter().map(|&size| size.into()).collect();
            let aval =
                if self.flag() { self.aval() } else { Aval::array(constant.dtype.clone(), shape) };
            jaxpr.vars.push(Var { aval });
            jaxpr.constants.push((var, constant));
        }
        for _ in 0..self.below(5) {
            let eqn = self.eqn(&mut jaxpr, depth);
            jaxpr.eqns.push(eqn);
        }
        jaxpr.outputs = self.many(3, |draw| draw.atom(jaxpr.vars.len()));
        jaxpr
    }

    fn eqn(&mut self, jaxpr: &mut Jaxpr, depth: usize) -> Eqn {
        let inputs = self.many(3, |draw| draw.atom(jaxpr.vars.len()));
        let params = self.many(3, |draw| (draw.word(), draw.param(depth)));
        Eqn {
            primitive: self.word(),
            inputs,
            outputs: self.many(3, |draw| draw.var(jaxpr)),
            params: Params::new(params),
            place: self.place(),
            recipe: None,
        }
    }

    fn var(&mut self, jaxpr: &mut Jaxpr) -> VarId {
        jaxpr.vars.push(Var { aval: self.aval() });
        VarId(jaxpr.vars.len() as u32 - 1)
    }

    fn atom(&mut self, defined: usize) -> Atom {
        if defined > 0 && self.flag() {
            Atom::Var(VarId(self.below(defined) as u32))
        } else {
            Atom::Literal(self.constant())
        }
    }

    fn aval(&mut self) -> Aval {
        if self.below(6) == 5 {
            return Aval::Other(self.word());
        }
        let dtype = self.dtype();
        Aval::array(dtype, self.many(3, Draw::dim))
    }

    fn dtype(&mut self) -> DType {
        const NUMPY: &[&str] = &[
            "float32",
            "bool",
            "int4",
            "int64",
            "uint2",
            "uint64",
            "float16",
            "bfloat16",
            "float64",
            "complex64",
            "complex128",
            "float8_e4m3fn",
            "float8_e5m2fnuz",
            "float8_e8m0fnu",
            "float0",
        ];
        match self.below(NUMPY.len() + 2) {
            0 => DType::Key(self.word()),
            1 => DType::Other(self.word()),
            other => DType::from_numpy(NUMPY[other - 2]),
        }
    }

    fn dim(&mut self) -> Dim {
        self.dim_of_depth(3)
    }

    fn dim_of_depth(&mut self, depth: usize) -> Dim {
        let kind = if depth == 0 { self.below(2) } else { self.below(12) };
        let operation: fn(&Dim, &Dim) -> Option<Dim> = match kind {
            2 => Dim::checked_add,
            3 => Dim::checked_sub,
            4 | 5 => Dim::checked_mul,
            6 => Dim::checked_floordiv,
            7 => Dim::checked_mod,
            8 => Dim::checked_max,
            9 => Dim::checked_min,
            1 => return Dim::symbol(SYMBOLS[self.below(SYMBOLS.len())]),
            _ => return Dim::Known(self.number()),
        };
        let (a, b) = (self.dim_of_depth(depth - 1), self.dim_of_depth(depth - 1));
        operation(&a, &b).unwrap_or(a)
    }

    fn constant(&mut self) -> Constant {
        let dtype = self.dtype();
        let shape: Vec<i64> = self.many(2, |draw| draw.below(5) as i64);
        let count: i64 = shape.iter().product();
        let size = dtype.bits().map_or(3, |bits| bits.div_ceil(8));
        let data: Vec<u8> = (0..count as usize * size).map(|_| self.below(256) as u8).collect();
        Constant {
            dtype,
            shape: shape.into(),
            data: data.into(),
            name: self.flag().then(|| self.word()),
        }
    }

    fn param(&mut self, depth: usize) -> Param {
        let kind = if depth == 0 { self.below(11) } else { self.below(14) };
        match kind {
            0 => Param::None,
            1 => Param::Bool(self.flag()),
            2 => Param::Int(self.number()),
            3 => Param::Float(f64::from_bits(self.number() as u64)),
            4 => Param::Str(self.word()),
            5 => Param::DType(self.dtype()),
            6 => Param::Dim(self.dim()),
            7 => Param::Aval(self.aval()),
            8 => Param::Enum(self.word(), self.word()),
            9 => Param::Array(self.constant()),
            10 => Param::Opaque(self.word()),
            11 => Param::Seq(self.many(3, |draw| draw.param(depth - 1)).into()),
            12 => {
                let fields = self.many(3, |draw| (draw.word(), draw.param(depth - 1)));
                Param::Record(self.word(), fields.into())
            }
            _ => Param::Jaxpr(Arc::new(self.jaxpr(depth - 1))),
        }
    }

    fn place(&mut self) -> SourceInfo {
        SourceInfo { stack: self.stack(), scope: self.scope() }
    }

    fn stack(&mut self) -> Option<StackId> {
        let mut stack = None;
        for _ in 0..self.below(3) {
            let tier = [Tier::User, Tier::Library, Tier::Internal][self.below(3)];
            let (path, function) = (self.word(), self.word());
            let mut number = || self.number() as u32;
            let (line, span) = (number(), [number(), number(), number()]);
            let span = Span { column: span[0], end_line: span[1], end_column: span[2] };
            let location = Location {
                file: self.table.file(&path, tier),
                function: self.table.function(&function),
                line,
                span: self.flag().then_some(span),
            };
            let location = self.table.location(location);
            stack = Some(self.table.push(stack, location));
        }
        stack
    }

    fn scope(&mut self) -> Option<ScopeId> {
        let mut scope = None;
        for _ in 0..self.below(3) {
            let kind = [ScopeKind::Name, ScopeKind::Transform][self.below(2)];
            let name = self.word();
            scope = Some(self.table.scope(scope, kind, &name));
        }
        scope
    }
}
