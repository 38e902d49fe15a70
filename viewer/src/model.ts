// What the panes ask of the data: who reads whom, which nodes a line became, which line a node came from.

import { Cost } from "./cost";
import type { LocationRow, LineChange, NodeRow, PlacedLine, ViewData } from "./format";

/** The nodes of a line, and what was measured there. */
export interface Line {
  file: number;
  line: number;
  function: string;
  /** Nodes whose call site it is. */
  own: number[];
  /** Nodes that also stand for another line, which they show first. */
  fused: number[];
  /** How many nodes were made by calls on this line. */
  calls: number;
  /** Bytes of the weights that its nodes are the first to read. */
  bytes: number;
  /** Constants that were computed from this line during the export. */
  constants: number[];
  share: number;
  error: number | null;
  /** The error of the outputs if the line has a shorter type, and the reason. */
  loss: { error: number; what: string } | null;
  /** The operations, the bytes that are moved, and the bytes that are held at the peak, for the chosen sizes. */
  operations: number;
  moved: number;
  held: number;
  /** The number of elements that differ by more than rounding. */
  wrong: number;
  /** True if it computes the first wrong number. */
  isWrong: boolean;
  change: LineChange | null;
  placed: PlacedLine | null;
}

/** The error of a node. */
export interface NodeError {
  what: string;
  error: number;
  wrong: number;
  isWrong: boolean;
}

export type Metric = "nodes" | "weights" | "time" | "error" | "loss" | "operations" | "moved" | "memory";

const NONE: readonly number[] = [];

/** Operators that compute something else in each run. */
const RANDOM = /^(Random.*|Bernoulli|Multinomial|Dropout)$/;

// Bounds for hostile models. No model of a real program reaches them.
/** The sites of one origin. */
const MAX_SITES = 1000;
/** The names around a node. */
const MAX_SCOPES = 64;
/** The values that bodies read from around them, over all bodies. */
const MAX_CAPTURES = 1_000_000;
/** The further lines of nodes, over all nodes. */
const MAX_FUSIONS = 1_000_000;

export class Model {
  readonly producer: Int32Array;
  /** For each value, the graph that it is an input of, or -1. */
  readonly inputOf: Int32Array;
  readonly weightOf: Int32Array;
  /** For each node, the graphs of its bodies, and that of the function that it calls. */
  readonly bodies = new Map<number, number[]>();
  /** For each graph, the nodes that have bodies. */
  readonly withBodies = new Map<number, number[]>();
  /** The first node that calls each function. */
  readonly callers = new Map<number, number>();
  readonly byName = new Map<string, number>();
  readonly lines = new Map<number, Line>();
  readonly share: Float64Array;
  /** For each node, the part of the runtime that runs it. */
  readonly providers = new Map<number, string>();
  readonly errors = new Map<number, NodeError>();
  /** The error of the outputs if the line of a node has a shorter type. */
  readonly losses = new Map<number, number>();
  readonly cost: Cost | null;
  private readonly consumers: (number[] | undefined)[];
  private readonly captured = new Map<number, Set<number>>();
  private readonly known = new Map<number, number[]>();
  private readonly paths = new Map<number, string[]>();

  constructor(readonly data: ViewData) {
    const { nodes, values, graphs, weights } = data;
    this.producer = new Int32Array(values.length).fill(-1);
    this.inputOf = new Int32Array(values.length).fill(-1);
    this.weightOf = new Int32Array(values.length).fill(-1);
    this.consumers = new Array<number[] | undefined>(values.length);
    this.share = new Float64Array(nodes.length);
    weights.forEach(([value], number) => (this.weightOf[value] = number));
    const functions = new Map<string, number>();
    graphs.forEach((graph, number) => {
      for (const value of graph.inputs) this.inputOf[value] = number;
      if (graph.kind === "function") functions.set(graph.name, number);
      if (graph.node !== undefined && nodes[graph.node]) this.addBody(graph.node, number);
    });
    nodes.forEach(([name, op, , inputs, outputs], number) => {
      if (!this.byName.has(name)) this.byName.set(name, number);
      for (const value of outputs) if (value >= 0) this.producer[value] = number;
      for (const value of inputs) if (value >= 0) this.addReader(value, number);
      const called = functions.get(op);
      if (called !== undefined) {
        this.addBody(number, called);
        if (!this.callers.has(called)) this.callers.set(called, number);
      }
    });
    for (const node of [...this.bodies.keys()].sort((a, b) => a - b)) {
      const graph = this.node(node)[2];
      const list = this.withBodies.get(graph);
      if (list) list.push(node);
      else this.withBodies.set(graph, [node]);
    }
    this.capture();
    this.placeNodes();
    this.placeOverlays();
    this.cost = data.cost ? new Cost(data.cost, nodes.length) : null;
    this.cost?.onChange(() => this.placeCost());
    this.placeCost();
  }

