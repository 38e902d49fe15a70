use super::*;

#[test]
fn integers_wrap_and_keep_their_sign() {
    let tensor = Tensor::of_ints(DType::I16, vec![2], &[-1, 40_000]).unwrap();
    assert_eq!(tensor.ints(), Some(vec![-1, 40_000 - 65_536]));
    let tensor = Tensor::of_ints(DType::U16, vec![2], &[-1, 40_000]).unwrap();
    assert_eq!(tensor.ints(), Some(vec![65_535, 40_000]));
}

#[test]
fn floats_are_rounded_to_their_type() {
    let tensor = Tensor::of_floats(DType::Bf16, vec![1], &[1.0 / 3.0]).unwrap();
    assert_eq!(tensor.floats(), Some(vec![0.333_984_375]));
    assert_eq!(tensor.expected_bytes(), tensor.byte_len());
}

#[test]
fn a_double_just_beyond_a_tie_is_rounded_once() {
    let bf16_tie = 1.0 + 2f64.powi(-8);
    let f16_tie = 1.0 + 2f64.powi(-11);
    for (dtype, tie, up) in [(DType::Bf16, bf16_tie, -7), (DType::F16, f16_tie, -10)] {
        for away in [2f64.powi(-23), 2f64.powi(-52)] {
            let values = [tie, tie + away, -tie - away, tie - away];
            let tensor = Tensor::of_floats(dtype, vec![4], &values).unwrap();
            let next = 1.0 + 2f64.powi(up);
            assert_eq!(tensor.floats(), Some(vec![1.0, next, -next, 1.0]));
        }
        let extremes = [1e-300, -1e-300, f64::from(f32::MAX), -1e300, f64::INFINITY];
        let tensor = Tensor::of_floats(dtype, vec![5], &extremes).unwrap();
        let rounded = vec![0.0, -0.0, f64::INFINITY, -f64::INFINITY, f64::INFINITY];
        assert_eq!(tensor.floats(), Some(rounded));
    }
}

/// Returns a tensor that counts up.
fn counting(dtype: DType, shape: &[i64]) -> Tensor {
    let count: i64 = shape.iter().product();
    let numbers: Vec<i64> = (0..count).collect();
    Tensor::of_ints(dtype, shape.to_vec(), &numbers).unwrap()
}

/// Returns the numbers of an array at each index of a shape, in row-major order.
fn at_each(shape: &[i64], mut number: impl FnMut(&[i64]) -> i64) -> Vec<i64> {
    let count: i64 = shape.iter().product();
    let place = |mut rest: i64| {
        let mut place = vec![0; shape.len()];
        for (axis, &size) in shape.iter().enumerate().rev() {
            place[axis] = rest % size;
            rest /= size;
        }
        place
    };
    (0..count).map(|rest| number(&place(rest))).collect()
}

/// Returns the number at an index of an array that counts up.
fn counted(shape: &[i64], place: &[i64]) -> i64 {
    shape.iter().zip(place).fold(0, |number, (size, place)| number * size + place)
}

/// Checks the contents: read at once, in blocks, and from every element on.
#[track_caller]
fn check(tensor: &Tensor, expected: &[i64]) {
    assert_eq!(tensor.ints().unwrap(), expected);
    let mut written = Vec::new();
    write_parts(&[Part::Contents(tensor)], &mut written).unwrap();
    assert_eq!(written, tensor.bytes());
    let width = tensor.dtype.bits() / 8;
    for start in [1, 7, expected.len() / 2, expected.len() - 1] {
        for end in [start + 1, start + expected.len() / 3, expected.len()] {
            let mut part = vec![0; (end.min(expected.len()) - start) * width];
            tensor.fill(start, &mut part);
            assert_eq!(part, written[start * width..][..part.len()], "{start}..{end}");
        }
    }
}

#[test]
fn a_transposed_array_is_a_view_of_any_rank_and_type() {
    let types = [DType::U16, DType::I32, DType::I64];
    for (dtype, perm) in types.iter().zip([[2, 0, 1, 3], [3, 1, 2, 0], [1, 0, 3, 2]]) {
        let shape = [5, 20, 17, 33];
        let tensor = counting(*dtype, &shape).transposed(&perm).unwrap();
        assert!(matches!(tensor.contents, Contents::Lazy(_)));
        let after = perm.map(|axis| shape[axis]);
        let limit = 1 << dtype.bits().min(63);
        let expected = at_each(&after, |place| {
            let mut before = [0; 4];
            perm.iter().zip(place).for_each(|(&axis, &at)| before[axis] = at);
            counted(&shape, &before) % limit
        });
        assert_eq!(tensor.shape, after);
        check(&tensor, &expected);
    }
}

