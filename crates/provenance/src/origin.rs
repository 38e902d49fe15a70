//! What a node remembers.

use crate::table::{EmitterId, ScopeId, SiteId, StackId};

/// One equation's part in a node: who asked for it, in which name scope, and what emitted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// The call path of the equation; `None` only where JAX kept no frame at all.
    pub stack: Option<StackId>,
    pub scope: Option<ScopeId>,
    pub emitter: Option<EmitterId>,
}

/// Where a node came from: every equation that asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The place to show first.
    pub primary: SiteId,
    /// The other places, sorted, without `primary` and without repetition.
    pub absorbed: Box<[SiteId]>,
}

impl Origin {
    /// The origin of a node that one equation asked for.
    pub fn of(primary: SiteId) -> Origin {
        Origin {
            primary,
            absorbed: Box::default(),
        }
    }

    /// Takes over every place of `other`; the one shown first stays.
    #[must_use]
    pub fn absorb(&self, other: &Origin) -> Origin {
        let mut absorbed: Vec<SiteId> = self.absorbed.to_vec();
        absorbed.push(other.primary);
        absorbed.extend(other.absorbed.iter().copied());
        absorbed.sort_unstable();
        absorbed.dedup();
        absorbed.retain(|&site| site != self.primary);
        Origin {
            primary: self.primary,
            absorbed: absorbed.into(),
        }
    }

    /// Every place, the one to show first at the front.
    pub fn sites(&self) -> impl Iterator<Item = SiteId> + '_ {
        std::iter::once(self.primary).chain(self.absorbed.iter().copied())
    }
}
