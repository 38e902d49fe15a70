// The parts of the viewer that need no browser, on graphs and files that are too large to draw.

import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const contents = `
  export { arrange } from "./arrange";
  export { answerOf } from "./answer";
  export { Colors } from "./colors";
  export { clean, countOps, cut, plural, thousands } from "./dom";
  export { changesOf } from "./earlier";
  export { rangeOf } from "./histogram";
  export { Layout } from "./layout";
  export { Model } from "./model";
  export { nothing, parse } from "./python";
  export { Tree } from "./tree";
`;
const resolveDir = new URL("../src/", import.meta.url).pathname;
const { outputFiles } = await build({ stdin: { contents, resolveDir, loader: "ts" }, bundle: true, format: "esm", write: false });
const viewer = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString("base64")}`);
const { answerOf, arrange, changesOf, clean, Colors, countOps, cut, Layout, Model, nothing, parse, plural, rangeOf, thousands, Tree } = viewer;

const box = { width: 100, height: 40 };
const boxes = (count) => Array.from({ length: count }, () => box);

/** Fails if a function needs more CPU time than a person waits for. */
function quickly(act, seconds = 2) {
  const before = process.cpuUsage().user;
  const result = act();
  const spent = (process.cpuUsage().user - before) / 1e6;
  assert.ok(spent < seconds, `${spent} s`);
  return result;
}

/** Returns the data of a page with nodes [inputs, outputs] of values. */
function data(nodes, { values = 0, inputs = [], outputs = [], graphs = [] } = {}) {
  const rows = nodes.map(([reads, writes, op = "Add", graph = 0], at) => [`n${at}`, op, graph, reads, writes, -1, "unknown", []]);
  const main = { kind: "main", name: "", first: 0, count: rows.filter((row) => row[2] === 0).length, inputs, outputs };
  return {
    version: 1, model: {}, graphs: [main, ...graphs], nodes: rows,
    values: Array.from({ length: values }, (_, at) => [`v${at}`, "f32[3]", null]),
    weights: [], files: [], functions: [], locations: [], frames: [], scopes: [], plugins: [], sites: [], origins: [],
    profile: null, compare: null, against: null,
  };
}

function open(rows, options) {
  const model = new Model(data(rows, options));
  const tree = new Tree(model);
  const layout = new Layout(model, tree, (text) => 7 * text.length);
  return { model, tree, picture: layout.picture(new Set([tree.root.id])) };
}

test("a graph without nodes has a picture of size zero", () => {
  assert.deepEqual(arrange([], []), { width: 0, height: 0, centers: [], lines: [] });
  const { picture } = open([]);
  assert.deepEqual([picture.width, picture.height, picture.edges.length], [0, 0, 0]);
});

test("boxes do not overlap, however many links there are", () => {
  for (const [count, links] of [[4, [[0, 1], [1, 2], [0, 3]]], [90, null]]) {
    const ends = (links ?? boxes(count).flatMap((_, a) => boxes(count).map((_, b) => [a, b]))).map(([from, to]) => ({ from, to }));
    const { centers, lines } = quickly(() => arrange(boxes(count), ends.filter(({ from, to }) => from !== to)));
    assert.equal(centers.length, count);
    assert.ok(lines.every((line) => line.every(({ x, y }) => Number.isFinite(x) && Number.isFinite(y))));
    centers.forEach((a, i) => centers.slice(i + 1).forEach((b) => assert.ok(Math.abs(a.x - b.x) >= 100 || Math.abs(a.y - b.y) >= 40)));
  }
});

test("links that skip many layers are laid out in time", () => {
  const links = boxes(100).flatMap((_, at) => [{ from: at, to: at + 1 }, { from: 0, to: at + 1 }]);
  quickly(() => arrange(boxes(101), links));
});

test("a link from and to the outside has finite points", () => {
  for (const count of [2, 200]) {
    const { lines } = arrange(boxes(count), [{ from: -1, to: 0 }, { from: 0, to: 1 }, { from: 1, to: -1 }]);
    assert.ok(lines.every((line) => line.length > 1 && line.every(({ x, y }) => Number.isFinite(x) && Number.isFinite(y))));
  }
});

test("nodes in cycles are laid out in time", () => {
  const count = 5000;
  const rows = Array.from({ length: count }, (_, at) => [[(at + 1) % count, (at * 7919) % count], [at]]);
  const { picture } = quickly(() => open(rows, { values: count }));
  assert.ok(picture.placed.size < 130);
});

test("many inputs are in sections that open in steps and can be found", () => {
  const count = 50_000;
  const inputs = Array.from({ length: count }, (_, at) => at);
  const { tree, picture } = quickly(() => open([[inputs, [count]]], { values: count + 1, inputs, outputs: [count] }));
  assert.ok(picture.placed.size < 130);
  const last = quickly(() => tree.endOf(count - 1, "input"));
  assert.equal(last.label, `v${count - 1}`);
  assert.deepEqual(tree.around(last).map(({ label }) => label), ["main", "inputs 44801 – 50000", "inputs 49921 – 50000"]);
});

test("a function that calls itself has a size", () => {
  const call = (graph) => [[], [], "f::r", graph];
  const graphs = [{ kind: "function", name: "f::r", first: 1, count: 3, inputs: [], outputs: [] }];
  const { tree } = quickly(() => open([call(0), call(1), call(1), call(1)], { graphs }));
  assert.ok(tree.root.size >= 4);
  assert.equal(tree.itemOf(2).number, 2);
});

test("a value that many nodes compute and read is linked in time", () => {
  const rows = Array.from({ length: 20_000 }, (_, at) => (at % 2 ? [[0], [at]] : [[at], [0]]));
  quickly(() => open(rows, { values: 20_000 }));
});

test("a long text is cut and says how much is missing", () => {
  assert.equal(cut("abcdef", 3), "abc… (3 more letters)");
  assert.equal(cut("abc", 3), "abc");
  assert.ok(clean("x".repeat(300_000)).length < 3000);
  assert.equal(countOps(["Add", "Add", "Sin"]), "Add ×2, Sin");
  assert.match(countOps(Array.from({ length: 40 }, (_, at) => `Op${at}`)), / and 10 other operators$/);
  assert.deepEqual([plural(1, "box"), plural(2, "box"), plural(2, "node")], ["1 box", "2 boxes", "2 nodes"]);
});

test("blocks end where the indentation ends", () => {
  const { blocks } = parse(["class A:", "  def f(x):", "    def g():", "      pass", "    return x", "", "  y = 1", "z = 2"]);
  assert.deepEqual(blocks.map(({ first, last }) => [first, last]), [[0, 6], [1, 4], [2, 3]]);
});

test("a result that only dead statements read is dead", () => {
  const lines = ["def f(x):", "  a = 1", "  b = a", "  c = x.shape", "  d = c", "  return g(x, d)", "def h(): return a"];
  const entry = { own: [0], fused: [], calls: 0, constants: [] };
  const found = nothing(lines, parse(lines), (line) => (line === 6 ? entry : undefined));
  assert.deepEqual([...found].map(([line, { word }]) => [line, word]), [[5, "no node"], [4, "shape only"], [3, "dead"], [2, "dead"]]);
});

test("a long function is read in time", () => {
  const lines = ["def f(x):", ...Array.from({ length: 15_000 }, (_, at) => `    a${at} = b${at} + 1`), "    return g(x)"];
  const entry = { own: [0], fused: [], calls: 0, constants: [] };
  const found = quickly(() => nothing(lines, parse(lines), (line) => (line === lines.length ? entry : undefined)));
  assert.equal(found.size, 15_000);
});

test("links enter a box at different points, and links of one value leave it at one point", () => {
  const links = [{ from: 0, to: 2, port: "a" }, { from: 0, to: 3, port: "a" }, { from: 0, to: 4, port: "b" }, { from: 1, to: 4, port: "c" }];
  const { lines } = arrange(boxes(5), links);
  const starts = lines.map((line) => line[0].x);
  assert.equal(starts[0], starts[1]);
  assert.notEqual(starts[1], starts[2]);
  assert.notEqual(lines[2].at(-1).x, lines[3].at(-1).x);
});

test("a chain is straight, and a high one is wrapped into columns", () => {
  const chain = (count) => arrange(boxes(count), boxes(count - 1).map((_, at) => ({ from: at, to: at + 1 })));
  assert.equal(new Set(chain(50).centers.map(({ x }) => x)).size, 1);
  const { width, height, centers } = quickly(() => chain(5000));
  assert.ok(height / width > 0.5 && height / width < 2, `${width} × ${height}`);
  assert.ok(centers.every(({ x, y }) => x >= 50 && x <= width - 50 && y >= 20 && y <= height - 20));
});

test("a box is below those that it reads from, in whatever order they come", () => {
  const links = [{ from: 3, to: 0 }, { from: 0, to: 2 }, { from: 2, to: 1 }, { from: 3, to: 1 }];
  const { centers } = arrange(boxes(4), links);
  for (const { from, to } of links) assert.ok(centers[from].y < centers[to].y);
  const cycle = arrange(boxes(3), [{ from: 0, to: 1 }, { from: 1, to: 2 }, { from: 2, to: 0 }]);
  assert.equal(new Set(cycle.centers.map(({ y }) => y)).size, 3);
});

test("a layer that everything left takes no room", () => {
  // Box 1 moves down to box 4, beside box 3.
  const links = [{ from: 0, to: 2 }, { from: 2, to: 3 }, { from: 3, to: 4 }, { from: 1, to: 4 }];
  const { centers, height } = arrange(boxes(5), links);
  assert.equal(centers[1].y, centers[3].y);
  const wide = arrange(boxes(400), boxes(399).map((_, at) => ({ from: at, to: at + 1 })).concat({ from: -1, to: 399 }));
  assert.ok([height, wide.width, wide.height].every(Number.isFinite));
  assert.ok(wide.lines.every((line) => line.every(({ x, y }) => Number.isFinite(x) && Number.isFinite(y))));
});

test("a link beside a chain does not move the chain", () => {
  const links = boxes(40).flatMap((_, at) => [{ from: at, to: at + 1 }, ...(at % 4 === 0 && at < 36 ? [{ from: at, to: at + 4 }] : [])]);
  const { centers } = arrange(boxes(41), links);
  const places = centers.map(({ x }) => x);
  assert.ok(Math.max(...places) - Math.min(...places) < 60);
});

test("nodes that compute from constants alone are in one closed box", () => {
  // Value 0 is a weight, and 1 an input.
  const rows = [[[0], [2]], [[2], [3]], [[1, 3], [4]], [[0], [5]], [[4, 5], [6]], [[], [7], "RandomNormal"], [[7, 6], [8]]];
  const given = data(rows, { values: 9, inputs: [1], outputs: [8] });
  given.weights = [[0, 12, -1, 0]];
  const tree = new Tree(new Model(given));
  const kinds = tree.children(tree.root).map((item) => (item.isConstant ? item.nodes : item.kind === "node" ? item.number : item.kind));
  assert.deepEqual(kinds, ["input", [0, 1], 2, 3, 4, 5, 6, "output"]);
  assert.deepEqual(tree.children(tree.itemOf(1).parent).map(({ number }) => number), [0, 1]);
});

test("nodes are colored by their providers if they are known", () => {
  const given = data([[[], [0]], [[0], [1]], [[1], [2]]], { values: 3 });
  given.profile = { runs: 1, microseconds: 1, known: 1, lines: [], nodes: [], placement: { summary: "", lines: [], nodes: [{ node: 0, provider: "CPU" }, { node: 1, provider: "CUDA" }] } };
  const model = new Model(given);
  const tree = new Tree(model);
  const colors = new Colors(model, null);
  assert.deepEqual(colors.schemes, ["op", "time", "provider"]);
  colors.scheme = "provider";
  assert.deepEqual([0, 1, 2].map((node) => colors.of(tree.itemOf(node))), ["provider-0", "provider-1", "heat-none"]);
  assert.deepEqual(colors.legend().map(({ text }) => text), ["CPU", "CUDA", "not known"]);
});

test("a report without a wrong node is a sentence, and a profile leads to its slowest node", () => {
  const given = data([[[], [0]]], { values: 1 });
  given.compare = { verdict: "the model agrees with JAX", first: null, lines: [], nodes: [] };
  assert.deepEqual(answerOf(new Model(given)), { text: "the model agrees with JAX", report: "compare", selection: null, node: -1 });
  given.profile = { runs: 1, microseconds: 1, known: 0, lines: [], nodes: [{ node: 0, microseconds: 1, share: 0.5 }] };
  const answer = answerOf(new Model(given));
  assert.deepEqual([answer.text, answer.selection], ["slowest: n0, 50 % of the time", { kind: "node", node: 0, item: null }]);
});

test("nodes of an earlier model that no node stands for are gone", () => {
  const given = data([[[], [0]], [[0], [1]]], { values: 2 });
  assert.equal(changesOf(given), null);
  given.against = { pairs: [1, 7], different: [0], lines: [] };
  given.earlier = data([[[], [0]], [[0], [1]]], { values: 2 });
  const { pairs, later, earlier } = changesOf(given);
  assert.deepEqual(pairs, [1, -1]);
  assert.deepEqual([[...later], [...earlier]], [[[1, "new"], [0, "different"]], [[0, "gone"], [1, "different"]]]);
});

test("a summary of a weight is short", () => {
  assert.equal(rangeOf([4, 2, 1, -0.123456, 12345678, []]), "-0.1235 to 1.235e7, 2 NaN, 1 ∞");
  assert.equal(rangeOf([4, 0, 0, 2, 2, []]), "all 2");
  assert.equal(rangeOf(null), "");
  assert.deepEqual([thousands(-1234567), thousands(123)], ["-1,234,567", "123"]);
});
