//! The origin of a node.

use crate::table::{EmitterId, ScopeId, SiteId, StackId};

/// One equation of a node: its call path, its name scope, and the plugin that emitted the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// The call path of the equation; `None` only if JAX kept no frame.
    pub stack: Option<StackId>,
    pub scope: Option<ScopeId>,
    pub emitter: Option<EmitterId>,
}

/// The origin of a node: every equation that it implements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The site to show first.
    pub primary: SiteId,
    /// The other sites, sorted, each once, without `primary`.
    pub absorbed: Box<[SiteId]>,
}

impl Origin {
    /// Returns the origin of a node that implements one equation.
    pub fn of(primary: SiteId) -> Origin {
        Origin { primary, absorbed: Box::default() }
    }

    /// Adds every site of `other`. The primary site stays.
    #[must_use]
    pub fn absorb(&self, other: &Origin) -> Origin {
        self.absorb_sites(other.sites().collect())
    }

    /// Adds sites.
    #[must_use]
    pub(crate) fn absorb_sites(&self, mut absorbed: Vec<SiteId>) -> Origin {
        absorbed.extend(self.absorbed.iter().copied());
        absorbed.sort_unstable();
        absorbed.dedup();
        absorbed.retain(|&site| site != self.primary);
        Origin { primary: self.primary, absorbed: absorbed.into() }
    }

    /// Returns every site, the primary one first.
    pub fn sites(&self) -> impl Iterator<Item = SiteId> + '_ {
        std::iter::once(self.primary).chain(self.absorbed.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::seeded;

    fn origins() -> impl Strategy<Value = Origin> {
        let sites = prop::collection::vec((0..8u32).prop_map(|id| Origin::of(SiteId(id))), 1..6);
        sites.prop_map(|sites| {
            sites[1..].iter().fold(sites[0].clone(), |all, site| all.absorb(site))
        })
    }

    proptest! {
        #![proptest_config(seeded())]

        #[test]
        fn absorb_is_associative(a in origins(), b in origins(), c in origins()) {
            prop_assert_eq!(a.absorb(&b).absorb(&c), a.absorb(&b.absorb(&c)));
        }

        #[test]
        fn absorb_is_idempotent(a in origins(), b in origins()) {
            prop_assert_eq!(a.absorb(&a), a.clone());
            prop_assert_eq!(a.absorb(&b).absorb(&b), a.absorb(&b));
        }

        #[test]
        fn absorb_keeps_the_left_primary_and_every_place(a in origins(), b in origins()) {
            let joined = a.absorb(&b);
            prop_assert_eq!(joined.primary, a.primary);
            let mut places: Vec<_> = a.sites().chain(b.sites()).collect();
            let mut kept: Vec<_> = joined.sites().collect();
            places.sort_unstable();
            places.dedup();
            kept.sort_unstable();
            prop_assert_eq!(kept, places);
        }
    }
}
