// What nodes and lines cost for the sizes that the reader chooses, and the memory over the schedule.

import { formula, type Formula } from "./formula";
import type { CostData } from "./format";

/** The size of a symbol before the reader chooses one. */
const FIRST_SIZE = 16;

/** The memory while a node runs. */
export interface Moment {
  node: number;
  bytes: number;
}

export class Cost {
  readonly sizes = new Map<string, number>();
  /** For each node, the operations, the bytes that it moves, and the bytes that it holds at the peak. */
  operations: Float64Array;
  moved: Float64Array;
  held: Float64Array;
  /** The memory while each node runs, in the order in which they run. */
  curve: Moment[] = [];
  /** The step at which the memory is largest, or -1. */
  peak = -1;
  private readonly formulas: Formula[];
  private readonly changed: (() => void)[] = [];

  constructor(
    readonly data: CostData,
    count: number,
  ) {
    this.formulas = data.formulas.map(formula);
    for (const { name, size } of data.symbols) this.sizes.set(name, size ?? FIRST_SIZE);
    this.operations = new Float64Array(count);
    this.moved = new Float64Array(count);
    this.held = new Float64Array(count);
    this.evaluate();
  }

  /** Calls a function after each change of a size. */
  onChange(act: () => void): void {
    this.changed.push(act);
  }

  /** Sets a size, and evaluates all formulas again. */
  set(name: string, size: number): void {
    if (!this.sizes.has(name) || !(size >= 1)) return;
    this.sizes.set(name, Math.floor(size));
    this.evaluate();
    for (const act of this.changed) act();
  }

  /** Returns the sum of all nodes. */
  total(of: Float64Array): number {
    return of.reduce((sum, value) => sum + value, 0);
  }

  /** Returns the memory at the peak. */
  most(): number {
    return this.curve[this.peak]?.bytes ?? 0;
  }

  private evaluate(): void {
    const values = Float64Array.from(this.formulas, (value) => value(this.sizes));
    // A very long formula is not part of the page.
    const value = (number: number): number => values[number] ?? 0;
    this.data.nodes.forEach(([, , operations, moved], node) => {
      this.operations[node] = value(operations);
      this.moved[node] = value(moved);
    });
    this.schedule(value);
  }

  private schedule(value: (formula: number) => number): void {
    this.held.fill(0);
    this.curve = [];
    this.peak = -1;
    const { steps, buffers } = this.data.memory ?? { steps: [], buffers: [] };
    if (steps.length === 0) return;
    const changes = new Float64Array(steps.length + 1);
    for (const [size, first, last] of buffers) {
      changes[Math.min(first, steps.length)]! += value(size);
      changes[Math.min(last + 1, steps.length)]! -= value(size);
    }
    let live = 0;
    const needs = (extra: readonly number[]): number => extra.reduce((most, one) => Math.max(most, value(one)), 0);
    this.curve = steps.map(([node, extra], step) => {
      live += changes[step]!;
      return { node, bytes: live + needs(extra) };
    });
    this.peak = this.curve.reduce((most, { bytes }, step) => (most < 0 || bytes > this.curve[most]!.bytes ? step : most), -1);
    const hold = (node: number, bytes: number): void => {
      if (node >= 0 && node < this.held.length) this.held[node]! += bytes;
    };
    for (const [size, first, last, writers] of buffers) {
      if (first > this.peak || last < this.peak) continue;
      const before = writers.filter(([, step]) => step <= this.peak);
      const writer = before.at(-1);
      if (writer) hold(writer[0], value(size));
    }
    const [node, extra] = steps[this.peak]!;
    hold(node, needs(extra));
  }
}
