//! Finds nodes and values by a part of their names.

use std::collections::BTreeMap;

use onnx::scan::Scan;

/// A node or a value that a name refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target<'a> {
    /// A node, by its number.
    Node(usize),
    /// A value that no node computes: an input or an initializer of a graph.
    Value { graph: usize, name: &'a str },
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matches<'a> {
    One(Target<'a>),
    /// The names and their targets, in order.
    Many(Vec<(&'a str, Target<'a>)>),
    /// The most similar names.
    Nothing(Vec<&'a str>),
}

/// The maximum number of similar names to suggest.
const MAX_OFFERED: usize = 5;

/// Finds a node or a value by its whole name, by the last parts of its path, or by a part of the name; otherwise
/// finds the nodes with that operator. `#12` is the node with that number.
pub fn find<'a>(scan: &Scan<'a>, wanted: &str) -> Matches<'a> {
    if let Some(number) = wanted.strip_prefix('#').and_then(|number| number.parse::<usize>().ok())
        && number < scan.nodes.len()
    {
        return Matches::One(Target::Node(number));
    }
    let lower = wanted.to_lowercase();
    let ways: [&dyn Fn(&str) -> bool; 4] = [
        &|name| name == wanted,
        &|name| name.strip_suffix(wanted).is_some_and(|before| before.ends_with(['/', '.', ':'])),
        &|name| name.contains(wanted),
        &|name| name.to_lowercase().contains(&lower),
    ];
    for is_match in ways.iter().filter(|_| !wanted.is_empty()) {
        let found = matching(scan, is_match);
        match found.as_slice() {
            [] => {}
            [(_, target)] => return Matches::One(target.clone()),
            _ => return Matches::Many(found),
        }
    }
    let found = with_operator(scan, &lower);
    match found.as_slice() {
        [] => Matches::Nothing(nearest(scan, wanted)),
        [(_, target)] => Matches::One(target.clone()),
        _ => Matches::Many(found),
    }
}

/// Returns the nodes with an operator of that name, ignoring case.
fn with_operator<'a>(scan: &Scan<'a>, wanted: &str) -> Vec<(&'a str, Target<'a>)> {
    let nodes = scan.nodes.iter().enumerate();
    let found = nodes.filter(|(_, node)| node.op.to_lowercase() == wanted);
    found.map(|(number, node)| (node.name, Target::Node(number))).collect()
}

/// Returns every target with a matching name, each once.
fn matching<'a>(scan: &Scan<'a>, is_match: &dyn Fn(&str) -> bool) -> Vec<(&'a str, Target<'a>)> {
    let mut found: BTreeMap<Target<'a>, &'a str> = BTreeMap::new();
    for_each_name(scan, &mut |name, target| {
        if is_match(name) {
            found.entry(target).or_insert(name);
        }
    });
    found.into_iter().map(|(target, name)| (name, target)).collect()
}

fn for_each_name<'a>(scan: &Scan<'a>, visit: &mut dyn FnMut(&'a str, Target<'a>)) {
    for (number, node) in scan.nodes.iter().enumerate() {
        for &name in std::iter::once(&node.name).chain(&node.outputs) {
            if !name.is_empty() {
                visit(name, Target::Node(number));
            }
        }
    }
    for (graph, entry) in scan.graphs.iter().enumerate() {
        let initializers = entry.initializers.iter().map(|tensor| tensor.name);
        for name in entry.inputs.iter().map(|value| value.name).chain(initializers) {
            if !name.is_empty() {
                visit(name, Target::Value { graph, name });
            }
        }
    }
}

/// Returns the names that differ least from the wanted one, as a whole or in their last part.
fn nearest<'a>(scan: &Scan<'a>, wanted: &str) -> Vec<&'a str> {
    let wanted: Vec<char> = wanted.chars().take(200).collect();
    let most = (wanted.len() / 3).max(2);
    let mut best: Vec<(usize, &'a str)> = Vec::new();
    for_each_name(scan, &mut |name, _| {
        let worst = if best.len() < MAX_OFFERED { most } else { best[best.len() - 1].0.min(most) };
        let last = name.rsplit('/').next().unwrap_or(name);
        let mut distance = within(&wanted, name, worst);
        if last.len() < name.len() {
            distance = distance.min(within(&wanted, last, worst));
        }
        if distance <= worst && !best.iter().any(|&(_, known)| known == name) {
            let at = best.partition_point(|&(known, _)| known <= distance);
            best.insert(at, (distance, name));
            best.truncate(MAX_OFFERED);
        }
    });
    best.into_iter().map(|(_, name)| name).collect()
}

/// Returns the edit distance between two names; `most + 1` if it is more than `most`.
fn within(wanted: &[char], name: &str, most: usize) -> usize {
    let too_many = most + 1;
    // A character has at most four bytes.
    if name.len() > 4 * (wanted.len() + most) {
        return too_many;
    }
    let length = name.chars().count();
    if length.abs_diff(wanted.len()) > most {
        return too_many;
    }
    let mut before: Vec<usize> = (0..=wanted.len()).collect();
    for (row, letter) in name.chars().enumerate() {
        let mut corner = before[0];
        before[0] = row + 1;
        let mut least = before[0];
        for (column, &other) in wanted.iter().enumerate() {
            let above = before[column + 1];
            let same = corner + usize::from(letter != other);
            before[column + 1] = same.min(above + 1).min(before[column] + 1);
            least = least.min(before[column + 1]);
            corner = above;
        }
        if least > most {
            return too_many;
        }
    }
    before[wanted.len()].min(too_many)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_letters() {
        let distance = |a: &str, b: &str| within(&a.chars().collect::<Vec<_>>(), b, 9);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("é", "e"), 1);
        assert_eq!(within(&['a'; 20], "bbbbbbbbbbbbbbbbbbbb", 4), 5);
    }
}
