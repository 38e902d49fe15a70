// The costs of the page: formulas, sums and the memory over the schedule.

import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";

const contents = `
  export { Cost } from "./cost";
  export { amount } from "./dom";
  export { formula } from "./formula";
`;
const resolveDir = new URL("../src/", import.meta.url).pathname;
const { outputFiles } = await build({ stdin: { contents, resolveDir, loader: "ts" }, bundle: true, format: "esm", write: false });
const viewer = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString("base64")}`);
const { amount, Cost, formula } = viewer;

const sizes = new Map([["B", 3], ["T", 5], ["n_2", 7]]);
const value = (text) => formula(text)(sizes);

test("a formula has the value that Python computes", () => {
  assert.equal(value("261*B*T*T + 32830*B*T"), 261 * 75 + 32830 * 15);
  assert.equal(value("B - T*2"), -7);
  assert.equal(value("-B + 1"), -2);
  assert.equal(value("(T + 1)//2*4"), 12);
  assert.equal(value("(B - T)//2"), -1);
  assert.equal(value("(B - T)%4"), 2);
  assert.equal(value("max(B, T, n_2) - min(2, B)"), 5);
  assert.equal(value("2 - 3 - 4"), -5);
  assert.equal(value("0"), 0);
});

test("a text that is no formula is not a number", () => {
  for (const text of ["", "B +", "unknown", "(B", "max()", "max(B", "sin(B)", "B B", "B/2", "1;2", "(".repeat(1e5)]) {
    assert.ok(Number.isNaN(value(text)), text.slice(0, 20));
  }
});

/** Two nodes: the first writes 8 bytes per row, the second reads them and needs 100 bytes while it runs. */
function small() {
  return {
    symbols: [{ name: "B", size: 4 }, { name: "T", size: null }],
    formulas: ["0", "2*B", "8*B", "100", "3*B*T", "10*T"],
    nodes: [[0, 7, 1, 2], [0, 8, 4, 2], [-1, 0, -1, 0]],
    memory: {
      steps: [[0, []], [1, [3, 0]]],
      buffers: [[2, 0, 1, [[0, 0]]], [5, 1, 1, [[1, 1]]]],
      inputs: 0,
      weights: 0,
    },
  };
}

test("the costs follow the sizes", () => {
  const cost = new Cost(small(), 3);
  let changes = 0;
  cost.onChange(() => changes++);
  assert.equal(cost.sizes.get("T"), 16);
  assert.deepEqual([...cost.operations], [8, 3 * 4 * 16, 0]);
  assert.equal(cost.total(cost.moved), 64);
  cost.set("T", 2.9);
  cost.set("B", 0);
  cost.set("unknown", 3);
  assert.deepEqual([...cost.sizes], [["B", 4], ["T", 2]]);
  assert.deepEqual([...cost.operations], [8, 3 * 4 * 2, 0]);
  assert.equal(changes, 1);
});

test("the peak is held by the nodes that wrote what is alive", () => {
  const cost = new Cost(small(), 3);
  assert.deepEqual(cost.curve, [{ node: 0, bytes: 32 }, { node: 1, bytes: 32 + 160 + 100 }]);
  assert.deepEqual([cost.peak, cost.most()], [1, 292]);
  assert.deepEqual([...cost.held], [32, 260, 0]);
});

test("a page without a schedule has no peak", () => {
  const cost = new Cost({ ...small(), memory: null }, 3);
  assert.deepEqual([cost.curve, cost.peak, cost.most()], [[], -1, 0]);
});

test("a number has three digits and a prefix", () => {
  assert.deepEqual([0, 999, 25_165_824, 1.5e18, 999_600].map(amount), ["0", "999", "25.2 M", "1.50 E", "1.00 M"]);
});