  node(number: number): NodeRow {
    return this.data.nodes[number]!;
  }

  name(number: number): string {
    return this.node(number)[0];
  }

  op(number: number): string {
    return this.node(number)[1];
  }

  value(number: number): string {
    return this.data.values[number]?.[0] ?? "";
  }

  type(value: number): string {
    return this.data.values[value]?.[1] ?? "?";
  }

  readers(value: number): readonly number[] {
    return this.consumers[value] ?? NONE;
  }

  /** Returns the bytes of the weights that a node reads. */
  bytesOf(number: number): number {
    let sum = 0;
    for (const value of this.node(number)[3]) {
      const weight = value < 0 ? -1 : this.weightOf[value]!;
      if (weight >= 0) sum += this.data.weights[weight]![1];
    }
    return sum;
  }

  private constants: Uint8Array | null = null;

  /** True if a node computes the same in each run, from constants alone. */
  isConstant(number: number): boolean {
    if (!this.constants) {
      const constants = new Uint8Array(this.data.nodes.length);
      const isKnown = (value: number): boolean => {
        if (value < 0 || this.weightOf[value]! >= 0) return true;
        const producer = this.producer[value]!;
        return producer >= 0 && constants[producer] === 1;
      };
      this.data.nodes.forEach(([, op, , inputs], node) => {
        const isOwn = op.includes("::") || this.bodies.has(node) || RANDOM.test(op);
        if (!isOwn && inputs.every(isKnown)) constants[node] = 1;
      });
      this.constants = constants;
    }
    return this.constants[number] === 1;
  }

  /** Returns the values that a node reads, with those that its bodies take from around it. */
  reads(number: number): number[] {
    const own = this.node(number)[3];
    const captured = this.captured.get(number);
    return captured ? [...own, ...captured] : own;
  }

  /** Returns the sites of an origin, the one to show first at the front. */
  sites(origin: number): number[] {
    return this.data.origins[origin] ?? [];
  }

  /** Returns the call site of a node: a location, or -1. */
  callsite(number: number): number {
    return this.callsites(this.node(number)[5])[0] ?? -1;
  }

  /** Returns the call sites of an origin, each once. */
  callsites(origin: number): number[] {
    let known = this.known.get(origin);
    if (!known) {
      const sites = this.sites(origin).slice(0, MAX_SITES);
      known = [...new Set(sites.map((site) => this.data.sites[site]![1]))].filter((location) => location >= 0);
      this.known.set(origin, known);
    }
    return known;
  }

  location(number: number): LocationRow {
    return this.data.locations[number]!;
  }

  path(file: number): string {
    return this.data.files[file]?.path ?? "";
  }

  /** Returns the call path of a frame, innermost first, as locations. */
  frames(frame: number): number[] {
    const path: number[] = [];
    while (frame >= 0) {
      const [location, caller] = this.data.frames[frame]!;
      path.push(location);
      frame = caller;
    }
    return path;
  }

  /** Returns the user's names around a site, outermost first. */
  scope(scope: number): string[] {
    const fresh: number[] = [];
    let at = scope;
    for (; at >= 0 && !this.paths.has(at); at = this.data.scopes[at]![2]) fresh.push(at);
    let path = this.paths.get(at) ?? [];
    for (const inner of fresh.reverse()) {
      const [name, isTransform] = this.data.scopes[inner]!;
      if (!isTransform && name && path.length < MAX_SCOPES) path = [...path, name];
      this.paths.set(inner, path);
    }
    return path;
  }

  /** Returns the user's names around a node. */
  scopeOf(number: number): string[] {
    const site = this.sites(this.node(number)[5])[0];
    return site === undefined ? [] : this.scope(this.data.sites[site]![2]);
  }

  line(file: number, line: number): Line | undefined {
    return this.lines.get(key(file, line));
  }

