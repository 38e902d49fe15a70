//! Attributes the time of a kernel to a line of the user.

use std::rc::Rc;

use onnx::OpType;
use onnx::operator::properties::{CASTS, HOLDS_PRODUCTS, LAYOUT_OPS, PRODUCTS, Properties};
use provenance::resolve::Sure;
use provenance::{OriginId, Site, Tier};
use rustc_hash::{FxHashMap, FxHashSet};

use super::copies::{Direction, copies};
use super::{Kernel, Profile};
use crate::fusions::{inner, is_bare};
use crate::{Document, Provenance};

/// The origin of one kernel.
#[derive(Clone, Debug)]
pub struct Attribution<'d> {
    /// Kernels that came from the same line share it.
    pub origin: Option<Rc<Provenance<'d>>>,
    /// True if it has a line of the user, and not only one of a library.
    pub is_users: bool,
}

/// Primitives that take most of the time of a fused kernel.
const PRODUCT_PRIMITIVES: &[&str] = &["conv_general_dilated", "dot_general"];

/// The maximum number of kernels between a change of the layout and the kernel that it was inserted for.
const MAX_BETWEEN: usize = 64;

/// The maximum number of kernels of one operator to distinguish by their dependencies.
const MAX_JOINED: usize = 256;

/// The names of the nodes that the runtime inserts before and after a product over more than two axes.
const BEFORE_PRODUCT: &str = "gemm_input_reshape";
const AFTER_PRODUCT: &str = "gemm_output_reshape";
/// The suffix of the name of such a product.
const PRODUCT: &str = "/MatMulAddFusion";

/// The operators that the runtime inserts around nodes in its blocked layout of images.
const INTO_BLOCKS: &str = "ReorderInput";
const OUT_OF_BLOCKS: &str = "ReorderOutput";
/// The suffix of the names of nodes in the blocked layout; a number may follow.
const BLOCKED: &str = "_nchwc";
/// Operators that the runtime inserts between two nodes of the model.
const INSERTED: Properties = LAYOUT_OPS.or(CASTS);

/// Finds the origin of each kernel of a profile.
pub fn attribute<'d>(document: &'d Document<'_>, profile: &Profile) -> Vec<Attribution<'d>> {
    let mut nodes: FxHashMap<&str, Option<usize>> = FxHashMap::default();
    for (number, node) in document.scan.nodes.iter().enumerate() {
        // A name that several nodes have identifies none of them.
        nodes.entry(node.name).and_modify(|known| *known = None).or_insert(Some(number));
    }
    let mut known: FxHashMap<(Sure, Vec<OriginId>, bool), Option<Rc<Provenance<'d>>>> =
        FxHashMap::default();
    let is_product = |op: &&OpType| op.is(PRODUCTS | HOLDS_PRODUCTS);
    let products: Vec<&OpType> = OpType::ALL.iter().filter(is_product).collect();
    let mut shared = |kernel: &Kernel, (sure, origins): (Sure, Vec<OriginId>)| {
        // Fused kernels have names such as `FusedConv`.
        let is_product = products.iter().any(|op| kernel.op.contains(op.name()));
        let found = known.entry((sure, origins, is_product));
        let origin = |(sure, origins, is_product): &(Sure, Vec<OriginId>, bool)| {
            heaviest(document, *sure, origins, *is_product).map(Rc::new)
        };
        found.or_insert_with_key(origin).clone()
    };
    let resolver = document.resolver();
    let ran: FxHashSet<u32> =
        profile.kernels.iter().filter_map(|kernel| resolver.node_of(&kernel.node)).collect();
    let copied = copies(document, Some(profile)).into_iter();
    let causes: FxHashMap<usize, usize> =
        copied.filter_map(|copied| Some((copied.kernel?, copied.cause?))).collect();
    let origins: Vec<Option<Rc<Provenance<'d>>>> = profile
        .kernels
        .iter()
        .enumerate()
        .map(|(number, kernel)| match nodes.get(&*kernel.node) {
            _ if Direction::of_op(&kernel.op).is_some() => {
                let (_, origins) = document.answer(*causes.get(&number)?);
                shared(kernel, (Sure::Neighbour, origins))
            }
            Some(Some(node)) => shared(kernel, document.answer(*node)),
            Some(None) => None,
            None => {
                shared(kernel, document.answer_of_run(&kernel.node, &|node| ran.contains(&node)))
            }
        })
        .collect();
    let joined = by_elimination(document, profile, &|number| origins[number].is_some());
    let mut of_joined = |number: usize| {
        let (_, origins) = document.answer(*joined.get(&number)?);
        shared(&profile.kernels[number], (Sure::Fused, origins))
    };
    let mut neighbors: FxHashMap<*const Provenance<'d>, Rc<Provenance<'d>>> = FxHashMap::default();
    let reordered = reordered(profile);
    let mut beside = |number: usize| {
        let other = reordered.get(&number).copied();
        let other = other.or_else(|| product_beside(profile, number));
        let other = other.or_else(|| inserted_beside(profile, number))?;
        let origin = origins.get(other)?.as_ref()?;
        let neighbor =
            || Rc::new(Provenance { sure: Sure::Neighbour, ..Provenance::clone(origin) });
        Some(neighbors.entry(Rc::as_ptr(origin)).or_insert_with(neighbor).clone())
    };
    (0..profile.kernels.len())
        .map(|number| {
            // A node that changes the layout may be named after an activation.
            let reordered = reordered.get(&number).and_then(|_| beside(number));
            let own = reordered.or_else(|| origins[number].clone());
            let origin = own.or_else(|| of_joined(number)).or_else(|| beside(number));
            let callsite = origin.as_ref().and_then(|origin| origin.callsite);
            let is_users = callsite.is_some_and(|frame| frame.tier == Tier::User);
            Attribution { origin, is_users }
        })
        .collect()
}

