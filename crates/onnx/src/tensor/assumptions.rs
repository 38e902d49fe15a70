//! Assumptions of passes about large weights, which are checked when the weights are written.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Tensor;

/// The assumptions about weights. Clones share them.
///
/// Reading large weights twice takes as long as writing them. So a conversion assumes that weights have ordinary
/// magnitudes, and checks that while it writes them. If an assumption is wrong, the conversion starts again without
/// assumptions.
#[derive(Clone, Debug, Default)]
pub struct Assumptions(Arc<State>);

#[derive(Debug, Default)]
struct State {
    has_lost: AtomicBool,
    limited: Mutex<Vec<(Tensor, f64)>>,
}

impl Assumptions {
    /// Assumes that no element of a tensor of floats exceeds a magnitude.
    pub fn limit(&self, tensor: &Tensor, most: f64) {
        let mut limited = self.0.limited.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known =
            |(other, limit): &(Tensor, f64)| other.is_same_array(tensor) && *limit <= most;
        if !limited.iter().any(is_known) {
            limited.push((tensor.clone(), most));
        }
    }

    /// True if a computed product overflowed or lost digits, or if an element exceeds its limit.
    pub fn are_wrong(&self) -> bool {
        let limited = self.0.limited.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.has_lost.load(Ordering::Acquire)
            || limited.iter().any(|(tensor, most)| tensor.max_magnitude() > *most)
    }

    /// Records that a product overflows or loses digits.
    pub(super) fn note_loss(&self) {
        self.0.has_lost.store(true, Ordering::Release);
    }
}

/// All are equal, so that tensors are equal if their elements are.
impl PartialEq for Assumptions {
    fn eq(&self, _: &Assumptions) -> bool {
        true
    }
}

impl Eq for Assumptions {}

impl Hash for Assumptions {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
