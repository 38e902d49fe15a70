//! Tests the cells of each library, and near misses.

use expect_test::{Expect, expect};

use testing::{check, check_ignoring_nan, each};

/// A scan over two steps with a state of one number, and these nodes between.
#[track_caller]
fn check_lstm(nodes: &str, expect: Expect) {
    let text = format!(
        "graph g(x:f32[2,3,1], c:f32[3,1], h:f32[3,1]) -> (y)
c2:f32[3,1], h2:f32[3,1], y:f32[2,3,1] = Scan(c, h, x) {{body={{
  graph b(c0:f32[3,1], h0:f32[3,1], x0:f32[3,1]) -> (c1, h1, y1)
  wx:f32[3,4] = MatMul(x0, [[1.0, 2.0, 3.0, 4.0]])
  wh:f32[3,4] = MatMul(h0, [[5.0, 6.0, 7.0, 8.0]])
  s:f32[3,4] = Add(wx, wh)
  z:f32[3,4] = Add(s, [[0.1, 0.2, 0.3, 0.4]])
  i:f32[3,1], f:f32[3,1], g0:f32[3,1], o:f32[3,1] = Split(z, [1, 1, 1, 1]:i64) {{axis=1}}
  si:f32[3,1] = Sigmoid(i)
  sf:f32[3,1] = Sigmoid(f)
  so:f32[3,1] = Sigmoid(o)
  tg:f32[3,1] = Tanh(g0)
{nodes}
  y1:f32[3,1] = Identity(h1)
}}, num_scan_inputs=1}}"
    );
    check(each(super::run), &text, expect);
}

