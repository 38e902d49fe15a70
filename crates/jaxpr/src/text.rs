//! A jaxpr as text. It is complete: [`crate::parse()`] reads it.
//!
//! ```text
//! jaxpr predict(a:f32[2,B]) names("x") @ "model.py":3 in predict {
//!   const b:f32[2] = [1.0, 2.0] "blocks.0.bias"
//!   c:f32[2,B] = mul a 2.0:f32[] @ "model.py":12:4-12:20 in f < "main.py":30 in main #~jit(f)/attn
//!   return c, 1.0:f32[]
//! }
//! ```
//!
//! Variables have no names; they get letters in the order of their definition. Frames are written innermost first,
//! name scopes outermost first with a `~` before a transformation. An array is a number, a flat list of its
//! elements, or its bytes in hexadecimal.

use std::sync::Arc;

use provenance::{ScopeId, ScopeKind, StackId, Table, Tier};
use rustc_hash::FxHashMap;

use crate::Dim;
use crate::aval::{Aval, DType};
use crate::constant::Constant;
use crate::element;
use crate::jaxpr::{Atom, Eqn, Jaxpr, Program, SourceInfo, VarId};
use crate::param::Param;
use crate::word::{is_word, name, quoted};

/// Arrays with more elements than this are written as bytes.
const MAX_LIST: usize = 16;

/// Returns the complete text of a program.
pub fn print(program: &Program) -> String {
    print_jaxpr(&program.main, &program.table)
}

/// Returns the complete text of a jaxpr. `table` contains its call paths and name scopes.
pub fn print_jaxpr(jaxpr: &Jaxpr, table: &Table) -> String {
    Printer::new(jaxpr, table, 0, None).jaxpr() + "\n"
}

/// Returns a text for people: every equation with its types, its parameters and its call site. It omits the
/// contents of long arrays and the frames of libraries. `path` names a file.
pub fn record(program: &Program, path: &dyn Fn(&str) -> String) -> String {
    Printer::new(&program.main, &program.table, 0, Some(path)).jaxpr() + "\n"
}

/// Writes one jaxpr. Each nested jaxpr has a separate printer.
struct Printer<'a> {
    jaxpr: &'a Jaxpr,
    table: &'a Table,
    names: FxHashMap<VarId, String>,
    indent: usize,
    /// Names a file in a text for people. The complete text contains paths.
    for_people: Option<&'a dyn Fn(&str) -> String>,
}

