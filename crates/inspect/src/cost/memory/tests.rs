//! Plans of small models, as ONNX Runtime was measured to allocate.

use onnx::names::assign_names;
use onnx::proto::Message;
use onnx::scan::scan;
use onnx::sized::{SizedModel, Sizes};
use onnx::text::parse_graph;

use super::{Memory, Order, Purpose, Values, memory};

fn planned(text: &str, order: Order) -> Memory {
    let mut model = parse_graph(text).unwrap();
    assign_names(&mut model);
    let message = Message::new(&model, &mut |_| Vec::new()).unwrap();
    let mut bytes = vec![0; message.size()];
    message.write_into(&mut bytes).unwrap();
    let scan = scan(&bytes).unwrap();
    let sized = SizedModel::of(&scan, &Sizes::new());
    memory(&scan, &sized, order, &Values::default())
}

#[track_caller]
fn check(text: &str, peak: &str) {
    assert_eq!(planned(text, Order::default()).formula.as_deref(), Some(peak), "{text}");
}

#[test]
fn a_value_dies_after_its_last_reader() {
    let chain = "graph g(x:f32[B,1000]) -> (d)
a:f32[B,1000] = Exp(x)
b:f32[B,1000] = Exp(a)
c:f32[B,1000] = Exp(b)
d:f32[B,1000] = Exp(c)";
    check(chain, "8000*B");
    let later = "graph g(x:f32[B,1000]) -> (d)
a:f32[B,1000] = Exp(x)
b:f32[B,1000] = Exp(a)
c:f32[B,1000] = Exp(b)
d:f32[B,1000] = Add(c, a)";
    check(later, "12000*B");
}

#[test]
fn an_operator_that_works_in_place_needs_no_memory_unless_its_operand_is_needed() {
    let in_place = "graph g(x:f32[B,1000]) -> (c)
a:f32[B,1000] = Exp(x)
b:f32[B,1000] = Tanh(a)
c:f32[B,1000] = Exp(b)";
    check(in_place, "8000*B");
    let read_later = "graph g(x:f32[B,1000]) -> (c)
a:f32[B,1000] = Exp(x)
b:f32[B,1000] = Tanh(a)
c:f32[B,1000] = Add(b, a)";
    check(read_later, "12000*B");
    let of_input = "graph g(x:f32[B,1000]) -> (c)
a:f32[B,1000] = Tanh(x)
c:f32[B,1000] = Exp(a)";
    check(of_input, "8000*B");
}

#[test]
fn a_reshape_is_another_name_for_its_operand() {
    let text = "graph g(x:f32[6,1000]) -> (c)
a:f32[6,1000] = Exp(x)
b:f32[6000] = Reshape(a, [6000]:i64)
c:f32[6000] = Exp(b)";
    check(text, "48000");
}

#[test]
fn a_free_buffer_waits_for_the_next_value_of_its_shape() {
    // `a` dies at `b`. Its buffer is kept while `c` is computed, because `d` has its shape.
    let text = "graph g(x:f32[10,1000]) -> (e)
a:f32[10,1000] = Exp(x)
b:f32[10,1] = ReduceSum(a, [1]:i64)
c:f32[10,3000] = Expand(b, [10, 3000]:i64)
f:f32[10,1] = ReduceSum(c, [1]:i64)
d:f32[10,1000] = Expand(f, [10, 1000]:i64)
e:f32[10,1] = ReduceSum(d, [1]:i64)";
    let plan = planned(text, Order::default());
    assert_eq!(plan.total.known(), Some(40_000 + 120_000 + 40));
    let kept: Vec<i128> = plan
        .peak
        .iter()
        .filter(|held| held.purpose == Purpose::Kept)
        .filter_map(|held| held.size.known())
        .collect();
    assert_eq!(kept, [40_000]);
}

#[test]
fn a_value_that_is_fused_away_needs_no_memory() {
    let bias = "graph g(x:f32[50,1000], w:f32[1000,1000], b:f32[1000]) -> (z)
m:f32[50,1000] = MatMul(x, w)
y:f32[50,1000] = Add(m, b)
z:f32[50,1000] = Exp(y)";
    check(bias, "400000");
    let gate = "graph g(x:f32[50,1000]) -> (z)
y:f32[50,1000] = Exp(x)
s:f32[50,1000] = Sigmoid(y)
m:f32[50,1000] = Mul(y, s)
z:f32[50,1000] = Exp(m)";
    check(gate, "400000");
    let not_its_own = "graph g(x:f32[50,1000]) -> (z)
y:f32[50,1000] = Exp(x)
s:f32[50,1000] = Sigmoid(x)
m:f32[50,1000] = Mul(y, s)
z:f32[50,1000] = Exp(m)";
    check(not_its_own, "600000");
}

