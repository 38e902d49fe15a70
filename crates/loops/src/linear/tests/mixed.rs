//! Tests of states that a constant matrix mixes.

use crate::linear::chunks;
use crate::linear::coefficients::Coefficient;
use crate::linear::components::{Blocks, Matrices, Matrix, powers_of};
use expect_test::expect;
use testing::check_for;

fn matrix(size: usize, entries: &[f64]) -> Matrix {
    Matrix { size, entries: entries.to_vec() }
}

#[test]
fn numbers_that_depend_on_each_other_are_one_block() {
    let known = |&(column, number): &(u32, f64)| (column, Coefficient::known(number));
    let row = |entries: &[(u32, f64)]| entries.iter().map(known).collect();
    let rows = [
        row(&[(0, 0.5), (2, 0.1)]),
        row(&[(1, 0.5), (3, 0.1)]),
        row(&[(2, 0.5)]),
        row(&[(3, 0.5)]),
        row(&[]),
    ];
    let found = Blocks::of(&rows).expect("small blocks");
    let [pairs, single] = &found[..] else { panic!("{} sizes", found.len()) };
    assert_eq!((pairs.count, &pairs.order[..]), (2, &[0, 2, 1, 3][..]));
    let Matrices::Known(matrices) = &pairs.matrices else { panic!("known numbers") };
    assert_eq!(matrices[..], [matrix(2, &[0.5, 0.1, 0.0, 0.5])]);
    assert_eq!((single.count, &single.order[..]), (1, &[4][..]));
}

#[test]
fn blocks_of_more_than_128_numbers_are_declined() {
    let rows: Vec<_> =
        (0..129).map(|row| vec![((row + 1) % 129, Coefficient::known(0.5))]).collect();
    assert!(Blocks::of(&rows).is_err());
}

#[test]
fn powers_that_grow_faster_than_the_errors_of_a_loop_are_declined() {
    let is_small =
        |entries: &[f64], steps: usize| powers_of(&[matrix(2, entries)], steps, steps).is_ok();
    let (c, s) = (0.3_f64.cos(), 0.3_f64.sin());
    for steps in [2, 32, 1000] {
        assert!(is_small(&[c, -s, s, c], steps), "a rotation");
        assert!(is_small(&[1.0, 0.1, 0.0, 1.0], steps), "a sum of sums");
        // The first state has another unit.
        assert!(is_small(&[0.9, 1e9, 1e-12, 0.9], steps));
    }
    assert!(!is_small(&[1.1, 0.0, 0.0, 0.5], 100));
    assert!(!is_small(&[0.0, 1e30, 1e30, 0.0], 2));
    assert!(!is_small(&[f64::NAN, 0.0, 0.0, 0.5], 2));
}

#[test]
fn a_rotation_is_computed_by_products_with_its_powers() {
    check_for(
        "onnxruntime",
        chunks::run,
        "graph g(h:f32[2], x:f32[32,2]) -> (y, ys)
y:f32[2], ys:f32[32,2] = Scan(h, x) {body={
  graph b(a:f32[2], x0:f32[2]) -> (n, o)
  %0:f32[2] = MatMul([[0.0, -0.5], [0.5, 0.0]], a)
  n:f32[2] = Add(%0, x0)
  o:f32[2] = Tanh(n)
}, num_scan_inputs=1}",
        expect![[r#"
            graph g(h:f32[2], x:f32[32,2]) -> (y, ys)
            %0 = ReduceL1(x) {keepdims=0}  # 2
            %1 = ReduceL1(h) {keepdims=0}  # 2
            %2 = Add(%0, %1)  # 2
            %3 = Less(%2, 1.1529215e18)  # 2
            y:f32[2], ys:f32[32,2] = If(%3) {else_branch={  # 2 4 5 6
              graph recurrent/scan() -> (%4, %5)
              %4:f32[2], %5:f32[32,2] = Scan(h, x) {body={  # 2
                graph b(a:f32[2], x0:f32[2]) -> (n, o)
                %6 = MatMul([[0.0, -0.5], [0.5, 0.0]], a)  # 4
                n:f32[2] = Add(%6, x0)  # 5
                o:f32[2] = Tanh(n)  # 6
              }, num_scan_inputs=1}
            }, then_branch={
              graph recurrence/chunks() -> (%19, %20)
              %7 = Reshape(h, [1, 2]:i64)  # 2 4 5 6
              %8 = Reshape(x, [4, 16]:i64)  # 2 4 5 6
              %9 = MatMul(%8, const f32[16,16])  # 2 4 5 6
              %10 = Slice(%9, [14]:i64, [16]:i64, [1]:i64)  # 2 4 5 6
              %11 = Slice(%10, [0]:i64, [-1]:i64, [0]:i64)  # 2 4 5 6
              %12 = Concat(%7, %11) {axis=0}  # 2 4 5 6
              %13 = Reshape(%12, [1, 8]:i64)  # 2 4 5 6
              %14 = MatMul(%13, const f32[8,8])  # 2 4 5 6
              %15 = Reshape(%14, [4, 2]:i64)  # 2 4 5 6
              %16 = MatMul(%15, const f32[2,16])  # 2 4 5 6
              %17 = Add(%9, %16)  # 2 4 5 6
              %18 = Reshape(%17, [32, 2]:i64)  # 2 4 5 6
              %19:f32[2] = Gather(%18, -1:i64) {axis=0}  # 2 4 5 6
              %20:f32[32,2] = Tanh(%18)  # 6
            }}
        "#]],
    );
}