impl<'a> Printer<'a> {
    fn new(
        jaxpr: &'a Jaxpr,
        table: &'a Table,
        indent: usize,
        for_people: Option<&'a dyn Fn(&str) -> String>,
    ) -> Printer<'a> {
        let constants = jaxpr.constants.iter().map(|(var, _)| *var);
        let results = jaxpr.eqns.iter().flat_map(|eqn| eqn.outputs.iter().copied());
        let mut names = FxHashMap::default();
        for var in jaxpr.inputs.iter().copied().chain(constants).chain(results) {
            let next = letters(names.len());
            names.entry(var).or_insert(next);
        }
        Printer { jaxpr, table, names, indent, for_people }
    }

    fn jaxpr(&self) -> String {
        let inputs: Vec<_> = self.jaxpr.inputs.iter().map(|&var| self.definition(var)).collect();
        let mut lines = vec![format!(
            "jaxpr {}({}){}{} {{",
            name(&self.jaxpr.name),
            inputs.join(", "),
            self.input_names(),
            self.place(self.jaxpr.place),
        )];
        for (var, constant) in &self.jaxpr.constants {
            let aval = self.jaxpr.vars.get(var.index()).map(|var| &var.aval);
            let content = self.constant(constant, aval);
            lines.push(format!("  const {} = {content}", self.definition(*var)));
        }
        for eqn in &self.jaxpr.eqns {
            lines.push(format!("  {}", self.eqn(eqn)));
        }
        let outputs: Vec<_> = self.jaxpr.outputs.iter().map(|atom| self.atom(atom)).collect();
        lines.push(format!("  return {}", outputs.join(", ")).trim_end().to_owned());
        lines.push("}".to_owned());
        lines.join(&format!("\n{}", " ".repeat(self.indent)))
    }

    fn input_names(&self) -> String {
        let names: Vec<_> = self.jaxpr.input_names.iter().map(|name| quoted(name)).collect();
        if names.is_empty() { String::new() } else { format!(" names({})", names.join(", ")) }
    }

    fn eqn(&self, eqn: &Eqn) -> String {
        let outputs = eqn.outputs.iter().map(|&var| self.definition(var) + " ").collect::<String>();
        let primitive = name(&eqn.primitive);
        let params = match eqn.params.entries() {
            [] => String::new(),
            entries => format!("{{{}}}", self.entries(entries, "; ")),
        };
        let inputs: String =
            eqn.inputs.iter().flat_map(|atom| [" ".to_owned(), self.atom(atom)]).collect();
        format!("{outputs}= {primitive}{params}{inputs}{}", self.place(eqn.place))
    }

    fn atom(&self, atom: &Atom) -> String {
        match atom {
            Atom::Var(var) => self.var(*var),
            Atom::Literal(literal) => self.constant(literal, None),
        }
    }

    /// Returns the name of a variable. If nothing defines it, the name cannot be read again.
    fn var(&self, var: VarId) -> String {
        self.names.get(&var).cloned().unwrap_or_else(|| format!("?{}", var.0))
    }

    fn definition(&self, var: VarId) -> String {
        let aval = self.jaxpr.vars.get(var.index()).map(|var| aval_text(&var.aval));
        format!("{}:{}", self.var(var), aval.as_deref().unwrap_or("?"))
    }

    fn entries(&self, entries: &[(Arc<str>, Param)], separator: &str) -> String {
        let entries = entries.iter();
        let texts = entries.map(|(key, value)| format!("{}={}", name(key), self.param(value)));
        texts.collect::<Vec<_>>().join(separator)
    }

    fn param(&self, param: &Param) -> String {
        match param {
            Param::Float(value) => element::write(&DType::F64, &value.to_le_bytes()),
            Param::Str(text) => quoted(text),
            Param::DType(DType::Other(text)) => format!("dtype {}", quoted(text)),
            Param::DType(dtype) => dtype_text(dtype),
            Param::Dim(dim) => dim_text(dim),
            Param::Aval(aval @ Aval::Other(_)) => format!("aval {}", aval_text(aval)),
            Param::Aval(aval) => aval_text(aval),
            Param::Seq(items) => {
                let items: Vec<_> = items.iter().map(|item| self.param(item)).collect();
                format!("({})", items.join(", "))
            }
            Param::Record(kind, fields) => {
                format!("{}({})", kind_text(kind), self.entries(fields, ", "))
            }
            Param::Enum(kind, member) => {
                let member = if is_word(member) { member.to_string() } else { quoted(member) };
                format!("{}.{member}", name(kind))
            }
            Param::Jaxpr(jaxpr) => {
                Printer::new(jaxpr, self.table, self.indent + 4, self.for_people).jaxpr()
            }
            Param::Array(array) => format!("array {}", self.constant(array, None)),
            Param::Opaque(kind) => format!("{}(...)", kind_text(kind)),
            Param::None | Param::Bool(_) | Param::Int(_) => param.to_string(),
        }
    }

    fn place(&self, place: SourceInfo) -> String {
        let stack = place.stack.map(|stack| match self.for_people {
            Some(path) => self.callsite(stack, path),
            None => self.stack(stack),
        });
        let scope = place.scope.map(|scope| self.scope(scope));
        stack.unwrap_or_default() + &scope.unwrap_or_default()
    }

    fn stack(&self, stack: StackId) -> String {
        let frames = self.table.frames(stack).map(|id| {
            let location = self.table.get_location(id);
            let file = self.table.get_file(location.file);
            let tier = match file.tier {
                Tier::User => "",
                Tier::Library => "library ",
                Tier::Internal => "internal ",
            };
            let span = location.span.map_or_else(String::new, |span| {
                format!(":{}-{}:{}", span.column, span.end_line, span.end_column)
            });
            let function = name(self.table.get_function(location.function));
            format!("{tier}{}:{}{span} in {function}", quoted(&file.path), location.line)
        });
        format!(" @ {}", frames.collect::<Vec<_>>().join(" < "))
    }

    fn callsite(&self, stack: StackId, path: &dyn Fn(&str) -> String) -> String {
        let Some(location) = self.table.callsite(stack) else { return String::new() };
        let location = self.table.get_location(location);
        let file = path(&self.table.get_file(location.file).path);
        let function = name(self.table.get_function(location.function));
        format!(" @ {}:{} in {function}", quoted(&file), location.line)
    }

    /// Writes the contents, the type and the name of an array. The type is omitted if it is `known`.
    fn constant(&self, constant: &Constant, known: Option<&Aval>) -> String {
        let shape: Vec<Dim> = constant.shape.iter().map(|&size| size.into()).collect();
        let aval = Aval::array(constant.dtype.clone(), shape);
        let contents = contents(constant).unwrap_or_else(|| match self.for_people {
            Some(_) => "…".to_owned(),
            None => format!("hex\"{}\"", hex(&constant.data)),
        });
        let is_known = known == Some(&aval);
        let aval = if is_known { String::new() } else { format!(":{}", aval_text(&aval)) };
        let name = constant.name.as_ref().map(|name| format!(" {}", quoted(name)));
        contents + &aval + &name.unwrap_or_default()
    }

    fn scope(&self, scope: ScopeId) -> String {
        let path = self.table.scope_path(scope).into_iter().rev();
        let entries = path.map(|id| {
            let entry = self.table.get_scope(id);
            let mark = match entry.kind {
                ScopeKind::Name => "",
                ScopeKind::Transform => "~",
            };
            let plain = !entry.name.is_empty() && entry.name.chars().all(is_plain_in_scope);
            format!("{mark}{}", if plain { entry.name.to_string() } else { quoted(&entry.name) })
        });
        format!(" #{}", entries.collect::<Vec<_>>().join("/"))
    }
}

