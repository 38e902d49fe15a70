//! Copies arrays with strides.

/// An axis: its size, and the distance between neighbors in the source, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Axis {
    pub size: usize,
    pub stride: isize,
}

/// The sides of the tiles for transposing, along the first and the last axis. They are chosen so that pages and
/// cache lines are used completely before they are evicted.
const TILE: [usize; 2] = [512, 32];

/// Drops unit axes, and merges an axis with the next one if the two form one axis in the source.
pub(super) fn merged(axes: impl IntoIterator<Item = Axis>) -> Vec<Axis> {
    let mut merged: Vec<Axis> = Vec::new();
    for axis in axes {
        match merged.last_mut() {
            _ if axis.size == 1 => {}
            Some(last) if last.stride == axis.stride * axis.size as isize => {
                *last = Axis { size: last.size * axis.size, stride: axis.stride };
            }
            _ => merged.push(axis),
        }
    }
    merged
}

/// Splits axes so that a run of them forms each axis of `shape`. `None` if an axis of `shape` begins or ends within
/// one of these axes.
pub(super) fn grouped(axes: Vec<Axis>, shape: &[i64]) -> Option<Vec<Vec<Axis>>> {
    let mut rest = axes;
    rest.reverse();
    let mut group = |&size: &i64| {
        let (mut group, mut missing) = (Vec::new(), size as usize);
        while missing > 1 {
            let axis = rest.pop()?;
            if missing % axis.size == 0 {
                group.push(axis);
                missing /= axis.size;
                continue;
            }
            if axis.size % missing != 0 {
                return None;
            }
            let inner = Axis { size: axis.size / missing, stride: axis.stride };
            group.push(Axis { size: missing, stride: axis.stride * inner.size as isize });
            rest.push(inner);
            missing = 1;
        }
        Some(group)
    };
    shape.iter().map(&mut group).collect()
}

/// Fills `out` with the elements from index `start` on, in row-major order of the axes. The axes begin at the
/// element `offset` of `source`.
pub(super) fn copy<const WIDTH: usize>(
    source: &[[u8; WIDTH]],
    axes: &[Axis],
    offset: isize,
    start: usize,
    out: &mut [[u8; WIDTH]],
) {
    let Some((first, inner)) = axes.split_first() else {
        return out.fill(source[offset as usize]);
    };
    let row: usize = inner.iter().map(|axis| axis.size).product();
    let (number, within) = (start / row, start % row);
    let at = |number: usize| offset + number as isize * first.stride;
    let begun = if within == 0 { 0 } else { out.len().min(row - within) };
    let (head, rest) = out.split_at_mut(begun);
    let number = number + usize::from(begun > 0);
    let rows = rest.len() / row;
    let (whole, tail) = rest.split_at_mut(rows * row);
    if !head.is_empty() {
        copy(source, inner, at(number - 1), within, head);
    }
    if rows > 0 {
        let first = Axis { size: rows, ..*first };
        copy_block(source, &merged([&[first], inner].concat()), at(number), whole);
    }
    if !tail.is_empty() {
        copy(source, inner, at(number + rows), 0, tail);
    }
}

/// Copies all elements of the axes.
fn copy_block<const WIDTH: usize>(
    source: &[[u8; WIDTH]],
    axes: &[Axis],
    offset: isize,
    out: &mut [[u8; WIDTH]],
) {
    let distance = |place: &usize| axes[*place].stride.unsigned_abs();
    let closest = (0..axes.len()).min_by_key(distance);
    match axes {
        [] | [Axis { stride: 0, .. }] => out.fill(source[offset as usize]),
        [Axis { stride: 1, size }] => {
            let start = offset as usize;
            out.copy_from_slice(&source[start..start + size]);
        }
        [axis] => {
            for (number, element) in out.iter_mut().enumerate() {
                *element = source[(offset + number as isize * axis.stride) as usize];
            }
        }
        [first, middle @ .., last] if closest == Some(0) => {
            let row = out.len() / first.size;
            copy_tiles(source, [*first, *last], middle, row, offset, out);
        }
        [first, inner @ ..] => {
            for (number, row) in out.chunks_exact_mut(out.len() / first.size).enumerate() {
                copy_block(source, inner, offset + number as isize * first.stride, row);
            }
        }
    }
}

/// Copies in tiles of the first and the last axis. Neighbors along the first axis are `row` elements apart in
/// `out`.
fn copy_tiles<const WIDTH: usize>(
    source: &[[u8; WIDTH]],
    [first, last]: [Axis; 2],
    middle: &[Axis],
    row: usize,
    offset: isize,
    out: &mut [[u8; WIDTH]],
) {
    if let Some((axis, inner)) = middle.split_first() {
        let step = inner.iter().map(|axis| axis.size).product::<usize>() * last.size;
        for number in 0..axis.size {
            let offset = offset + number as isize * axis.stride;
            copy_tiles(source, [first, last], inner, row, offset, &mut out[number * step..]);
        }
        return;
    }
    for top in (0..first.size).step_by(TILE[0]) {
        for left in (0..last.size).step_by(TILE[1]) {
            let width = TILE[1].min(last.size - left);
            for number in top..first.size.min(top + TILE[0]) {
                let start = offset + number as isize * first.stride + left as isize * last.stride;
                let begin = number * row + left;
                for (place, element) in out[begin..begin + width].iter_mut().enumerate() {
                    *element = source[(start + place as isize * last.stride) as usize];
                }
            }
        }
    }
}