  file(path: string): number {
    return this.data.files.findIndex((file) => (file.path ?? "") === path);
  }

  /** Returns the text of a line, if the page contains it. */
  text(file: number, line: number): string | null {
    const row = this.data.files[file];
    if (row?.text !== undefined) return this.textLines(file)[line - 1] ?? null;
    let recorded = this.recorded.get(file);
    if (!recorded) this.recorded.set(file, (recorded = new Map(row?.lines)));
    return recorded.get(line) ?? null;
  }

  private readonly recorded = new Map<number, Map<number, string>>();

  private readonly split = new Map<number, string[]>();

  /** Returns the lines of a file whose text the page contains. */
  textLines(file: number): string[] {
    let lines = this.split.get(file);
    if (!lines) {
      lines = (this.data.files[file]?.text ?? "").split(/\r\n|\r|\n/);
      if (lines.at(-1) === "") lines.pop();
      this.split.set(file, lines);
    }
    return lines;
  }

  /** Returns the error of the line of a node, if it says something about each of its nodes. */
  errorOfLine(number: number): { error: number; wrong: number; isWrong: boolean } | null {
    const location = this.callsite(number);
    if (location < 0) return null;
    const [file, , line] = this.location(location);
    const entry = this.line(file, line);
    if (!entry || entry.error === null || entry.wrong > 0) return null;
    return { error: entry.error, wrong: 0, isWrong: false };
  }

  /** Returns the nodes that calls on a line made, with its own. */
  under(file: number, line: number): number[] {
    // A frame comes after its caller.
    const isUnder = new Uint8Array(this.data.frames.length);
    this.data.frames.forEach(([location, caller], frame) => {
      const [f, , l] = this.location(location);
      if ((f === file && l === line) || (caller >= 0 && isUnder[caller])) isUnder[frame] = 1;
    });
    const found: number[] = [];
    this.data.nodes.forEach(([, , , , , origin], number) => {
      const site = this.sites(origin)[0];
      if (site !== undefined && isUnder[this.data.sites[site]![0]]) found.push(number);
    });
    return found;
  }

  /** Returns the largest value of a metric over all lines. */
  most(metric: Metric): number {
    let most = 0;
    for (const line of this.lines.values()) most = Math.max(most, measure(line, metric));
    return most;
  }

  private addReader(value: number, node: number): void {
    const known = this.consumers[value];
    if (!known) this.consumers[value] = [node];
    else if (known.at(-1) !== node) known.push(node);
  }

  private addBody(node: number, graph: number): void {
    const known = this.bodies.get(node);
    if (known) known.push(graph);
    else this.bodies.set(node, [graph]);
  }

  /** Finds the values that bodies read from the graphs around them. */
  private capture(): void {
    const owner = this.data.graphs.map((graph) => graph.node ?? -1);
    const graphOf = (value: number): number => {
      const producer = this.producer[value]!;
      return producer >= 0 ? this.node(producer)[2] : this.inputOf[value]!;
    };
    let steps = 0;
    this.data.nodes.forEach(([, , graph, inputs]) => {
      if (owner[graph]! < 0 || steps > MAX_CAPTURES) return;
      for (const value of inputs) {
        if (value < 0) continue;
        const from = graphOf(value);
        if (from < 0) continue;
        // Bodies come after the graph around them, so this ends.
        for (let at = graph; at !== from && owner[at]! >= 0; at = this.node(owner[at]!)[2]) {
          const list = this.captured.get(owner[at]!);
          if (list) list.add(value);
          else this.captured.set(owner[at]!, new Set([value]));
          steps++;
        }
      }
    });
  }

  private ensure(file: number, line: number, name: string): Line {
    const at = key(file, line);
    let known = this.lines.get(at);
    if (!known) {
      known = {
        file, line, function: name, own: [], fused: [], calls: 0, bytes: 0, constants: [],
        share: 0, error: null, loss: null, operations: 0, moved: 0, held: 0, wrong: 0, isWrong: false, change: null, placed: null,
      };
      this.lines.set(at, known);
    }
    return known;
  }

  private lineAt(location: number): Line {
    const [file, name, line] = this.location(location);
    return this.ensure(file, line, this.data.functions[name] ?? "");
  }

