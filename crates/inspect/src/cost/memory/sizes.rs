//! The values of symbols that the user chose.

use std::sync::Arc;

use onnx::sized::SizedModel;
use onnx::{Symbol, Total};
use rustc_hash::FxHashMap;

use crate::cost::Sizing;

/// The values of symbols.
#[derive(Clone, Debug, Default)]
pub struct Values(FxHashMap<Arc<str>, i64>);

impl Values {
    /// Returns the values of all symbols of the model with symbols, if all have one.
    pub(super) fn of(sizing: &Sizing<'_, '_>) -> Option<Values> {
        let bound = sizing.bound.as_ref()?;
        let sizes = |model: &SizedModel| {
            let known = model.symbols.iter().filter_map(|it| Some((it.name.clone(), it.size?)));
            known.collect::<FxHashMap<Arc<str>, i64>>()
        };
        let sizes = sizes(bound);
        let is_known = sizing.open.symbols.iter().all(|symbol| sizes.contains_key(&symbol.name));
        is_known.then_some(Values(sizes))
    }

    /// Returns a sum as a number, if the values of all of its symbols are known.
    pub(super) fn number(&self, total: &Total) -> Option<i128> {
        let mut is_known = true;
        total.for_each_symbol(&mut |symbol| is_known &= self.get(symbol).is_some());
        if is_known { total.value(&|symbol| self.get(symbol).unwrap_or(0)) } else { None }
    }

    /// Returns a number by which sums are compared.
    pub(super) fn measure(&self, total: &Total) -> f64 {
        self.number(total).map_or_else(|| total.at_large_sizes(), |number| number as f64)
    }

    fn get(&self, symbol: &Symbol) -> Option<i64> {
        match symbol {
            Symbol::Named(name) => self.0.get(name).copied(),
            Symbol::Unknown(_) => None,
        }
    }
}
