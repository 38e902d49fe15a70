//! Merges equal constants.

use std::hash::BuildHasher;

use provenance::OriginId;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::{Edit, add_paths};
use crate::value::{Value, ValueId};

impl Edit<'_> {
    /// Merges constants with equal contents, if `may_share` accepts the two values.
    pub fn share_constants(&mut self, may_share: impl Fn(&Edit<'_>, ValueId, ValueId) -> bool) {
        let mut known: FxHashMap<u64, Vec<ValueId>> = FxHashMap::default();
        let mut seen: FxHashSet<ValueId> = FxHashSet::default();
        for index in 0..self.len() {
            for id in self.inputs(index).into_iter().flatten() {
                let Some(tensor) = self.tensor(id).filter(|_| seen.insert(id)) else { continue };
                let candidates = known.entry(FxBuildHasher.hash_one(tensor)).or_default();
                let is_equal = |&&other: &&ValueId| {
                    self.tensor(other) == Some(tensor) && may_share(self, id, other)
                };
                match candidates.iter().find(is_equal) {
                    Some(&kept) => self.share_constant(kept, id),
                    None => candidates.push(id),
                }
            }
        }
    }

    /// Makes all readers of `dropped` read `kept`, an equal constant. If only `dropped` has a name, `kept` gets it.
    fn share_constant(&mut self, kept: ValueId, dropped: ValueId) {
        let name = self.values[dropped].name.clone();
        let Value { origin, captured, .. } = self.values[dropped];
        let paths = self.values[dropped].paths.clone();
        let kept_value = &mut self.values[kept];
        add_paths(&mut kept_value.paths, &paths);
        kept_value.name = kept_value.name.take().or(name);
        let mut joined = |a: Option<OriginId>, b: Option<OriginId>| match (a, b) {
            (Some(a), Some(b)) => Some(self.table.absorb(a, b)),
            (a, b) => a.or(b),
        };
        kept_value.origin = joined(kept_value.origin, origin);
        kept_value.captured = joined(kept_value.captured, captured);
        self.replace_value(dropped, kept);
    }
}