#[test]
fn moves_are_composed_and_go_back_to_the_array() {
    let tensor = counting(DType::I32, &[24, 64]);
    let heads = tensor.with_shape(vec![24, 8, 8]).transposed(&[1, 0, 2]).unwrap();
    let joined = heads.with_shape(vec![8, 192]);
    check(&joined, &at_each(&[8, 24, 8], |at| counted(&[24, 8, 8], &[at[1], at[0], at[2]])));
    let back = joined.with_shape(vec![8, 24, 8]).transposed(&[1, 0, 2]).unwrap();
    assert!(back.is_same_array(&tensor));
    assert!(!joined.is_same_array(&tensor));
    // An axis that begins within another one has no stride.
    let mixed = joined.with_shape(vec![3, 512]).transposed(&[1, 0]).unwrap();
    let flat = joined.ints().unwrap();
    check(&mixed, &at_each(&[512, 3], |at| flat[(at[1] * 512 + at[0]) as usize]));
}

#[test]
fn slices_and_broadcasts_are_views() {
    let tensor = counting(DType::I32, &[40, 100]);
    let sliced = tensor.sliced(&[39, 3], &[-2, 3], &[20, 30]).unwrap();
    let sliced = sliced.broadcast(&[4, 20, 30]).unwrap();
    let expected =
        at_each(&[4, 20, 30], |at| counted(&[40, 100], &[39 - 2 * at[1], 3 + 3 * at[2]]));
    check(&sliced, &expected);
    let rows = tensor.sliced(&[10, 0], &[1, 1], &[20, 100]).unwrap();
    check(&rows, &(1000..3000).collect::<Vec<i64>>());
    let repeated = tensor.with_shape(vec![1, 4000]).sliced(&[0, 7], &[0, 1], &[3, 900]).unwrap();
    check(&repeated, &at_each(&[3, 900], |at| at[1] + 7));
    assert_eq!(tensor.sliced(&[30, 0], &[1, 1], &[20, 100]), None);
    assert_eq!(tensor.broadcast(&[40, 99]), None);
}

#[test]
fn parts_are_side_by_side() {
    let (a, b) = (counting(DType::I32, &[30, 20]), counting(DType::I32, &[70, 30]));
    let turned = b.transposed(&[1, 0]).unwrap();
    let joined = Tensor::joined(&[&a, &turned], 1, vec![30, 90]).unwrap();
    let expected = at_each(&[30, 90], |at| match at[1] {
        ..20 => counted(&[30, 20], at),
        column => counted(&[70, 30], &[column - 20, at[0]]),
    });
    check(&joined, &expected);
    let transposed = joined.transposed(&[1, 0]).unwrap();
    check(
        &transposed,
        &at_each(&[90, 30], |at| expected[counted(&[30, 90], &[at[1], at[0]]) as usize]),
    );
    // Moves are applied to the parts and compute nothing.
    let columns = transposed.sliced(&[5, 0], &[1, 2], &[40, 15]).unwrap();
    check(
        &columns,
        &at_each(&[40, 15], |at| expected[counted(&[30, 90], &[2 * at[1], 5 + at[0]]) as usize]),
    );
    assert_eq!(transposed.sliced(&[20, 0], &[1, 1], &[70, 30]).unwrap().memory(), b.memory());
    let every_other = joined.sliced(&[0, 1], &[1, 2], &[30, 45]).unwrap();
    check(
        &every_other,
        &at_each(&[30, 45], |at| expected[counted(&[30, 90], &[at[0], 1 + 2 * at[1]]) as usize]),
    );
    assert_eq!(Tensor::joined(&[&a, &a], 0, vec![30, 40]).map(|tensor| tensor.len()), Some(1200));
    assert_eq!(Tensor::joined(&[&a, &a], 0, vec![30, 30]), None);
}