/// True if a name scope may contain a character without quotes.
pub(crate) fn is_plain_in_scope(c: char) -> bool {
    c.is_alphanumeric() || "_.()-".contains(c)
}

/// Returns `a`, `b`, …, `z`, `aa`, `ab`, …, as JAX names variables.
fn letters(index: usize) -> String {
    let last = char::from(b'a' + (index % 26) as u8);
    match index / 26 {
        0 => last.to_string(),
        more => letters(more - 1) + &last.to_string(),
    }
}

/// Writes the elements one by one, if there are few and they match the shape.
fn contents(constant: &Constant) -> Option<String> {
    let count = constant.elements()?;
    let size = element::size(&constant.dtype)?;
    let (part, parts) = element::parts(&constant.dtype)?;
    if count > MAX_LIST || constant.data.len() != count * size {
        return None;
    }
    let elements: Vec<_> = constant
        .data
        .chunks(size)
        .map(|bytes| {
            let numbers = bytes.chunks(size / parts).map(|bytes| element::write(&part, bytes));
            let numbers: Vec<_> = numbers.collect();
            if parts == 1 { numbers.concat() } else { format!("({})", numbers.join(", ")) }
        })
        .collect();
    Some(if constant.shape.is_empty() {
        elements.concat()
    } else {
        format!("[{}]", elements.join(", "))
    })
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn aval_text(aval: &Aval) -> String {
    match aval {
        Aval::Array { dtype, shape } => {
            let sizes: Vec<_> = shape.iter().map(Dim::to_string).collect();
            format!("{}[{}]", dtype_text(dtype), sizes.join(","))
        }
        Aval::Other(text) if is_word(text) => format!("<{text}>"),
        Aval::Other(text) => format!("<{}>", quoted(text)),
    }
}

fn dtype_text(dtype: &DType) -> String {
    match dtype {
        DType::Key(implementation) => format!("key<{}>", name(implementation)),
        DType::Other(text) if !is_word(text) || DType::from_short(text) != *dtype => quoted(text),
        known => known.to_string(),
    }
}

/// Returns the text of a size in a parameter. It must not look like a number, a boolean or an element type.
fn dim_text(dim: &Dim) -> String {
    let text = dim.to_string();
    let word = text.trim_start_matches('-');
    let other = word.starts_with(|c: char| c.is_ascii_digit()) && dim.known().is_some();
    if other || text.starts_with('(') || is_reserved(word) { format!("dim({text})") } else { text }
}

/// True if a word is a parameter of another kind than a size.
pub(crate) fn is_reserved(word: &str) -> bool {
    matches!(word, "None" | "True" | "False" | "nan" | "inf")
        || !matches!(DType::from_short(word), DType::Other(_))
}

/// Returns the name of a type before a parenthesis.
fn kind_text(kind: &str) -> String {
    if kind == "dim" { quoted(kind) } else { name(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_lettered_as_jax_does() {
        let names: Vec<_> = [0, 25, 26, 27, 701, 702].map(letters).into();
        assert_eq!(names, ["a", "z", "aa", "ab", "zz", "aaa"]);
    }
}
