//! Which line of the user a kernel's time belongs to.

use provenance::Tier;
use provenance::resolve::Sure;
use rustc_hash::FxHashMap;

use super::Profile;
use crate::{Document, Provenance};

/// Where the time of one kernel went.
#[derive(Clone, Debug)]
pub struct Attribution<'d> {
    pub origin: Option<Provenance<'d>>,
    /// Whether it has a line that the user wrote, and not one of a library.
    pub is_users: bool,
}

/// What the runtime makes around a product over more than two axes: nodes whose names say nothing.
const BEFORE_PRODUCT: &str = "gemm_input_reshape";
const AFTER_PRODUCT: &str = "gemm_output_reshape";
/// What the name of such a product ends in.
const PRODUCT: &str = "/MatMulAddFusion";

/// For each kernel of a profile, where it came from.
pub fn attribute<'d>(document: &'d Document<'_>, profile: &Profile) -> Vec<Attribution<'d>> {
    let mut nodes: FxHashMap<&str, Option<usize>> = FxHashMap::default();
    for (number, node) in document.scan.nodes.iter().enumerate() {
        // A name that several have leads to none of them.
        nodes.entry(node.name).and_modify(|known| *known = None).or_insert(Some(number));
    }
    let own = |name: &str| match nodes.get(name) {
        Some(Some(node)) => document.provenance(*node),
        Some(None) => None,
        None => document.resolve_name(name),
    };
    let origins: Vec<Option<Provenance<'d>>> =
        profile.kernels.iter().map(|kernel| own(&kernel.node)).collect();
    let beside = |number: usize| {
        let mut origin = origins.get(product_beside(profile, number)?)?.clone()?;
        origin.sure = Sure::Neighbour;
        Some(origin)
    };
    (0..profile.kernels.len())
        .map(|number| {
            let origin = origins[number].clone().or_else(|| beside(number));
            let callsite = origin.as_ref().and_then(|origin| origin.callsite);
            let is_users = callsite.is_some_and(|frame| frame.tier == Tier::User);
            Attribution { origin, is_users }
        })
        .collect()
}

/// The product that a reshape was made for: run next to it, on exactly what it makes.
fn product_beside(profile: &Profile, number: usize) -> Option<usize> {
    let kernel = &profile.kernels[number];
    let is_before = is_numbered(&kernel.node, BEFORE_PRODUCT);
    if !is_before && !is_numbered(&kernel.node, AFTER_PRODUCT) {
        return None;
    }
    let other = if is_before { kernel.after? } else { kernel.before? };
    let product = profile.kernels.get(other)?;
    let (made, read) = match is_before {
        true => (&kernel.shapes.made, &product.shapes.read),
        false => (&product.shapes.made, &kernel.shapes.read),
    };
    let is_joined = made.is_some() && made == read;
    (is_joined && product.node.ends_with(PRODUCT)).then_some(other)
}

/// `gemm_input_reshape` and `gemm_input_reshape_token_12`
fn is_numbered(name: &str, helper: &str) -> bool {
    name.strip_prefix(helper).is_some_and(|rest| {
        let number = rest.strip_prefix("_token_");
        rest.is_empty()
            || number.is_some_and(|it| !it.is_empty() && it.bytes().all(|b| b.is_ascii_digit()))
    })
}
