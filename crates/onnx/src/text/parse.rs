//! Reads a model from its text.

mod literal;

use std::sync::Arc;

use cursor::{Cursor, Parse, Result};
use provenance::{Location, Origin, OriginId, Site, Table, Tier};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use self::literal::Element;
use super::{RESERVED, is_plain};
use crate::attr::Attr;
use crate::check::type_of;
use crate::infer::Call;
use crate::kernels::Target;
use crate::model::{Function, Graph, Model, Node};
use crate::operator::Operator;
use crate::proto::OMITTED;
use crate::tensor::Tensor;
use crate::value::{Type, Value, ValueId, Values};

/// The opset of a model that was read from its text.
const OPSET: i64 = 23;

/// Reads a model from its text.
///
/// The origin of a node is line *n* of function `f` in the user's `test.py`, where *n* is the first line of the
/// node in the text. Constants of which the text contains only the type count up from zero. The model imports opset
/// 23 and version 1 of every other domain that it uses.
pub fn parse_graph(text: &str) -> Result<Model> {
    let mut parser = Parser {
        cursor: Cursor::new(text),
        values: Values::default(),
        provenance: Table::default(),
        names: FxHashMap::default(),
        domains: vec![Arc::default()],
    };
    parser.expect_word("graph")?;
    let name = parser.name()?;
    let graph = parser.graph(&name)?;
    let mut functions = Vec::new();
    while !parser.cursor.is_at_end() {
        parser.expect_word("function")?;
        let domain = parser.name()?;
        parser.cursor.expect("::")?;
        let name = parser.name()?;
        parser.import(&domain);
        parser.names.clear();
        functions.push(Function {
            body: parser.graph(&name)?,
            domain: domain.into(),
            name: name.as_str().into(),
            title: name.into(),
        });
    }
    let version = |domain: Arc<str>| {
        let version = if domain.is_empty() { OPSET } else { 1 };
        (domain, version)
    };
    Ok(Model {
        graph,
        functions,
        values: parser.values,
        provenance: parser.provenance,
        ir_version: 10,
        opsets: parser.domains.into_iter().map(version).collect(),
        producer_name: String::new(),
        producer_version: String::new(),
        metadata: Vec::new(),
        exact_nan: true,
        dequantizes: false,
        widened: None,
        target: Target::default(),
        notes: Vec::new(),
        rewrite: None,
        pairs: None,
        assumptions: None,
        trial: None,
    })
}

/// Reads a text, and collects its definitions.
struct Parser<'a> {
    cursor: Cursor<'a>,
    values: Values,
    provenance: Table,
    /// Values by their names in the text.
    names: FxHashMap<String, ValueId>,
    domains: Vec<Arc<str>>,
}

impl<'a> Parse<'a> for Parser<'a> {
    fn cursor(&mut self) -> &mut Cursor<'a> {
        &mut self.cursor
    }
}

/// A definition: the name, and the type if the text contains it.
type Definition = (String, Option<Type>);

impl<'a> Parser<'a> {
    /// `(x:f32[3]) -> (y)` and the lines below it.
    fn graph(&mut self, name: &str) -> Result<Graph> {
        self.cursor.expect("(")?;
        let inputs = self.list(")", Parser::definition)?;
        let inputs = inputs.into_iter().map(|input| self.define(input)).collect();
        self.cursor.expect("->")?;
        self.cursor.expect("(")?;
        // The outputs are defined below, so they are read last.
        let outputs_at = self.cursor.position();
        self.cursor.advance(self.cursor.rest().find('\n').unwrap_or(self.cursor.rest().len()));
        let mut nodes = Vec::new();
        while !self.cursor.is_at_end()
            && !self.cursor.is_next("}")
            && !self.cursor.is_next("function ")
        {
            nodes.extend(self.line()?);
        }
        let end = self.cursor.position();
        self.cursor.go_to(outputs_at);
        let outputs = self.list(")", |parser| {
            let output = parser.operand()?;
            output.ok_or_else(|| parser.cursor.expected("an output"))
        })?;
        self.cursor.go_to(end);
        Ok(Graph { name: name.into(), inputs, outputs, nodes })
    }

    /// Reads a named constant or a node.
    fn line(&mut self) -> Result<Option<Node>> {
        let origin = self.origin_here();
        let mut outputs = vec![self.definition()?];
        while self.cursor.eat(",") {
            outputs.push(self.definition()?);
        }
        self.cursor.expect("=")?;
        if self.is_literal() {
            let tensor = self.literal()?;
            for (name, _) in outputs {
                let id = self.constant(tensor.clone(), shown_name(&name));
                self.names.insert(name, id);
            }
            return Ok(None);
        }
        let mut domain = String::new();
        let mut op = self.name()?;
        if self.cursor.eat("::") {
            domain = std::mem::replace(&mut op, self.name()?);
            self.import(&domain);
        }
        self.cursor.expect("(")?;
        let inputs = self.list(")", Parser::operand)?;
        let mut attrs = Vec::new();
        if self.cursor.eat("{") {
            attrs = self.list("}", Parser::attribute)?;
        }
        let op = Operator::of_text(&domain, &op);
        let (values, results) = (&self.values, outputs.len());
        let call = Call { op: &op, inputs: &inputs, results, values, opset: OPSET, attrs: &attrs };
        let sizes = match &outputs[..] {
            [(_, Some(ty))] => call.sizes(ty).map(Arc::from),
            _ => None,
        };
        let outputs: SmallVec<[ValueId; 1]> =
            outputs.into_iter().map(|output| self.define(output)).collect();
        if let [only] = outputs[..] {
            self.values[only].sizes = sizes;
        }
        Ok(Some(Node {
            name: None,
            op,
            inputs: inputs.into(),
            outputs,
            attrs,
            origin,
            is_fused: false,
            iteration: None,
            metadata: Vec::new(),
        }))
    }

