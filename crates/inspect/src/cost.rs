//! The cost of a model before it runs: operations and bytes by line, function, module path or operator.
//!
//! `onnx::sized` knows the cost of each node as a polynomial of sizes. Here, the costs are multiplied with the number
//! of runs, attributed to lines and summed.

mod attribute;
mod budget;
mod change;
mod flame;
pub mod memory;
mod roofline;
mod show;
mod tally;

use onnx::sized::{SizedModel, Sizes, SymbolOf, SymbolUse};

use crate::Document;
pub use attribute::Lines;
pub use budget::{Budget, BudgetError, Verdict};
pub use change::{CostChange, Side};
pub use flame::stacks;
pub use roofline::{Limit, Machine, Rate, RoofRow, Roofline, RooflineError, sizes_in};
pub use show::{Json, text};
pub use tally::{Amounts, By, Costs, Row, Uncounted, costs, runs};

/// The reason why a size cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    #[error("the model has no size `{name}`{}", known_sizes(.known))]
    Unknown { name: String, known: Vec<String> },
    #[error("`{name}={size}` is not a size: sizes are at least 1")]
    NotPositive { name: String, size: i64 },
    #[error("`{text}` is not a size: write for example `B=8`")]
    Syntax { text: String },
}

fn known_sizes(known: &[String]) -> String {
    const MAX: usize = 12;
    match known {
        [] => ": all its sizes are numbers".to_owned(),
        known => {
            let shown: Vec<String> =
                known.iter().take(MAX).map(|name| format!("`{name}`")).collect();
            let more = if known.len() > MAX { ", …" } else { "" };
            format!(": it has {}{more}", shown.join(", "))
        }
    }
}

/// Reads sizes such as `B=8`.
pub fn read_sizes<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Sizes, SizeError> {
    let size = |text: &str| {
        let (name, size) = text.rsplit_once('=')?;
        Some((name.trim().to_owned(), size.trim().parse().ok()?))
    };
    let each = texts
        .into_iter()
        .map(|text| size(text).ok_or_else(|| SizeError::Syntax { text: text.to_owned() }));
    each.collect()
}

/// A document with the sizes of its values.
#[derive(Debug)]
pub struct Sizing<'d, 'a> {
    pub document: &'d Document<'a>,
    /// The model with a symbol for each size that the file leaves open.
    pub open: SizedModel,
    /// The model with the sizes of the user, if there are any.
    pub bound: Option<SizedModel>,
}

impl<'d, 'a> Sizing<'d, 'a> {
    /// Infers all sizes. Those in `sizes` replace symbols.
    pub fn of(document: &'d Document<'a>, sizes: &Sizes) -> Result<Sizing<'d, 'a>, SizeError> {
        if let Some((name, &size)) = sizes.iter().find(|(_, size)| **size < 1) {
            return Err(SizeError::NotPositive { name: name.clone(), size });
        }
        let open = SizedModel::of(&document.scan, &Sizes::new());
        let is_known = |name: &String| open.symbols.iter().any(|symbol| is_called(symbol, name));
        if let Some(name) = sizes.keys().find(|name| !is_known(name)) {
            let known = open.symbols.iter().map(|symbol| symbol.name.to_string()).collect();
            return Err(SizeError::Unknown { name: name.clone(), known });
        }
        let bound = (!sizes.is_empty()).then(|| SizedModel::of(&document.scan, sizes));
        Ok(Sizing { document, open, bound })
    }

    /// Refuses sizes that the model does not have.
    pub fn check(document: &'d Document<'a>, sizes: &Sizes) -> Result<(), SizeError> {
        Sizing::of(document, sizes).map(drop)
    }

    /// Returns the model whose costs are numbers, if the user gave all sizes.
    pub fn numbers(&self) -> &SizedModel {
        self.bound.as_ref().unwrap_or(&self.open)
    }

    /// Returns the model for formulas: with all symbols if each of them has a size, or with those that have none.
    pub fn formulas(&self) -> &SizedModel {
        match &self.bound {
            Some(bound) if bound.symbols.iter().any(|symbol| symbol.size.is_none()) => bound,
            _ => &self.open,
        }
    }
}

fn is_called(symbol: &SymbolUse, name: &str) -> bool {
    let is_in_file = matches!(&symbol.of, SymbolOf::Axis(text) if **text == *name);
    *symbol.name == *name || is_in_file
}
