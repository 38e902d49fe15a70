//! Scans whose arrays a runtime takes in another form.

use expect_test::expect;

use super::loops;
use testing::check_for;

#[test]
fn an_added_axis_of_a_scanned_array_is_added_in_the_body() {
    check_for(
        "tract",
        loops::drop_added_axes,
        "graph g(x:f32[5,2], w:f32[5,6], s:f32[1,6]) -> (y)
e:f32[5,1,2] = Unsqueeze(x, [1]:i64)
t:f32[5,1,2] = Tanh(e)
last:f32[1,6], y:f32[5,8] = Scan(s, t, w) {body={
  graph b(h:f32[1,6], a:f32[1,2], v:f32[6]) -> (n, r)
  n:f32[1,6] = Add(h, v)
  c:f32[1,8] = Concat(n, a) {axis=1}
  r:f32[8] = Squeeze(c, [0]:i64)
}, num_scan_inputs=2}",
        expect![[r#"
            graph g(x:f32[5,2], w:f32[5,6], s:f32[1,6]) -> (y)
            e = Unsqueeze(x, [1]:i64)  # 2
            t = Tanh(e)  # 3
            %0 = Squeeze(t, [1]:i64)  # 4
            last, y:f32[5,8] = Scan(s, %0, w) {body={  # 4
              graph b(h:f32[1,6], %1:f32[2], v:f32[6]) -> (n, r)
              a = Unsqueeze(%1, [0]:i64)  # 4
              n:f32[1,6] = Add(h, v)  # 6
              c = Concat(n, a) {axis=1}  # 7
              r:f32[8] = Squeeze(c, [0]:i64)  # 8
            }, num_scan_inputs=2}
        "#]],
    );
}

#[test]
fn an_added_axis_stays_if_no_element_or_result_has_fewer_axes() {
    check_for(
        "tract",
        loops::drop_added_axes,
        "graph g(x:f32[5,2], w:f32[5,1,6], s:f32[1,6]) -> (y)
e:f32[5,1,2] = Unsqueeze(x, [1]:i64)
last:f32[1,6], y:f32[5,8] = Scan(s, e, w) {body={
  graph b(h:f32[1,6], a:f32[1,2], v:f32[1,6]) -> (n, r)
  n:f32[1,6] = Add(h, v)
  c:f32[1,8] = Concat(n, a) {axis=1}
  r:f32[8] = Squeeze(c, [0]:i64)
}, num_scan_inputs=2}",
        expect![[r#"
            graph g(x:f32[5,2], w:f32[5,1,6], s:f32[1,6]) -> (y)
            e = Unsqueeze(x, [1]:i64)  # 2
            last, y:f32[5,8] = Scan(s, e, w) {body={  # 3
              graph b(h:f32[1,6], a:f32[1,2], v:f32[1,6]) -> (n, r)
              n:f32[1,6] = Add(h, v)  # 5
              c = Concat(n, a) {axis=1}  # 6
              r:f32[8] = Squeeze(c, [0]:i64)  # 7
            }, num_scan_inputs=2}
        "#]],
    );
}