#[test]
fn products_are_rounded_once_and_keep_their_digits() {
    let numbers: Vec<f64> = (0..300_000).map(|number| f64::from(number) / 7.0).collect();
    let tensor = Tensor::of_floats(DType::F32, vec![6000, 50], &numbers).unwrap();
    let factors: Vec<f64> = (1..=50).map(|number| 1.0 / f64::from(number)).collect();
    let factors = Tensor::of_floats(DType::F64, vec![50], &factors).unwrap();
    let factors = factors.broadcast(&[6000, 50]).unwrap();
    let product = tensor.scaled(&factors, None).unwrap();
    assert!(matches!(product.contents, Contents::Lazy(_)));
    let expected: Vec<f64> = tensor
        .floats()
        .unwrap()
        .iter()
        .zip(factors.floats().unwrap())
        .map(|(x, factor)| f64::from((x * factor) as f32))
        .collect();
    assert_eq!(product.floats().unwrap(), expected);
    let transposed = product.with_shape(vec![2, 3000, 50]).transposed(&[2, 0, 1]).unwrap();
    let places = at_each(&[50, 6000], |at| counted(&[6000, 50], &[at[1], at[0]]));
    let moved: Vec<f64> = places.iter().map(|&at| expected[at as usize]).collect();
    assert_eq!(transposed.floats().unwrap(), moved);

    let uniform = |number: f64| {
        let one = Tensor::of_floats(DType::F64, vec![], &[number]).unwrap();
        one.broadcast(&[6000, 50]).unwrap()
    };
    assert_eq!(tensor.scaled(&uniform(1e37), None), None);
    assert_eq!(tensor.scaled(&uniform(1e-38), None), None);
    assert_eq!(tensor.scaled(&uniform(f64::NAN), None), None);
    // The bounds alone do not decide this.
    let mut steep = vec![1.0; 2000];
    (steep[0], steep[1]) = (1e-30, 1e30);
    let steep = Tensor::of_floats(DType::F32, vec![2000], &steep).unwrap();
    let mut factors = vec![1.0; 2000];
    (factors[0], factors[1]) = (1e20, 1e-20);
    let level = Tensor::of_floats(DType::F64, vec![2000], &factors).unwrap();
    assert!(steep.scaled(&level, None).is_some());
    factors.swap(0, 1);
    let steeper = Tensor::of_floats(DType::F64, vec![2000], &factors).unwrap();
    assert_eq!(steep.scaled(&steeper, None), None);
    // The other part has finite bounds.
    let [ones, unknown] = [1.0, f64::NAN]
        .map(|number| Tensor::of_floats(DType::F32, vec![2000], &vec![number; 2000]).unwrap());
    let joined = Tensor::joined(&[&unknown, &ones], 0, vec![4000]).unwrap();
    let twos = Tensor::of_floats(DType::F64, vec![4000], &vec![2.0; 4000]).unwrap();
    assert_eq!(joined.scaled(&twos, None), None);
}

#[test]
fn losses_of_large_products_are_noted_when_they_are_computed() {
    for dtype in [DType::F32, DType::F64] {
        let least = if dtype == DType::F32 { 1e-38 } else { 1e-307 };
        let most = 1.0 / least;
        for (number, factor, is_exact) in [
            (least, 2.0, true),
            (0.0, 1e-9, true),
            (least, 0.0, true),
            (least, 1e-3, false),
            (most, 1e3, false),
            (f64::NAN, 1.0, false),
        ] {
            let mut numbers = vec![1.0; 2000];
            numbers[1234] = number;
            let tensor = Tensor::of_floats(dtype, vec![2000], &numbers).unwrap();
            let factors = Tensor::of_floats(DType::F64, vec![1], &[factor]).unwrap();
            let factors = factors.broadcast(&[2000]).unwrap();
            let assumptions = Assumptions::default();
            let product = tensor.scaled(&factors, Some(&assumptions)).unwrap();
            let moved = product.with_shape(vec![20, 100]).transposed(&[1, 0]).unwrap();
            assert!(!assumptions.are_wrong(), "nothing is computed yet");
            moved.write_into(&mut vec![0; moved.byte_len()]);
            assert_eq!(assumptions.are_wrong(), !is_exact, "{dtype:?} {number} {factor}");
            assert_eq!(tensor.scaled(&factors, None).is_some(), is_exact);
        }
    }
    let few = Tensor::of_floats(DType::F32, vec![2], &[1.0, 1e38]).unwrap();
    let factors = Tensor::of_floats(DType::F64, vec![2], &[1e9, 1e9]).unwrap();
    assert_eq!(few.scaled(&factors, Some(&Assumptions::default())), None);
}

#[test]
fn floats_are_cast_one_by_one() {
    let numbers: Vec<f64> = (0..200_000).map(|number| f64::from(number) / 7.0).collect();
    let tensor = Tensor::of_floats(DType::F32, vec![400, 500], &numbers).unwrap();
    for dtype in [DType::F16, DType::Bf16, DType::F64] {
        let cast = tensor.cast(dtype).unwrap();
        assert!(matches!(cast.contents, Contents::Lazy(_)));
        let expected = Tensor::of_floats(dtype, vec![400, 500], &tensor.floats().unwrap()).unwrap();
        assert_eq!(cast.bytes(), expected.bytes());
        let moved = cast.with_shape(vec![20, 20, 500]).transposed(&[2, 0, 1]).unwrap();
        let expected = expected.with_shape(vec![20, 20, 500]).transposed(&[2, 0, 1]).unwrap();
        assert_eq!(moved.bytes(), expected.bytes());
    }
    assert_eq!(tensor.cast(DType::I32), None);
}

