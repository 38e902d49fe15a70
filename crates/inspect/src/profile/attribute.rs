//! Which line of the user a kernel's time belongs to.

use std::rc::Rc;

use provenance::resolve::Sure;
use provenance::{OriginId, Site, Tier};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Profile;
use crate::fusions::{inner, is_bare};
use crate::{Document, Provenance};

/// The origin of one kernel.
#[derive(Clone, Debug)]
pub struct Attribution<'d> {
    /// Shared by the kernels that came from the same place.
    pub origin: Option<Rc<Provenance<'d>>>,
    /// True if it has a line that the user wrote, and not one of a library.
    pub is_users: bool,
}

/// Primitives that take most of the time of what they were fused with.
const PRODUCTS: &[&str] = &["conv_general_dilated", "dot_general"];

/// The number of kernels of one operator that are told apart by what needs what.
const MAX_JOINED: usize = 256;

/// The name of the nodes that the runtime inserts around a product over more than two axes.
const BEFORE_PRODUCT: &str = "gemm_input_reshape";
const AFTER_PRODUCT: &str = "gemm_output_reshape";
/// The suffix of the name of such a product.
const PRODUCT: &str = "/MatMulAddFusion";

/// Finds the origin of each kernel of a profile.
pub fn attribute<'d>(document: &'d Document<'_>, profile: &Profile) -> Vec<Attribution<'d>> {
    let mut nodes: FxHashMap<&str, Option<usize>> = FxHashMap::default();
    for (number, node) in document.scan.nodes.iter().enumerate() {
        // A name that several have leads to none of them.
        nodes.entry(node.name).and_modify(|known| *known = None).or_insert(Some(number));
    }
    let mut known: FxHashMap<(Sure, Vec<OriginId>), Option<Rc<Provenance<'d>>>> =
        FxHashMap::default();
    let mut shared = |answer: (Sure, Vec<OriginId>)| {
        let found = known.entry(answer);
        let heaviest = |(sure, origins): &(Sure, Vec<OriginId>)| {
            heaviest(document, *sure, origins).map(Rc::new)
        };
        found.or_insert_with_key(heaviest).clone()
    };
    let origins: Vec<Option<Rc<Provenance<'d>>>> = profile
        .kernels
        .iter()
        .map(|kernel| match nodes.get(&*kernel.node) {
            Some(Some(node)) => shared(document.answer(*node)),
            Some(None) => None,
            None => shared(document.answer_of_name(&kernel.node)),
        })
        .collect();
    let joined = by_elimination(document, profile, &|number| origins[number].is_some());
    let mut of_joined = |number: usize| {
        let (_, origins) = document.answer(*joined.get(&number)?);
        shared((Sure::Fused, origins))
    };
    let mut neighbors: FxHashMap<*const Provenance<'d>, Rc<Provenance<'d>>> = FxHashMap::default();
    let mut beside = |number: usize| {
        let origin = origins.get(product_beside(profile, number)?)?.as_ref()?;
        let neighbor =
            || Rc::new(Provenance { sure: Sure::Neighbour, ..Provenance::clone(origin) });
        Some(neighbors.entry(Rc::as_ptr(origin)).or_insert_with(neighbor).clone())
    };
    (0..profile.kernels.len())
        .map(|number| {
            let own = origins[number].clone();
            let origin = own.or_else(|| of_joined(number)).or_else(|| beside(number));
            let callsite = origin.as_ref().and_then(|origin| origin.callsite);
            let is_users = callsite.is_some_and(|frame| frame.tier == Tier::User);
            Attribution { origin, is_users }
        })
        .collect()
}

/// Returns the origin that takes the time: if a node was fused from several lines, the one with a product.
fn heaviest<'d>(
    document: &'d Document<'_>,
    sure: Sure,
    origins: &[OriginId],
) -> Option<Provenance<'d>> {
    let (table, known) = (document.table(), document.known_callsites());
    let first = Provenance::of(table, known, sure, origins)?;
    let is_product = |site: &Site| {
        let plugin = site.emitter.and_then(|emitter| table.plugin_of(emitter));
        plugin.is_some_and(|plugin| PRODUCTS.contains(&&*table.get_emitter(plugin).name))
    };
    let primary = table.get_site(table.get_origin(*origins.first()?).primary);
    if is_product(&primary) {
        return Some(first);
    }
    let all = origins.iter().flat_map(|&origin| table.get_origin(origin).sites());
    let product = all.map(|site| table.get_site(site)).find(is_product);
    let product = product.map(|site| Provenance::of_site(table, known, sure, site));
    Some(product.filter(|it| it.callsite.is_some()).unwrap_or(first))
}

/// Returns the product that a reshape was made for: run next to it, on exactly what it makes.
fn product_beside(profile: &Profile, number: usize) -> Option<usize> {
    let kernel = &profile.kernels[number];
    let is_before = is_bare(&kernel.node, BEFORE_PRODUCT);
    if !is_before && !is_bare(&kernel.node, AFTER_PRODUCT) {
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

/// Finds the nodes of the model for kernels that have only the name of their operator.
///
/// If the number of nodes of an operator that did not run under their names equals the number of fused
/// kernels, they are those kernels, in that order if each needs the one before.
fn by_elimination(
    document: &Document<'_>,
    profile: &Profile,
    is_known: &dyn Fn(usize) -> bool,
) -> FxHashMap<usize, usize> {
    let names: FxHashSet<&str> = profile.kernels.iter().map(|it| &*it.node).collect();
    let mut bare: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for (number, kernel) in profile.kernels.iter().enumerate() {
        if !is_known(number) && is_bare(&kernel.node, &kernel.op) {
            bare.entry(&*kernel.op).or_default().push(number);
        }
    }
    let mut ops: Vec<(&str, Vec<usize>)> = bare.into_iter().collect();
    ops.sort_unstable();
    let mut found = FxHashMap::default();
    for (op, kernels) in ops {
        let Some((_, mut missing)) = inner(document, op) else {
            continue;
        };
        missing.retain(|&node| !names.contains(document.scan.nodes[node].name));
        if missing.len() > MAX_JOINED {
            continue;
        }
        let is_chain = missing.windows(2).all(|pair| needs(document, pair[1], pair[0]));
        if missing.len() == kernels.len() && is_chain {
            found.extend(kernels.into_iter().zip(missing));
        }
    }
    found
}

/// True if a node reads, over others, what another makes.
fn needs(document: &Document<'_>, node: usize, other: usize) -> bool {
    let nodes = &document.outline().nodes;
    let mut seen: FxHashSet<u32> = FxHashSet::default();
    let mut open = vec![node as u32];
    while let Some(next) = open.pop() {
        if next as usize == other {
            return true;
        }
        let inputs = nodes.get(next as usize).map_or(&[][..], |node| &node.inputs);
        open.extend(inputs.iter().copied().filter(|&input| seen.insert(input)));
    }
    false
}