  private placeNodes(): void {
    const { nodes, frames, files, weights, sites } = this.data;
    const through = new Int32Array(frames.length);
    const seen = new Set<number>();
    let fusions = 0;
    nodes.forEach(([, , , inputs, , origin], number) => {
      const [first, ...others] = this.callsites(origin);
      const primary = this.sites(origin)[0];
      if (primary !== undefined && sites[primary]![0] >= 0) through[sites[primary]![0]]!++;
      if (first === undefined) return;
      const line = this.lineAt(first);
      line.own.push(number);
      for (const value of inputs) {
        const weight = value < 0 ? -1 : this.weightOf[value]!;
        if (weight < 0 || seen.has(weight)) continue;
        seen.add(weight);
        line.bytes += weights[weight]![1];
      }
      fusions += others.length;
      for (const other of fusions > MAX_FUSIONS ? [] : others) {
        const fused = this.lineAt(other).fused;
        if (fused.at(-1) !== number) fused.push(number);
      }
    });
    // A frame comes after its caller.
    for (let frame = frames.length - 1; frame >= 0; frame--) {
      const [location, caller] = frames[frame]!;
      if (caller >= 0) through[caller]! += through[frame]!;
      if (through[frame] && files[this.location(location)[0]]?.tier === "user") {
        this.lineAt(location).calls += through[frame]!;
      }
    }
    weights.forEach(([value, , origin]) => {
      for (const location of this.callsites(origin)) this.lineAt(location).constants.push(value);
    });
    for (const line of this.lines.values()) {
      const own = new Set(line.own);
      line.fused = line.fused.filter((number) => !own.has(number));
      line.calls = Math.max(0, line.calls - line.own.length);
    }
  }

  /** Adds up what the nodes of each line cost. */
  private placeCost(): void {
    const { cost } = this;
    if (!cost) return;
    for (const line of this.lines.values()) line.operations = line.moved = line.held = 0;
    cost.data.nodes.forEach(([file, number], node) => {
      if (file < 0) return;
      const line = this.ensure(file, number, "");
      line.operations += cost.operations[node]!;
      line.moved += cost.moved[node]!;
      line.held += cost.held[node]!;
    });
  }

  private placeOverlays(): void {
    const { profile, compare, sensitivity, against } = this.data;
    for (const row of profile?.lines ?? []) this.ensure(row.file, row.line, "").share += row.share;
    for (const row of profile?.nodes ?? []) this.share[row.node]! += row.share;
    for (const row of profile?.placement?.lines ?? []) this.ensure(row.file, row.line, "").placed = row;
    for (const row of profile?.placement?.nodes ?? []) this.providers.set(row.node, row.provider);
    for (const row of compare?.lines ?? []) {
      const line = this.ensure(row.file, row.line, "");
      line.error = Math.max(line.error ?? 0, row.error ?? Infinity);
      line.wrong += row.wrong ?? (row.is_wrong ? 1 : 0);
      line.isWrong ||= row.is_wrong;
    }
    for (const row of compare?.nodes ?? []) {
      const wrong = row.wrong ?? (row.is_wrong ? 1 : 0);
      this.errors.set(row.node, { what: row.what, error: row.error ?? Infinity, wrong, isWrong: row.is_wrong });
    }
    for (const row of sensitivity?.lines ?? []) {
      this.ensure(row.file, row.line, "").loss = { error: row.error ?? Infinity, what: row.what };
    }
    for (const row of sensitivity?.nodes ?? []) this.losses.set(row.node, row.error ?? Infinity);
    for (const row of against?.lines ?? []) {
      if (row.file !== null && row.after !== null) {
        this.ensure(row.file, row.after, row.function).change = row;
      }
    }
  }
}

/** Returns a metric of a line. Errors count by their magnitude, and rounding does not count. */
export function measure(line: Line, metric: Metric): number {
  switch (metric) {
    case "nodes":
      return line.own.length;
    case "weights":
      return line.bytes;
    case "time":
      return line.share;
    case "error":
      return line.error === null || line.error === 0 || line.wrong === 0 ? 0 : Math.max(1, 16 + Math.log10(Math.min(line.error, 1e20)));
    case "loss":
      return Math.max(0, 4 + Math.log10(Math.min(line.loss?.error ?? 0, 1)));
    case "operations":
      return line.operations;
    case "moved":
      return line.moved;
    case "memory":
      return line.held;
  }
}

/** Lines of all files are in one map. */
function key(file: number, line: number): number {
  return file * 2 ** 32 + line;
}