#[test]
fn a_long_short_term_memory_is_one_node() {
    check_lstm(
        "  kept:f32[3,1] = Mul(c0, sf)
  added:f32[3,1] = Mul(tg, si)
  c1:f32[3,1] = Add(added, kept)
  tc:f32[3,1] = Tanh(c1)
  h1:f32[3,1] = Mul(so, tc)",
        expect![[r#"
            graph g(x:f32[2,3,1], c:f32[3,1], h:f32[3,1]) -> (y)
            %0 = ReduceL1(x) {keepdims=0}  # 2
            %1 = ReduceL1(h) {keepdims=0}  # 2
            %2 = ReduceL1(c) {keepdims=0}  # 2
            %3 = Sum(%0, %1, %2)  # 2
            %4 = Less(%3, 1.1529215e18)  # 2
            %5 = Unsqueeze(h, [0]:i64)  # 2
            %6 = Unsqueeze(c, [0]:i64)  # 2
            %7 = If(%4) {else_branch={  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18
              graph recurrent/scan() -> (%11)
              %8, %9, %10 = Scan(c, h, x) {body={  # 2
                graph b(c0:f32[3,1], h0:f32[3,1], x0:f32[3,1]) -> (c1, h1, y1)
                wx = MatMul(x0, [[1.0, 2.0, 3.0, 4.0]])  # 4
                wh = MatMul(h0, [[5.0, 6.0, 7.0, 8.0]])  # 5
                s = Add(wx, wh)  # 6
                z = Add(s, [[0.1, 0.2, 0.3, 0.4]])  # 7
                i, f, g0, o = Split(z, [1, 1, 1, 1]:i64) {axis=1}  # 8
                si = Sigmoid(i)  # 9
                sf = Sigmoid(f)  # 10
                so = Sigmoid(o)  # 11
                tg = Tanh(g0)  # 12
                kept = Mul(c0, sf)  # 13
                added = Mul(tg, si)  # 14
                c1:f32[3,1] = Add(added, kept)  # 15
                tc = Tanh(c1)  # 16
                h1:f32[3,1] = Mul(so, tc)  # 17
                y1:f32[3,1] = Identity(h1)  # 18
              }, num_scan_inputs=1}
              %11:f32[2,1,3,1] = Unsqueeze(%10, [1]:i64)  # 2
            }, then_branch={
              graph recurrent/fused() -> (%12)
              %12:f32[2,1,3,1], %13, %14 = LSTM(x, [[[1.0], [4.0], [2.0], [3.0]]], [[[5.0], [8.0], [6.0], [7.0]]], [[0.1, 0.4, 0.2, 0.3, 0.0, 0.0, 0.0, 0.0]], _, %5, %6) {hidden_size=1}  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18
            }}
            y:f32[2,3,1] = Squeeze(%7, [1]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18
        "#]],
    );
}

#[test]
fn a_cell_that_keeps_its_hidden_state_is_another() {
    check_lstm(
        "  kept:f32[3,1] = Mul(h0, sf)
  added:f32[3,1] = Mul(tg, si)
  c1:f32[3,1] = Add(added, kept)
  tc:f32[3,1] = Tanh(c1)
  h1:f32[3,1] = Mul(so, tc)",
        expect![[r#"
            graph g(x:f32[2,3,1], c:f32[3,1], h:f32[3,1]) -> (y)
            c2, h2, y:f32[2,3,1] = Scan(c, h, x) {body={  # 2
              graph b(c0:f32[3,1], h0:f32[3,1], x0:f32[3,1]) -> (c1, h1, y1)
              wx = MatMul(x0, [[1.0, 2.0, 3.0, 4.0]])  # 4
              wh = MatMul(h0, [[5.0, 6.0, 7.0, 8.0]])  # 5
              s = Add(wx, wh)  # 6
              z = Add(s, [[0.1, 0.2, 0.3, 0.4]])  # 7
              i, f, g0, o = Split(z, [1, 1, 1, 1]:i64) {axis=1}  # 8
              si = Sigmoid(i)  # 9
              sf = Sigmoid(f)  # 10
              so = Sigmoid(o)  # 11
              tg = Tanh(g0)  # 12
              kept = Mul(h0, sf)  # 13
              added = Mul(tg, si)  # 14
              c1:f32[3,1] = Add(added, kept)  # 15
              tc = Tanh(c1)  # 16
              h1:f32[3,1] = Mul(so, tc)  # 17
              y1:f32[3,1] = Identity(h1)  # 18
            }, num_scan_inputs=1}
        "#]],
    );
}

#[test]
fn a_hard_sigmoid_is_another() {
    check_lstm(
        "  hard:f32[3,1] = HardSigmoid(f)
  kept:f32[3,1] = Mul(c0, hard)
  added:f32[3,1] = Mul(tg, si)
  c1:f32[3,1] = Add(added, kept)
  tc:f32[3,1] = Tanh(c1)
  h1:f32[3,1] = Mul(so, tc)",
        expect![[r#"
            graph g(x:f32[2,3,1], c:f32[3,1], h:f32[3,1]) -> (y)
            c2, h2, y:f32[2,3,1] = Scan(c, h, x) {body={  # 2
              graph b(c0:f32[3,1], h0:f32[3,1], x0:f32[3,1]) -> (c1, h1, y1)
              wx = MatMul(x0, [[1.0, 2.0, 3.0, 4.0]])  # 4
              wh = MatMul(h0, [[5.0, 6.0, 7.0, 8.0]])  # 5
              s = Add(wx, wh)  # 6
              z = Add(s, [[0.1, 0.2, 0.3, 0.4]])  # 7
              i, f, g0, o = Split(z, [1, 1, 1, 1]:i64) {axis=1}  # 8
              si = Sigmoid(i)  # 9
              sf = Sigmoid(f)  # 10
              so = Sigmoid(o)  # 11
              tg = Tanh(g0)  # 12
              hard = HardSigmoid(f)  # 13
              kept = Mul(c0, hard)  # 14
              added = Mul(tg, si)  # 15
              c1:f32[3,1] = Add(added, kept)  # 16
              tc = Tanh(c1)  # 17
              h1:f32[3,1] = Mul(so, tc)  # 18
              y1:f32[3,1] = Identity(h1)  # 19
            }, num_scan_inputs=1}
        "#]],
    );
}

#[test]
fn a_scan_in_a_branch_is_fused_around_the_branch() {
    check(
        each(super::run),
        "graph g(n:bool[], x:f32[T,1,1], h:f32[1,1]) -> (z)
z:f32[1,1] = If(n) {else_branch={
  graph e() -> (h3)
  h3:f32[1,1] = Identity(h)
}, then_branch={
  graph t() -> (h2)
  h2:f32[1,1] = Scan(h, x) {body={
    graph b(h0:f32[1,1], x0:f32[1,1]) -> (h1)
    wx:f32[1,3] = MatMul(x0, [[1.0, 2.0, 3.0]])
    wh:f32[1,3] = MatMul(h0, [[4.0, 5.0, 6.0]])
    xr:f32[1,1], xz:f32[1,1], xn:f32[1,1] = Split(wx, [1, 1, 1]:i64) {axis=1}
    hr:f32[1,1], hz:f32[1,1], hn:f32[1,1] = Split(wh, [1, 1, 1]:i64) {axis=1}
    sr:f32[1,1] = Add(xr, hr)
    r:f32[1,1] = Sigmoid(sr)
    sz:f32[1,1] = Add(xz, hz)
    u:f32[1,1] = Sigmoid(sz)
    rn:f32[1,1] = Mul(r, hn)
    sn:f32[1,1] = Add(xn, rn)
    n1:f32[1,1] = Tanh(sn)
    v:f32[1,1] = Sub(1.0, u)
    a:f32[1,1] = Mul(v, n1)
    k:f32[1,1] = Mul(u, h0)
    h1:f32[1,1] = Add(a, k)
  }, num_scan_inputs=1}
}}",
        expect![[r#"
            graph g(n:bool[], x:f32[T,1,1], h:f32[1,1]) -> (z)
            %0 = ReduceL1(x) {keepdims=0}  # 2
            %1 = ReduceL1(h) {keepdims=0}  # 2
            %2 = Sum(%0, %1)  # 2
            %3 = Less(%2, 1.1529215e18)  # 2
            %4 = Size(x)  # 2
            %5 = Greater(%4, 0:i64)  # 2
            %6 = And(n, %3)  # 2
            %7 = And(%6, %5)  # 2
            %8 = Unsqueeze(h, [0]:i64)  # 2
            %9 = If(%7) {else_branch={  # 2 4 7 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
              graph recurrent/scan() -> (%11)
              %10 = If(n) {else_branch={  # 2
                graph e() -> (h3)
                h3:f32[1,1] = Identity(h)  # 4
              }, then_branch={
                graph t() -> (h2)
                h2:f32[1,1] = Scan(h, x) {body={  # 7
                  graph b(h0:f32[1,1], x0:f32[1,1]) -> (h1)
                  wx = MatMul(x0, [[1.0, 2.0, 3.0]])  # 9
                  wh = MatMul(h0, [[4.0, 5.0, 6.0]])  # 10
                  xr, xz, xn = Split(wx, [1, 1, 1]:i64) {axis=1}  # 11
                  hr, hz, hn = Split(wh, [1, 1, 1]:i64) {axis=1}  # 12
                  sr = Add(xr, hr)  # 13
                  r = Sigmoid(sr)  # 14
                  sz = Add(xz, hz)  # 15
                  u = Sigmoid(sz)  # 16
                  rn = Mul(r, hn)  # 17
                  sn = Add(xn, rn)  # 18
                  n1 = Tanh(sn)  # 19
                  v = Sub(1.0, u)  # 20
                  a = Mul(v, n1)  # 21
                  k = Mul(u, h0)  # 22
                  h1:f32[1,1] = Add(a, k)  # 23
                }, num_scan_inputs=1}
              }}
              %11:f32[1,1,1] = Unsqueeze(%10, [0]:i64)  # 2
            }, then_branch={
              graph recurrent/fused() -> (%13)
              %12, %13:f32[1,1,1] = GRU(x, [[[2.0], [1.0], [3.0]]], [[[5.0], [4.0], [6.0]]], [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0]], _, %8) {hidden_size=1, linear_before_reset=1}  # 2 4 7 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
            }}
            z:f32[1,1] = Squeeze(%9, [0]:i64)  # 2 4 7 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
        "#]],
    );
}

/// A scan over two steps with a state of two numbers, an input of `width`, and these nodes, which make `h1`.
fn scan(width: usize, nodes: &str) -> String {
    format!(
        "graph g(x:f32[2,3,{width}], h:f32[3,2]) -> (y)
h2:f32[3,2], y:f32[2,3,2] = Scan(h, x) {{body={{
  graph b(h0:f32[3,2], x0:f32[3,{width}]) -> (h1, y1)
{nodes}
  y1:f32[3,2] = Identity(h1)
}}, num_scan_inputs=1}}"
    )
}

/// The gates of a GRU are parts of one, the reset gate scales `state`, and the update gate the new state.
fn gru(input: &str, state: &str) -> String {
    format!(
        "  xg:f32[3,4], xn:f32[3,2] = Split({input}, [4, 2]:i64) {{axis=1}}
  g0:f32[3,4] = Add(xg, wh)
  gates:f32[3,4] = Sigmoid(g0)
  z:f32[3,2], r:f32[3,2] = Split(gates, [2, 2]:i64) {{axis=1}}
  rh:f32[3,2] = Mul(r, {state})
  hn:f32[3,2] = MatMul(rh, [[7.0, 8.0], [9.0, 10.0]])
  s:f32[3,2] = Add(xn, hn)
  n:f32[3,2] = Tanh(s)
  rest:f32[3,2] = Sub(1.0, z)
  kept:f32[3,2] = Mul(rest, h0)
  added:f32[3,2] = Mul(z, n)
  h1:f32[3,2] = Add(kept, added)"
    )
}

/// The products of rows.
const ROWS: &str = "  wx:f32[3,6] = MatMul(x0, [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
  wh:f32[3,4] = MatMul(h0, [[1.5, 2.5, 3.5, 4.5], [5.5, 6.5, 7.5, 8.5]])";

/// The same products, of columns.
const COLUMNS: &str = "  xt:f32[1,3] = Transpose(x0) {perm=[1, 0]}
  wxt:f32[6,3] = MatMul([[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]], xt)
  wx:f32[3,6] = Transpose(wxt) {perm=[1, 0]}
  ht:f32[2,3] = Transpose(h0) {perm=[1, 0]}
  wht:f32[4,3] = MatMul([[1.5, 5.5], [2.5, 6.5], [3.5, 7.5], [4.5, 8.5]], ht)
  wh:f32[3,4] = Transpose(wht) {perm=[1, 0]}";

/// The product with the state alone.
const OF_STATE: &str = "  wh:f32[3,4] = MatMul(h0, [[1.5, 2.5, 3.5, 4.5], [5.5, 6.5, 7.5, 8.5]])";

#[test]
fn a_reset_gate_may_scale_the_state_and_an_update_gate_the_new_one() {
    let nodes = format!("{ROWS}\n{}", gru("wx", "h0"));
    check_ignoring_nan(
        each(super::run),
        &scan(1, &nodes),
        expect![[r#"
        graph g(x:f32[2,3,1], h:f32[3,2]) -> (y)
        %0 = Unsqueeze(h, [0]:i64)  # 2
        %1, %2 = GRU(x, [[[-1.0], [-2.0], [3.0], [4.0], [5.0], [6.0]]], const f32[1,6,2], const f32[1,12], _, %0) {hidden_size=2, linear_before_reset=0}  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18
        h2 = Squeeze(%2, [0]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18
        y:f32[2,3,2] = Squeeze(%1, [1]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18
    "#]],
    );
}

#[test]
fn products_of_columns_are_those_of_rows() {
    let nodes = format!("{COLUMNS}\n{}", gru("wx", "h0"));
    check_ignoring_nan(
        each(super::run),
        &scan(1, &nodes),
        expect![[r#"
        graph g(x:f32[2,3,1], h:f32[3,2]) -> (y)
        %0 = Unsqueeze(h, [0]:i64)  # 2
        %1, %2 = GRU(x, [[[-1.0], [-2.0], [3.0], [4.0], [5.0], [6.0]]], const f32[1,6,2], const f32[1,12], _, %0) {hidden_size=2, linear_before_reset=0}  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22
        h2 = Squeeze(%2, [0]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22
        y:f32[2,3,2] = Squeeze(%1, [1]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22
    "#]],
    );
}

#[test]
fn a_reset_gate_on_something_else_makes_no_gru() {
    let nodes = format!("{ROWS}\n{}", gru("wx", "z"));
    check_ignoring_nan(
        each(super::run),
        &scan(1, &nodes),
        expect![[r#"
        graph g(x:f32[2,3,1], h:f32[3,2]) -> (y)
        h2, y:f32[2,3,2] = Scan(h, x) {body={  # 2
          graph b(h0:f32[3,2], x0:f32[3,1]) -> (h1, y1)
          wx = MatMul(x0, [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])  # 4
          wh = MatMul(h0, [[1.5, 2.5, 3.5, 4.5], [5.5, 6.5, 7.5, 8.5]])  # 5
          xg, xn = Split(wx, [4, 2]:i64) {axis=1}  # 6
          g0 = Add(xg, wh)  # 7
          gates = Sigmoid(g0)  # 8
          z, r = Split(gates, [2, 2]:i64) {axis=1}  # 9
          rh = Mul(r, z)  # 10
          hn = MatMul(rh, [[7.0, 8.0], [9.0, 10.0]])  # 11
          s = Add(xn, hn)  # 12
          n = Tanh(s)  # 13
          rest = Sub(1.0, z)  # 14
          kept = Mul(rest, h0)  # 15
          added = Mul(z, n)  # 16
          h1:f32[3,2] = Add(kept, added)  # 17
          y1:f32[3,2] = Identity(h1)  # 18
        }, num_scan_inputs=1}
    "#]],
    );
}

#[test]
fn products_that_are_computed_before_the_scan_are_the_input() {
    let nodes = format!("{OF_STATE}\n{}", gru("x0", "h0"));
    check(
        each(super::run),
        &scan(6, &nodes),
        expect![[r#"
        graph g(x:f32[2,3,6], h:f32[3,2]) -> (y)
        %0 = ReduceL1(x) {keepdims=0}  # 2
        %1 = ReduceL1(h) {keepdims=0}  # 2
        %2 = Sum(%0, %1)  # 2
        %3 = Less(%2, 1.1529215e18)  # 2
        %4 = Unsqueeze(h, [0]:i64)  # 2
        %5 = If(%3) {else_branch={  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17
          graph recurrent/scan() -> (%8)
          %6, %7 = Scan(h, x) {body={  # 2
            graph b(h0:f32[3,2], x0:f32[3,6]) -> (h1, y1)
            wh = MatMul(h0, [[1.5, 2.5, 3.5, 4.5], [5.5, 6.5, 7.5, 8.5]])  # 4
            xg, xn = Split(x0, [4, 2]:i64) {axis=1}  # 5
            g0 = Add(xg, wh)  # 6
            gates = Sigmoid(g0)  # 7
            z, r = Split(gates, [2, 2]:i64) {axis=1}  # 8
            rh = Mul(r, h0)  # 9
            hn = MatMul(rh, [[7.0, 8.0], [9.0, 10.0]])  # 10
            s = Add(xn, hn)  # 11
            n = Tanh(s)  # 12
            rest = Sub(1.0, z)  # 13
            kept = Mul(rest, h0)  # 14
            added = Mul(z, n)  # 15
            h1:f32[3,2] = Add(kept, added)  # 16
            y1:f32[3,2] = Identity(h1)  # 17
          }, num_scan_inputs=1}
          %8:f32[2,1,3,2] = Unsqueeze(%7, [1]:i64)  # 2
        }, then_branch={
          graph recurrent/fused() -> (%9)
          %9:f32[2,1,3,2], %10 = GRU(x, const f32[1,6,6], const f32[1,6,2], const f32[1,12], _, %4) {hidden_size=2, linear_before_reset=0}  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17
        }}
        y:f32[2,3,2] = Squeeze(%5, [1]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17
    "#]],
    );
}

#[test]
fn infinities_among_products_before_the_scan_stay_apart() {
    let nodes = format!("{OF_STATE}\n{}", gru("x0", "h0"));
    check_ignoring_nan(
        each(super::run),
        &scan(6, &nodes),
        expect![[r#"
        graph g(x:f32[2,3,6], h:f32[3,2]) -> (y)
        h2, y:f32[2,3,2] = Scan(h, x) {body={  # 2
          graph b(h0:f32[3,2], x0:f32[3,6]) -> (h1, y1)
          wh = MatMul(h0, [[1.5, 2.5, 3.5, 4.5], [5.5, 6.5, 7.5, 8.5]])  # 4
          xg, xn = Split(x0, [4, 2]:i64) {axis=1}  # 5
          g0 = Add(xg, wh)  # 6
          gates = Sigmoid(g0)  # 7
          z, r = Split(gates, [2, 2]:i64) {axis=1}  # 8
          rh = Mul(r, h0)  # 9
          hn = MatMul(rh, [[7.0, 8.0], [9.0, 10.0]])  # 10
          s = Add(xn, hn)  # 11
          n = Tanh(s)  # 12
          rest = Sub(1.0, z)  # 13
          kept = Mul(rest, h0)  # 14
          added = Mul(z, n)  # 15
          h1:f32[3,2] = Add(kept, added)  # 16
          y1:f32[3,2] = Identity(h1)  # 17
        }, num_scan_inputs=1}
    "#]],
    );
}

/// Returns a scan over two steps with these initial states.
fn lstm_from(memory: &str, hidden: &str) -> String {
    format!(
        "graph g(x:f32[2,3,1]) -> (y)
c2:f32[3,1], h2:f32[3,1], y:f32[2,3,1] = Scan({memory}, {hidden}, x) {{body={{
  graph b(c0:f32[3,1], h0:f32[3,1], x0:f32[3,1]) -> (c1, h1, y1)
  wx:f32[3,4] = MatMul(x0, [[1.0, 2.0, 3.0, 4.0]])
  wh:f32[3,4] = MatMul(h0, [[5.0, 6.0, 7.0, 8.0]])
  z:f32[3,4] = Add(wx, wh)
  i:f32[3,1], f:f32[3,1], g0:f32[3,1], o:f32[3,1] = Split(z, [1, 1, 1, 1]:i64) {{axis=1}}
  si:f32[3,1] = Sigmoid(i)
  sf:f32[3,1] = Sigmoid(f)
  so:f32[3,1] = Sigmoid(o)
  tg:f32[3,1] = Tanh(g0)
  kept:f32[3,1] = Mul(c0, sf)
  added:f32[3,1] = Mul(tg, si)
  c1:f32[3,1] = Add(added, kept)
  tc:f32[3,1] = Tanh(c1)
  h1:f32[3,1] = Mul(so, tc)
  y1:f32[3,1] = Identity(h1)
}}, num_scan_inputs=1}}"
    )
}

#[test]
fn states_of_zeros_are_left_out() {
    check_ignoring_nan(
        each(super::run),
        &lstm_from("[[0.0], [0.0], [0.0]]", "[[0.0], [0.0], [0.0]]"),
        expect![[r#"
            graph g(x:f32[2,3,1]) -> (y)
            %0, %1, %2 = LSTM(x, [[[1.0], [4.0], [2.0], [3.0]]], [[[5.0], [8.0], [6.0], [7.0]]], [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]) {hidden_size=1}  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17
            c2 = Squeeze(%2, [0]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17
            h2 = Squeeze(%1, [0]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17
            y:f32[2,3,1] = Squeeze(%0, [1]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17
        "#]],
    );
}

#[test]
fn a_state_that_is_not_zero_is_an_operand_and_so_is_minus_zero() {
    check_ignoring_nan(
        each(super::run),
        &lstm_from("[[0.0], [0.5], [0.0]]", "[[0.0], [0.0], [0.0]]"),
        expect![[r#"
            graph g(x:f32[2,3,1]) -> (y)
            %0 = Unsqueeze([[0.0], [0.5], [0.0]], [0]:i64)  # 2
            %1, %2, %3 = LSTM(x, [[[1.0], [4.0], [2.0], [3.0]]], [[[5.0], [8.0], [6.0], [7.0]]], [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]], _, _, %0) {hidden_size=1}  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17
            c2 = Squeeze(%3, [0]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17
            h2 = Squeeze(%2, [0]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17
            y:f32[2,3,1] = Squeeze(%1, [1]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17
        "#]],
    );
    check_ignoring_nan(
        each(super::run),
        &lstm_from("[[0.0], [0.0], [0.0]]", "[[0.0], [-0.0], [0.0]]"),
        expect![[r#"
            graph g(x:f32[2,3,1]) -> (y)
            %0 = Unsqueeze([[0.0], [-0.0], [0.0]], [0]:i64)  # 2
            %1, %2, %3 = LSTM(x, [[[1.0], [4.0], [2.0], [3.0]]], [[[5.0], [8.0], [6.0], [7.0]]], [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]], _, %0) {hidden_size=1}  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17
            c2 = Squeeze(%3, [0]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17
            h2 = Squeeze(%2, [0]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17
            y:f32[2,3,1] = Squeeze(%1, [1]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17
        "#]],
    );
}

#[test]
fn products_before_the_scan_are_those_of_the_operator_in_either_order() {
    check_ignoring_nan(
        each(super::run),
        "graph g(x:f32[3,2,1], h:f32[3,1]) -> (y)
p:f32[3,2,3] = MatMul(x, [[1.0, 2.0, 3.0]])
q:f32[3,2,3] = Add(p, [0.1, 0.2, 0.3])
t:f32[2,3,3] = Transpose(q) {perm=[1, 0, 2]}
h2:f32[3,1], y:f32[2,3,1] = Scan(h, t) {body={
  graph b(h0:f32[3,1], wx:f32[3,3]) -> (h1, y1)
  wh:f32[3,3] = MatMul(h0, [[4.0, 5.0, 6.0]])
  xr:f32[3,1], xz:f32[3,1], xn:f32[3,1] = Split(wx, [1, 1, 1]:i64) {axis=1}
  hr:f32[3,1], hz:f32[3,1], hn:f32[3,1] = Split(wh, [1, 1, 1]:i64) {axis=1}
  sr:f32[3,1] = Add(xr, hr)
  er:f32[3,1] = Neg(sr)
  fr:f32[3,1] = Exp(er)
  gr:f32[3,1] = Add(fr, 1.0)
  r:f32[3,1] = Reciprocal(gr)
  sz:f32[3,1] = Add(xz, hz)
  tz:f32[3,1] = Mul(sz, 0.5)
  uz:f32[3,1] = Tanh(tz)
  vz:f32[3,1] = Add(uz, 1.0)
  u:f32[3,1] = Mul(vz, 0.5)
  rn:f32[3,1] = Mul(r, hn)
  sn:f32[3,1] = Add(xn, rn)
  n:f32[3,1] = Tanh(sn)
  d:f32[3,1] = Sub(n, h0)
  k:f32[3,1] = Mul(u, d)
  h1:f32[3,1] = Add(h0, k)
  y1:f32[3,1] = Identity(h1)
}, num_scan_inputs=1}",
        expect![[r#"
            graph g(x:f32[3,2,1], h:f32[3,1]) -> (y)
            p = MatMul(x, [[1.0, 2.0, 3.0]])  # 2
            q = Add(p, [0.1, 0.2, 0.3])  # 3
            t = Transpose(q) {perm=[1, 0, 2]}  # 4
            %0 = Transpose(x) {perm=[1, 0, 2]}  # 5
            %1 = Unsqueeze(h, [0]:i64)  # 5
            %2, %3 = GRU(%0, [[[-2.0], [1.0], [3.0]]], [[[-5.0], [4.0], [6.0]]], [[-0.2, 0.1, 0.3, 0.0, 0.0, 0.0]], _, %1) {hidden_size=1, linear_before_reset=1}  # 5 2 3 4 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26
            h2 = Squeeze(%3, [0]:i64)  # 5 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26
            y:f32[2,3,1] = Squeeze(%2, [1]:i64)  # 5 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26
        "#]],
    );
}

#[test]
fn peepholes_and_coupled_gates_are_those_of_the_operator() {
    check_ignoring_nan(
        each(super::run),
        "graph g(x:f32[2,3,1], c:f32[3,1], h:f32[3,1]) -> (y)
c2:f32[3,1], h2:f32[3,1], y:f32[2,3,1] = Scan(c, h, x) {body={
  graph b(c0:f32[3,1], h0:f32[3,1], x0:f32[3,1]) -> (c1, h1, y1)
  wx:f32[3,3] = MatMul(x0, [[1.0, 2.0, 3.0]])
  wh:f32[3,3] = MatMul(h0, [[5.0, 6.0, 7.0]])
  s:f32[3,3] = Add(wx, wh)
  f:f32[3,1], g0:f32[3,1], o:f32[3,1] = Split(s, [1, 1, 1]:i64) {axis=1}
  pf:f32[3,1] = Mul(c0, [0.5])
  qf:f32[3,1] = Add(f, pf)
  sf:f32[3,1] = Sigmoid(qf)
  si:f32[3,1] = Sub(1.0, sf)
  tg:f32[3,1] = Tanh(g0)
  kept:f32[3,1] = Mul(c0, sf)
  added:f32[3,1] = Mul(tg, si)
  c1:f32[3,1] = Add(added, kept)
  po:f32[3,1] = Mul([[0.25]], c1)
  qo:f32[3,1] = Add(o, po)
  so:f32[3,1] = Sigmoid(qo)
  tc:f32[3,1] = Tanh(c1)
  h1:f32[3,1] = Mul(so, tc)
  y1:f32[3,1] = Identity(h1)
}, num_scan_inputs=1}",
        expect![[r#"
            graph g(x:f32[2,3,1], c:f32[3,1], h:f32[3,1]) -> (y)
            %0 = Unsqueeze(h, [0]:i64)  # 2
            %1 = Unsqueeze(c, [0]:i64)  # 2
            %2, %3, %4 = LSTM(x, [[[-1.0], [3.0], [1.0], [2.0]]], [[[-5.0], [7.0], [5.0], [6.0]]], [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]], _, %0, %1, [[-0.5, 0.25, 0.5]]) {hidden_size=1}  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21
            c2 = Squeeze(%4, [0]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21
            h2 = Squeeze(%3, [0]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21
            y:f32[2,3,1] = Squeeze(%2, [1]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21
        "#]],
    );
}
