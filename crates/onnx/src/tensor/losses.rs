//! Finds out whether products of weights are exact, at the time when they are written.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Remembers whether a product that was computed overflowed or lost digits. All clones remember the same.
///
/// Large weights are multiplied when they are written, and reading them twice takes as long as writing them. So a
/// conversion assumes that all products are exact, and starts again without the assumption if one is not.
#[derive(Clone, Debug, Default)]
pub struct Losses(Arc<AtomicBool>);

impl Losses {
    /// True if a product was not exact.
    pub fn exist(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn note(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Tensors are equal if their elements are.
impl PartialEq for Losses {
    fn eq(&self, _: &Losses) -> bool {
        true
    }
}

impl Eq for Losses {}

impl Hash for Losses {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