#[test]
fn a_plan_of_convolutions_says_that_their_layout_is_not_planned() {
    let conv = "graph g(x:f32[1,3,8,8], w:f32[4,3,1,1]) -> (y)
k:f32[4,3,1,1] = Expand(1.0, [4, 3, 1, 1]:i64)
y:f32[1,4,8,8] = Conv(x, WEIGHT)";
    let notes = |weight: &str, order| planned(&conv.replace("WEIGHT", weight), order).notes;
    let [note] = &notes("k", Order::OnnxRuntime)[..] else { panic!("one note") };
    assert!(note.contains("blocks of 8 or 16 channels"), "{note}");
    // The weights of this one are an input, and the layout is that of the file.
    assert!(notes("w", Order::OnnxRuntime).is_empty());
    assert!(notes("k", Order::File).is_empty());
}

#[test]
fn a_constant_is_computed_when_the_model_is_loaded() {
    let text = "graph g(x:f32[10]) -> (y)
a:f32[1000,1000] = Expand(1.0, [1000, 1000]:i64)
b:f32[1000,1000] = Exp(a)
s:f32[] = ReduceSum(b, [0, 1]:i64) {keepdims=0}
y:f32[10] = Add(x, s)";
    check(text, "40");
}

#[test]
fn the_peak_is_the_largest_for_each_size() {
    let text = "graph g(x:f32[B,T], y:f32[B]) -> (d, e)
a:f32[B,T] = Exp(x)
b:f32[B,T] = Exp(a)
d:f32[B] = ReduceSum(b, [1]:i64) {keepdims=0}
u:f32[B,1] = Unsqueeze(y, [1]:i64)
c:f32[B,100] = Expand(u, [1, 100]:i64)
e:f32[B,100] = Exp(c)";
    let plan = planned(text, Order::File);
    assert_eq!(plan.formula.as_deref(), Some("max(8*B*T, 804*B)"));
}

#[test]
fn a_branch_needs_the_memory_of_the_larger_one() {
    let text = "graph g(x:f32[1000], c:bool[]) -> (z)
y:f32[1000] = If(c) {then_branch={
  graph t() -> (n)
  n:f32[1000] = Neg(x)
}, else_branch={
  graph e() -> (q)
  p:f32[1000] = Exp(x)
  r:f32[1000] = Exp(p)
  q:f32[1000] = Add(p, r)
}}
z:f32[1000] = Exp(y)";
    check(text, "12000");
}

#[test]
fn a_loop_keeps_the_state_of_two_iterations_and_copies_it_at_the_end() {
    let text = "graph g(x:f32[1000]) -> (y)
y:f32[1000] = Loop(5:i64, true, x) {body={
  graph b(i:i64[], c:bool[], a:f32[1000]) -> (c, n)
  n:f32[1000] = Neg(a)
}}";
    check(text, "12000");
}

#[test]
fn a_scan_writes_to_its_results_and_keeps_the_state_twice() {
    let text = "graph g(s:f32[1000], xs:f32[7,1000]) -> (t, ys)
t:f32[1000], ys:f32[7,1000] = Scan(s, xs) {num_scan_inputs=1, body={
  graph b(a:f32[1000], x:f32[1000]) -> (n, y)
  n:f32[1000] = Exp(a)
  y:f32[1000] = Exp(x)
}}";
    // One of seven results, the last state, and two states.
    check(text, "40000");
}

#[test]
fn the_order_decides_what_is_alive() {
    // Depth first, each large value dies before the next one is made.
    let text = "graph g(x:f32[1000]) -> (e)
a:f32[1000] = Exp(x)
b:f32[1000] = Sin(x)
c:f32[] = ReduceSum(a, [0]:i64) {keepdims=0}
d:f32[] = ReduceSum(b, [0]:i64) {keepdims=0}
e:f32[] = Add(c, d)";
    let peak = |order| planned(text, order).total.known().unwrap();
    assert_eq!(peak(Order::OnnxRuntime), 4008);
    assert_eq!(peak(Order::File), 8004);
    assert_eq!(peak(Order::Early), 8004);
}

#[test]
fn every_step_adds_up_to_what_the_buffers_say() {
    let text = "graph g(x:f32[10,1000]) -> (e)
a:f32[10,1000] = Exp(x)
b:f32[10,1000] = Tanh(a)
c:f32[10,1000] = Softmax(b) {axis=0}
e:f32[10,1000] = Add(c, x)";
    let plan = planned(text, Order::default());
    let at = |step: usize| -> i128 {
        let alive = plan.buffers.iter().filter(|it| (it.first..=it.last).contains(&step));
        let extra = plan.steps[step].extra.iter().filter_map(|sum| sum.known()).max();
        alive.filter_map(|it| it.size.known()).sum::<i128>() + extra.unwrap_or(0)
    };
    let most = (0..plan.steps.len()).map(at).max();
    assert_eq!(most, plan.total.known());
    assert_eq!(most, Some(120_000));
    let held: i128 = plan.peak.iter().filter_map(|held| held.size.known()).sum();
    assert_eq!(Some(held), most);
}
