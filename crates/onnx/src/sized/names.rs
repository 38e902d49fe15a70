//! The names of symbols: words that every calculator reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::value::{Dim, Symbol};

/// The sizes that replace symbols.
pub type Sizes = BTreeMap<String, i64>;

/// The maximum length of the name of a symbol.
const MAX_NAME: usize = 60;

/// Words that a formula uses otherwise, or that Python does not take as names.
const TAKEN: &[&str] = &[
    "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif",
    "else", "except", "False", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "max", "min", "None", "nonlocal", "not", "or", "pass", "raise", "return", "True",
    "try", "while", "with", "yield",
];

/// A symbol in the shapes of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolUse {
    /// The name in formulas.
    pub name: Arc<str>,
    pub of: SymbolOf,
    /// The size that replaces it.
    pub size: Option<i64>,
}

/// The axis that a symbol is the size of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymbolOf {
    /// An axis that has this name in the file.
    Axis(Arc<str>),
    /// An axis of an input without a name.
    Input { value: Arc<str>, axis: usize },
    /// The number of iterations of a loop, which depends on numbers, and the number of its node.
    Steps { node: usize, most: Option<Dim> },
    /// An axis whose size depends on numbers, or is not inferred, and the number of the node that computes the value.
    Value { node: usize, axis: usize },
}

/// Gives names to symbols.
pub(super) struct Names<'s> {
    sizes: &'s Sizes,
    /// The numbers of the symbols of the file.
    known: FxHashMap<Arc<str>, usize>,
    taken: FxHashSet<Arc<str>>,
    /// The next number to try for a name that is taken.
    next: FxHashMap<String, usize>,
    pub uses: Vec<SymbolUse>,
}

impl<'s> Names<'s> {
    pub(super) fn new(sizes: &'s Sizes) -> Names<'s> {
        Names {
            sizes,
            known: FxHashMap::default(),
            taken: TAKEN.iter().map(|&word| word.into()).collect(),
            next: FxHashMap::default(),
            uses: Vec::new(),
        }
    }

    /// Returns the size with this text in the file, with the names and sizes of symbols.
    pub(super) fn size(&mut self, text: &str) -> Option<Dim> {
        let dim = Dim::from_param(text);
        let mut symbols: Vec<Arc<str>> = Vec::new();
        dim.for_each_symbol(&mut |symbol| {
            if let Symbol::Named(name) = symbol
                && !self.known.contains_key(name)
            {
                symbols.push(name.clone());
            }
        });
        for name in symbols {
            if !self.known.contains_key(&name) {
                let number = self.uses.len();
                self.add(&name, SymbolOf::Axis(name.clone()));
                self.known.insert(name, number);
            }
        }
        dim.with(&|symbol| match symbol {
            Symbol::Named(name) => self.known.get(name).map(|&number| self.dim(number)),
            Symbol::Unknown(_) => None,
        })
    }

    /// Returns a new symbol.
    pub(super) fn add(&mut self, wanted: &str, of: SymbolOf) -> Dim {
        let name = self.free(wanted);
        let given = match &of {
            SymbolOf::Axis(text) => self.sizes.get(&**text),
            _ => None,
        };
        let size = self.sizes.get(&*name).or(given).copied();
        self.uses.push(SymbolUse { name, of, size });
        self.dim(self.uses.len() - 1)
    }

    fn dim(&self, number: usize) -> Dim {
        let SymbolUse { name, size, .. } = &self.uses[number];
        size.map_or_else(|| Dim::symbol(name.clone()), Dim::Known)
    }

    /// Returns a word that is not taken, and takes it.
    fn free(&mut self, wanted: &str) -> Arc<str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut word: String =
            wanted.chars().take(MAX_NAME).map(|c| if is_part(c) { c } else { '_' }).collect();
        if !word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            word.insert_str(0, "n_");
        }
        if self.taken.insert(word.as_str().into()) {
            return word.into();
        }
        let next = self.next.entry(word.clone()).or_insert(2);
        loop {
            let numbered: Arc<str> = format!("{word}_{next}").into();
            *next += 1;
            if self.taken.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}
