//! The order in which the nodes of a graph run, while nodes are added to it.

const NONE: u32 = u32::MAX;

/// The distance between the positions of neighbors after numbering. Insertions halve it.
const GAP: u64 = 1 << 32;

/// A doubly linked list of node indices. Indices never change; a new node gets the next index.
#[derive(Debug)]
pub(super) struct Sequence {
    next: Vec<u32>,
    previous: Vec<u32>,
    first: u32,
    last: u32,
    /// A number for each node that is larger than the numbers of all nodes before it.
    position: Vec<u64>,
}

impl Sequence {
    /// Returns the sequence `0..length`.
    pub(super) fn of_length(length: usize) -> Sequence {
        let length = length as u32;
        Sequence {
            next: (1..=length).map(|next| if next == length { NONE } else { next }).collect(),
            previous: (0..length).map(|index| index.checked_sub(1).unwrap_or(NONE)).collect(),
            first: if length == 0 { NONE } else { 0 },
            last: length.checked_sub(1).unwrap_or(NONE),
            position: (1..=u64::from(length)).map(|index| index * GAP).collect(),
        }
    }

    pub(super) fn indices(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let mut ordered = Vec::with_capacity(self.next.len());
        let mut index = self.first;
        while index != NONE {
            ordered.push(index as usize);
            index = self.next[index as usize];
        }
        ordered.into_iter()
    }

    /// Adds the next index right before `anchor`. Returns it.
    pub(super) fn insert_before(&mut self, anchor: usize) -> usize {
        self.insert_between(self.previous[anchor], anchor as u32)
    }

    /// Adds the next index right after `anchor`. Returns it.
    pub(super) fn insert_after(&mut self, anchor: usize) -> usize {
        self.insert_between(anchor as u32, self.next[anchor])
    }

    fn insert_between(&mut self, before: u32, after: u32) -> usize {
        let index = self.next.len() as u32;
        let low = self.position.get(before as usize).copied().unwrap_or(0);
        let high = self.position.get(after as usize).copied().unwrap_or(low + 2 * GAP);
        self.next.push(after);
        self.previous.push(before);
        self.position.push(low + (high - low) / 2);
        *self.next.get_mut(before as usize).unwrap_or(&mut self.first) = index;
        *self.previous.get_mut(after as usize).unwrap_or(&mut self.last) = index;
        if high - low < 2 {
            self.number_again();
        }
        index as usize
    }

    /// Forgets every index from `length` on.
    pub(super) fn truncate(&mut self, length: usize) {
        for index in (length..self.next.len()).rev() {
            let (before, after) = (self.previous[index], self.next[index]);
            *self.next.get_mut(before as usize).unwrap_or(&mut self.first) = after;
            *self.previous.get_mut(after as usize).unwrap_or(&mut self.last) = before;
            self.next.truncate(index);
            self.previous.truncate(index);
            self.position.truncate(index);
        }
    }

    /// True if one node runs before another.
    pub(super) fn is_before(&self, first: usize, second: usize) -> bool {
        self.position[first] < self.position[second]
    }

    fn number_again(&mut self) {
        let mut position = 0;
        let mut index = self.first;
        while index != NONE {
            position += GAP;
            self.position[index as usize] = position;
            index = self.next[index as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(sequence: &Sequence) -> Vec<usize> {
        sequence.indices().collect()
    }

    #[test]
    fn new_nodes_keep_their_position_and_can_be_removed() {
        let mut sequence = Sequence::of_length(3);
        assert_eq!(sequence.insert_before(1), 3);
        assert_eq!(sequence.insert_before(1), 4);
        assert_eq!(sequence.insert_after(2), 5);
        assert_eq!(sequence.insert_before(0), 6);
        assert_eq!(ordered(&sequence), [6, 0, 3, 4, 1, 2, 5]);
        sequence.truncate(3);
        assert_eq!(ordered(&sequence), [0, 1, 2]);
    }

    #[test]
    fn positions_follow_the_order_however_many_nodes_are_put_in_one_place() {
        let mut sequence = Sequence::of_length(2);
        for _ in 0..200 {
            sequence.insert_before(1);
        }
        for _ in 0..200 {
            sequence.insert_after(0);
        }
        let order = ordered(&sequence);
        assert_eq!(order.len(), 402);
        assert!(order.windows(2).all(|pair| sequence.is_before(pair[0], pair[1])));
    }

    #[test]
    fn an_empty_sequence_has_no_nodes() {
        assert_eq!(ordered(&Sequence::of_length(0)), [0usize; 0]);
    }
}