    fn attribute(&mut self) -> Result<(Arc<str>, Attr)> {
        let name = self.name()?;
        self.cursor.expect("=")?;
        let attr = if self.cursor.eat("{") {
            let outside = self.names.clone();
            self.expect_word("graph")?;
            let name = self.name()?;
            let graph = self.nested(|parser| parser.graph(&name))?;
            self.cursor.expect("}")?;
            self.names = outside;
            Attr::from(graph)
        } else if self.eat_word("tensor") {
            Attr::Tensor(self.literal()?.into())
        } else if self.cursor.eat("[") {
            let elements = self.list("]", Parser::element)?;
            self.list_attr(elements)?
        } else {
            match self.element()? {
                Element::Text(text) => Attr::Str(text.into()),
                Element::Number(number) => match number.parse() {
                    Ok(int) => Attr::Int(int),
                    Err(_) => Attr::Float(self.number(&number)?),
                },
                Element::Bool(_) => return Err(self.cursor.expected("a number or a text")),
            }
        };
        Ok((name.into(), attr))
    }

    fn list_attr(&mut self, elements: Vec<Element>) -> Result<Attr> {
        if self.cursor.eat(":floats") {
            return Ok(Attr::Floats(Arc::default()));
        }
        if self.cursor.eat(":strings") {
            return Ok(Attr::Strs(Arc::default()));
        }
        let (mut numbers, mut texts) = (Vec::new(), Vec::<Arc<str>>::new());
        for element in elements {
            match element {
                Element::Number(number) => numbers.push(number),
                Element::Text(text) => texts.push(text.into()),
                Element::Bool(_) => return Err(self.cursor.expected("numbers or texts")),
            }
        }
        if !texts.is_empty() {
            return Ok(Attr::Strs(texts.into()));
        }
        let ints: Option<Arc<[i64]>> = numbers.iter().map(|number| number.parse().ok()).collect();
        if let Some(ints) = ints {
            return Ok(Attr::Ints(ints));
        }
        let floats = numbers.iter().map(|number| self.number(number));
        Ok(Attr::Floats(floats.collect::<Result<_>>()?))
    }

    /// Reads an operand: `_`, a constant, or a value that is defined above.
    fn operand(&mut self) -> Result<Option<ValueId>> {
        if self.is_literal() {
            let tensor = self.literal()?;
            return Ok(Some(self.constant(tensor, None)));
        }
        let name = self.reference()?;
        if name == OMITTED {
            return Ok(None);
        }
        match self.names.get(&name) {
            Some(&id) => Ok(Some(id)),
            None => {
                Err(self.cursor.expected(&format!("a value that is defined before, not `{name}`")))
            }
        }
    }

    fn definition(&mut self) -> Result<Definition> {
        let name = self.reference()?;
        let ty = if self.cursor.eat(":") { Some(self.ty()?) } else { None };
        Ok((name, ty))
    }

    fn define(&mut self, (name, ty): Definition) -> ValueId {
        let id = self.values.add(Value { name: shown_name(&name), ty, ..Value::default() });
        self.names.insert(name, id);
        id
    }

    fn constant(&mut self, tensor: Tensor, name: Option<Arc<str>>) -> ValueId {
        self.values.add(Value {
            name,
            ty: Some(type_of(&tensor)),
            tensor: Some(tensor.into()),
            ..Value::default()
        })
    }

    fn import(&mut self, domain: &str) {
        if !self.domains.iter().any(|known| **known == *domain) {
            self.domains.push(domain.into());
        }
    }

    /// Returns the next characters that can be in a plain name.
    fn peek_word(&mut self) -> &'a str {
        self.cursor.skip_space();
        self.cursor.peek_while(is_plain)
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let is_next = self.peek_word() == word;
        if is_next {
            self.cursor.advance(word.len());
        }
        is_next
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.eat_word(word) {
            return Ok(());
        }
        Err(self.cursor.expected(&format!("`{word}`")))
    }

    /// Reads a name.
    fn name(&mut self) -> Result<String> {
        if self.cursor.is_next("`") {
            return self.cursor.quoted('`');
        }
        let word = self.peek_word();
        if word.is_empty() || RESERVED.contains(&word) {
            return Err(self.cursor.expected("a name"));
        }
        self.cursor.advance(word.len());
        Ok(word.into())
    }

    /// Reads the name of a value: `%0` if it has none, `_` if it is omitted.
    fn reference(&mut self) -> Result<String> {
        if self.eat_word("_") {
            return Ok(OMITTED.into());
        }
        if self.cursor.eat("%") {
            return Ok(format!("%{}", self.name()?));
        }
        self.name()
    }

    fn origin_here(&mut self) -> OriginId {
        self.cursor.skip_space();
        let line = self.cursor.line() as u32;
        let location = Location {
            file: self.provenance.file("test.py", Tier::User),
            function: self.provenance.function("f"),
            line,
            span: None,
        };
        let location = self.provenance.location(location);
        let site =
            Site { stack: Some(self.provenance.push(None, location)), scope: None, emitter: None };
        let site = self.provenance.site(site);
        self.provenance.origin(Origin::of(site))
    }
}

/// Returns the name of a value from the text; `None` if the value has none.
fn shown_name(text: &str) -> Option<Arc<str>> {
    (!text.starts_with('%')).then(|| text.into())
}
