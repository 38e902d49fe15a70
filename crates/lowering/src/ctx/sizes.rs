//! Sizes of axes. At run time, the model computes symbolic sizes from the shapes of its inputs.

use onnx::{Dim, Symbol, SymbolSource, ValueId};

use super::Ctx;
use crate::error::Refused;

impl Ctx<'_> {
    /// If the size of an axis has one unbound symbol and is linear in it, binds the symbol to the
    /// axis.
    pub(crate) fn bind_symbol_of(&self, size: &Dim, input: ValueId, axis: usize) {
        let mut unknown: Vec<&Symbol> = Vec::new();
        size.for_each_symbol(&mut |symbol| {
            if !self.builder.is_bound(symbol) && !unknown.contains(&symbol) {
                unknown.push(symbol);
            }
        });
        if let [symbol] = unknown[..]
            && let Some((factor, rest)) = size.linear_in(symbol)
        {
            self.builder.bind_symbol(symbol, SymbolSource { input, axis, factor, rest });
        }
    }

    /// Returns the sizes, or a refusal if the model cannot compute them.
    pub fn dims(&self, dims: &[Dim]) -> Result<Vec<Dim>, Refused> {
        dims.iter().map(|dim| self.dim(dim)).collect()
    }

    /// Returns the size, or a refusal if the model cannot compute it.
    pub fn dim(&self, dim: &Dim) -> Result<Dim, Refused> {
        let mut unknown = None;
        dim.for_each_symbol(&mut |symbol| {
            if unknown.is_none() && !self.builder.is_bound(symbol) {
                unknown = Some(symbol);
            }
        });
        match unknown {
            Some(symbol) => Err(Refused::NoSize { name: shortened(symbol.to_string()) }),
            None => Ok(dim.clone()),
        }
    }
}

/// Shortens a text for a message: the text of a size can be a page long.
fn shortened(mut text: String) -> String {
    const MAX_LENGTH: usize = 80;
    if let Some((end, _)) = text.char_indices().nth(MAX_LENGTH) {
        text.truncate(end);
        text.push('…');
    }
    text
}