/// Returns the origin that takes most of the time: if a product was fused from several lines, that of the product.
pub(crate) fn heaviest<'d>(
    document: &'d Document<'_>,
    sure: Sure,
    origins: &[OriginId],
    computes_product: bool,
) -> Option<Provenance<'d>> {
    let (table, known) = (document.table(), document.known_callsites());
    let first = Provenance::of(table, known, sure, origins)?;
    if !computes_product {
        return Some(first);
    }
    let is_product = |site: &Site| {
        let plugin = site.emitter.and_then(|emitter| table.plugin_of(emitter));
        plugin.is_some_and(|plugin| PRODUCT_PRIMITIVES.contains(&&*table.get_emitter(plugin).name))
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

/// Returns the product that a reshape was inserted for: it ran next to the reshape, on exactly its result or
/// operand.
fn product_beside(profile: &Profile, number: usize) -> Option<usize> {
    let kernel = &profile.kernels[number];
    let is_before = is_bare(&kernel.node, BEFORE_PRODUCT);
    if !is_before && !is_bare(&kernel.node, AFTER_PRODUCT) {
        return None;
    }
    let other = if is_before { kernel.after? } else { kernel.before? };
    let product = profile.kernels.get(other)?;
    let is_joined = match is_before {
        true => product.shapes.can_read(&kernel.shapes),
        false => kernel.shapes.can_read(&product.shapes),
    };
    (is_joined && product.node.ends_with(PRODUCT)).then_some(other)
}

/// Finds the kernel that each change of the layout was inserted for: the producer of a value that leaves the
/// blocked layout, or the reader of a value that enters it. Both are identified by their shapes.
fn reordered(profile: &Profile) -> FxHashMap<usize, usize> {
    let is_reorder = |op: &str| op == INTO_BLOCKS || op == OUT_OF_BLOCKS;
    let mut found = FxHashMap::default();
    // A result leaves the blocked layout only once.
    let mut taken: FxHashSet<usize> = FxHashSet::default();
    for (number, kernel) in profile.kernels.iter().enumerate() {
        let other = match &*kernel.op {
            INTO_BLOCKS => {
                let after = profile.kernels.iter().enumerate().skip(number + 1).take(MAX_BETWEEN);
                let reads = |(_, other): &(usize, &Kernel)| {
                    is_blocked(&other.node) && other.shapes.can_read(&kernel.shapes)
                };
                after.into_iter().find(reads).map(|(other, _)| other)
            }
            OUT_OF_BLOCKS => {
                let before = (0..number).rev().take(MAX_BETWEEN);
                before.into_iter().find(|&other| {
                    let maker = &profile.kernels[other];
                    !is_reorder(&maker.op)
                        && !taken.contains(&other)
                        && kernel.shapes.can_read(&maker.shapes)
                })
            }
            _ => continue,
        };
        let Some(other) = other else { continue };
        found.insert(number, other);
        if &*kernel.op == OUT_OF_BLOCKS {
            taken.insert(other);
        }
    }
    found
}

/// True if a kernel computes in the blocked layout.
fn is_blocked(name: &str) -> bool {
    name.rfind(BLOCKED).is_some_and(|at| is_bare(&name[at..], BLOCKED))
}

/// Returns the kernel that a cast or a layout op was inserted for: it ran next to it, on exactly its result or
/// operand.
fn inserted_beside(profile: &Profile, number: usize) -> Option<usize> {
    let kernel = &profile.kernels[number];
    if !OpType::from_name(&kernel.op).is_some_and(|op| op.is(INSERTED)) {
        return None;
    }
    let shapes = |other: &usize| profile.kernels.get(*other).map(|kernel| &kernel.shapes);
    let reads = |other: &usize| shapes(other).is_some_and(|shapes| shapes.can_read(&kernel.shapes));
    let makes = |other: &usize| shapes(other).is_some_and(|shapes| kernel.shapes.can_read(shapes));
    kernel.after.filter(reads).or_else(|| kernel.before.filter(makes))
}

/// Finds the nodes of the model for kernels whose names contain only their operator.
///
/// Some nodes of an operator did not run under their names. If there are as many as fused kernels, and each of them
/// depends on the one before, the kernels are these nodes, in the same order.
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

/// True if a node depends on another one, directly or indirectly.
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