#[test]
fn a_view_is_derived_from_the_array_by_slices_reshapes_and_transposes() {
    let stored = counting(DType::I32, &[40, 100]);
    let derived = |tensor: &Tensor| {
        let steps = tensor.steps_from(&stored).unwrap();
        let result = steps.iter().fold(stored.clone(), |tensor, step| match step {
            Step::Slice { starts, shape } => {
                tensor.sliced(starts, &vec![1; starts.len()], shape).unwrap()
            }
            Step::Reshape(shape) => tensor.with_shape(shape.clone()),
            Step::Transpose(perm) => tensor.transposed(perm).unwrap(),
        });
        assert_eq!((&result.shape, result.ints()), (&tensor.shape, tensor.ints()));
        steps
    };
    let transposed = stored.transposed(&[1, 0]).unwrap();
    assert_eq!(derived(&transposed), [Step::Transpose(vec![1, 0])]);
    assert_eq!(derived(&stored.with_shape(vec![4000])), [Step::Reshape(vec![4000])]);
    let sliced = transposed.sliced(&[10, 0], &[1, 1], &[50, 40]).unwrap();
    let slice = Step::Slice { starts: vec![0, 10], shape: vec![40, 50] };
    assert_eq!(derived(&sliced), [slice, Step::Transpose(vec![1, 0])]);
    let heads = stored.with_shape(vec![40, 4, 25]).transposed(&[1, 0, 2]).unwrap();
    assert_eq!(derived(&heads).len(), 2);
    assert_eq!(derived(&heads.with_shape(vec![2, 2000])).len(), 3);
    assert_eq!(stored.steps_from(&transposed), None);
    let stepped = stored.sliced(&[0, 0], &[2, 1], &[20, 100]).unwrap();
    assert_eq!(stepped.steps_from(&stored), None);
    assert_eq!(counting(DType::I32, &[40, 100]).steps_from(&stored), None);
}

#[test]
fn a_uniform_tensor_is_known_by_its_element() {
    let zeros = Tensor::of_ints(DType::I32, vec![2], &[7, 7]).unwrap();
    assert_eq!(zeros.uniform().unwrap().ints(), Some(vec![7]));
    let many = Tensor::of_ints(DType::I32, vec![], &[7]).unwrap().broadcast(&[99, 99]).unwrap();
    assert_eq!(many.uniform().unwrap().ints(), Some(vec![7]));
    assert_eq!(counting(DType::I32, &[64, 64]).transposed(&[1, 0]).unwrap().uniform(), None);
    assert_eq!(Tensor::of_ints(DType::I32, vec![0], &[]).unwrap().uniform(), None);
}

#[test]
fn equal_expressions_are_equal() {
    let (a, b) = (counting(DType::I32, &[64, 64]), counting(DType::I32, &[64, 64]));
    let turned = |tensor: &Tensor| tensor.transposed(&[1, 0]).unwrap();
    assert_eq!(turned(&a), turned(&b));
    assert!(turned(&a).is_same_array(&turned(&a)));
    assert_ne!(turned(&a), a);
}

/// A file with room for a limited number of bytes.
struct Disk(Vec<u8>, usize);

impl std::io::Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > self.1 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn parts_of_many_blocks_are_written_in_order_until_the_disk_is_full() {
    let numbers: Vec<u8> = (0..3000 * 1000 * 4).map(|number| (number / 4 % 251) as u8).collect();
    let plain = Tensor::new(DType::F32, vec![3000, 1000], numbers);
    let transposed = plain.transposed(&[1, 0]).unwrap();
    let parts = [
        Part::Bytes(b"begin"),
        Part::Contents(&transposed),
        Part::Contents(&plain),
        Part::Bytes(b"between"),
        Part::Contents(&transposed),
    ];
    let wanted =
        [b"begin", &*transposed.bytes(), &*plain.bytes(), b"between", &*transposed.bytes()]
            .concat();
    let mut disk = Disk(Vec::new(), usize::MAX);
    write_parts(&parts, &mut disk).unwrap();
    assert!(disk.0 == wanted);
    for room in [0, 5, 10_000_000, 20_000_000, wanted.len() - 1] {
        let mut disk = Disk(Vec::new(), room);
        let error = write_parts(&parts, &mut disk).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        assert!(wanted.starts_with(&disk.0));
    }
}
