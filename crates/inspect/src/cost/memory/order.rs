//! The order in which a runtime runs the nodes of a graph.

use super::flat::Flat;

/// The order in which nodes run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The order of ONNX Runtime: depth first from the ends of the graph, and of several operands first the one that was
    /// made last.
    #[default]
    OnnxRuntime,
    /// The order of the nodes in the file.
    File,
    /// Each node as soon as its operands exist.
    Early,
}

impl Order {
    const ALL: [Order; 3] = [Order::OnnxRuntime, Order::File, Order::Early];

    pub fn of_word(word: &str) -> Option<Order> {
        Order::ALL.into_iter().find(|order| order.word() == word)
    }

    pub fn words() -> Vec<&'static str> {
        Order::ALL.iter().map(|order| order.word()).collect()
    }

    pub fn word(self) -> &'static str {
        match self {
            Order::OnnxRuntime => "onnxruntime",
            Order::File => "file",
            Order::Early => "early",
        }
    }

    /// Returns the nodes of a graph in this order. Nodes in a circle are left out.
    pub(super) fn of(self, flat: &Flat) -> Vec<usize> {
        match self {
            Order::OnnxRuntime => depth_first(flat),
            Order::File => in_waves(flat, false),
            Order::Early => in_waves(flat, true),
        }
    }
}

/// Returns the nodes that each node needs, by their rank.
fn needed(flat: &Flat) -> Vec<Vec<usize>> {
    let maker = flat.makers();
    let of_node = |node: &super::flat::Node| {
        let values = node.reads.iter().chain(&node.captures);
        let mut makers: Vec<usize> = values.filter_map(|&value| maker[value as usize]).collect();
        makers.sort_unstable_by_key(|&maker| flat.nodes[maker].rank);
        makers.dedup();
        makers
    };
    flat.nodes.iter().map(of_node).collect()
}

fn depth_first(flat: &Flat) -> Vec<usize> {
    let needed = needed(flat);
    let mut is_read = vec![false; flat.nodes.len()];
    needed.iter().flatten().for_each(|&node| is_read[node] = true);
    let mut ends: Vec<usize> = (0..flat.nodes.len()).filter(|&node| !is_read[node]).collect();
    ends.sort_unstable_by_key(|&node| flat.nodes[node].rank);
    let mut stack: Vec<(usize, bool)> = ends.into_iter().map(|node| (node, false)).collect();
    let mut is_seen = vec![false; flat.nodes.len()];
    let mut order = Vec::with_capacity(flat.nodes.len());
    while let Some((node, is_left)) = stack.pop() {
        if is_left {
            order.push(node);
        } else if !std::mem::replace(&mut is_seen[node], true) {
            stack.push((node, true));
            let open = needed[node].iter().filter(|&&maker| !is_seen[maker]);
            stack.extend(open.map(|&maker| (maker, false)));
        }
    }
    order
}

/// Returns the nodes by rank, after those that they need; or first all that need nothing, then all that need only those.
fn in_waves(flat: &Flat, is_early: bool) -> Vec<usize> {
    let needed = needed(flat);
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); flat.nodes.len()];
    for (node, makers) in needed.iter().enumerate() {
        for &maker in makers {
            readers[maker].push(node);
        }
    }
    let mut missing: Vec<usize> = needed.iter().map(Vec::len).collect();
    let mut wave = vec![0_usize; flat.nodes.len()];
    let key = |node: usize, wave: &[usize]| {
        std::cmp::Reverse((if is_early { wave[node] } else { 0 }, flat.nodes[node].rank, node))
    };
    let ready = (0..flat.nodes.len()).filter(|&node| missing[node] == 0);
    let mut ready: std::collections::BinaryHeap<_> = ready.map(|node| key(node, &wave)).collect();
    let mut order = Vec::with_capacity(flat.nodes.len());
    while let Some(std::cmp::Reverse((_, _, node))) = ready.pop() {
        order.push(node);
        for &reader in &readers[node] {
            missing[reader] -= 1;
            wave[reader] = wave[reader].max(wave[node] + 1);
            if missing[reader] == 0 {
                ready.push(key(reader, &wave));
            }
        }
    }
    order
}
