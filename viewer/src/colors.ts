// The colors of boxes: by operator, or by something that was measured.

import { bytes, h, short } from "./dom";
import type { Model } from "./model";
import type { Item } from "./tree";

export type Scheme = "op" | "time" | "error" | "loss" | "operations" | "moved" | "memory" | "bytes" | "provider" | "change";

/** An entry of the legend: the class that sets the color, and what it means. */
export interface Entry {
  name: string;
  text: string;
}

const NAMES: Record<Scheme, string> = {
  op: "Operator",
  time: "Time",
  error: "Error",
  loss: "Precision",
  operations: "Operations",
  moved: "Bytes moved",
  memory: "Memory",
  bytes: "Bytes",
  provider: "Provider",
  change: "Changes",
};

const CLASSES: [string, string, RegExp][] = [
  ["control", "control flow", /^(Loop|Scan|If|SequenceMap)$/],
  ["layer", "matrix products", /^(MatMul|Gemm|Conv|ConvTranspose|Einsum|QLinear.*|MatMulInteger|.*Attention|LSTM|GRU|RNN|FusedMatMul|FusedGemm|FusedConv|RotaryEmbedding)$/],
  ["activation", "activations", /^(Relu|LeakyRelu|PRelu|Elu|Celu|Selu|Gelu|Mish|Sigmoid|HardSigmoid|HardSwish|Tanh|Softmax|LogSoftmax|Softplus|Softsign|ThresholdedRelu|Swish|QuickGelu|FastGelu|BiasGelu|Erf)$/],
  ["normalization", "normalization", /^(.*Normalization|Dropout|LpNormalization|MeanVarianceNormalization|LRN)$/],
  ["pool", "reductions, pooling", /^(.*Pool|.*RoiAlign|Resize|Reduce.*|ArgMax|ArgMin|TopK|CumSum)$/],
  ["shape", "layout, copies", /^(Reshape|Transpose|Squeeze|Unsqueeze|Flatten|Expand|Tile|Slice|Split|Concat|Pad|Gather.*|Scatter.*|Shape|Size|DepthToSpace|SpaceToDepth|Cast|CastLike|Identity|Constant|ConstantOfShape|Range|OneHot|Trilu)$/],
];
const FUNCTION = "function";
const PLAIN = "plain";

const ofOps = new Map<string, string>();

/** Returns the class that colors an operator. */
export function classOf(op: string): string {
  let known = ofOps.get(op);
  if (known === undefined) {
    const name = short(op.slice(op.lastIndexOf(":") + 1));
    known = CLASSES.find(([, , pattern]) => pattern.test(name))?.[0] ?? (op.includes("::") ? FUNCTION : PLAIN);
    ofOps.set(op, known);
  }
  return known;
}

/** The parts of a whole at which the color changes, from the largest to the smallest. */
const STEPS = [0.3, 0.1, 0.03, 0.01];
/** The errors of outputs at which the color changes. */
const LOSSES = [1, 0.1, 0.01, 0.001];
/** The error of a line that changes no output. */
const NO_LOSS = Number.MIN_VALUE;
/** The schemes that depend on sizes. */
const COSTS: readonly Scheme[] = ["operations", "moved", "memory"];
/** The providers with a color of their own. */
const MAX_PROVIDERS = 6;
/** Bodies in bodies are followed so deep. */
const MAX_DEPTH = 500;

export class Colors {
  readonly schemes: Scheme[];
  scheme: Scheme;
  private readonly known = new Map<Scheme, Map<Item, string>>();
  private readonly measured = new Map<Scheme, Float64Array>();
  private readonly providers: string[];
  private total = -1;

  constructor(
    private readonly model: Model,
    /** The nodes that are new, gone or different, if there is another model. */
    private readonly changes: ReadonlyMap<number, string> | null,
  ) {
    const { profile, compare, sensitivity, weights } = model.data;
    this.providers = [...new Set(model.providers.values())].filter(Boolean);
    const has: Record<Scheme, boolean> = {
      op: true,
      time: profile !== null,
      error: compare !== null,
      loss: Boolean(sensitivity),
      operations: model.cost !== null,
      moved: model.cost !== null,
      memory: (model.cost?.curve.length ?? 0) > 0,
      bytes: weights.some(([, size]) => size > 0),
      provider: this.providers.length > 0,
      change: changes !== null,
    };
    this.schemes = (Object.keys(NAMES) as Scheme[]).filter((scheme) => has[scheme]);
    this.scheme = compare ? "error" : sensitivity ? "loss" : profile ? "time" : model.cost ? "operations" : has.change ? "change" : "op";
  }

  /** Returns the name of a scheme. */
  static nameOf(scheme: Scheme): string {
    return NAMES[scheme];
  }

  /** Forgets the colors that depend on sizes. */
  refresh(): void {
    for (const scheme of COSTS) {
      this.known.delete(scheme);
      this.measured.delete(scheme);
    }
  }

  /** Returns the class of a box; an empty text if it has no color. */
  of(item: Item): string {
    let known = this.known.get(this.scheme);
    if (!known) this.known.set(this.scheme, (known = new Map()));
    let name = known.get(item);
    if (name === undefined) {
      name = item.kind === "input" || item.kind === "output" ? "" : this.find(item);
      known.set(item, name);
    }
    return name;
  }

  /** Returns what the colors mean. */
  legend(): Entry[] {
    switch (this.scheme) {
      case "op": {
        const used = new Set(this.model.data.nodes.map(([, op]) => classOf(op)));
        const entries = CLASSES.map(([name, text]) => ({ name, text }));
        entries.push({ name: FUNCTION, text: "functions, other domains" }, { name: PLAIN, text: "other operators" });
        return entries.filter(({ name }) => used.has(name)).map(({ name, text }) => ({ name: `op-${name}`, text }));
      }
      case "time":
        return this.steps((part) => `${part * 100} %`, "of the time", "not measured");
      case "operations":
      case "moved":
      case "memory": {
        const text = { operations: "of the operations", moved: "of the bytes", memory: "of the peak" }[this.scheme];
        return this.steps((part) => `${part * 100} %`, text, this.scheme === "memory" ? "none at the peak" : "no cost");
      }
      case "bytes": {
        const total = this.totalBytes();
        return this.steps((part) => bytes(part * total), "of weights", "no weights");
      }
      case "error":
        return [
          { name: "error-first", text: "first wrong number" },
          { name: "error-wrong", text: "wrong" },
          { name: "error-rounding", text: "rounding" },
          { name: "error-exact", text: "exact" },
          { name: "heat-none", text: "not compared separately" },
        ];
      case "loss": {
        const [lost, ...rest] = LOSSES.map((least) => `≥ ${least * 100} %`);
        const texts = [`${lost} of an output`, ...rest, `< ${LOSSES.at(-1)! * 100} %`];
        return [...texts.map((text, at) => ({ name: `heat-${at}`, text })), { name: "heat-none", text: "not rounded" }];
      }
      case "provider": {
        const named = this.providers.slice(0, MAX_PROVIDERS).map((text, at) => ({ name: `provider-${at}`, text: short(text, 40) }));
        if (this.providers.length > MAX_PROVIDERS) named.push({ name: "op-plain", text: "other providers" });
        return [...named, { name: "heat-none", text: "not known" }];
      }
      case "change":
        return [
          { name: "change-new", text: "new" },
          { name: "change-gone", text: "gone" },
          { name: "change-different", text: "different" },
          { name: "heat-none", text: "the same" },
        ];
    }
  }

  /** Draws the legend. */
  element(): HTMLElement {
    const rows = this.legend().map(({ name, text }) => h("li", {}, h("span", { class: `swatch ${name}`, "aria-hidden": "true" }), text));
    return h("ul", { class: "legend", "aria-label": `Colors by ${NAMES[this.scheme].toLowerCase()}` }, ...rows);
  }

  private steps(text: (part: number) => string, what: string, none: string): Entry[] {
    const entries = STEPS.map((part, at) => ({ name: `heat-${at}`, text: at === 0 ? `≥ ${text(part)} ${what}` : `≥ ${text(part)}` }));
    return [...entries, { name: `heat-${STEPS.length}`, text: `< ${text(STEPS.at(-1)!)}` }, { name: "heat-none", text: none }];
  }

  private totalBytes(): number {
    if (this.total < 0) this.total = this.model.data.weights.reduce((sum, [, size]) => sum + size, 0);
    return this.total;
  }

  private find(item: Item): string {
    if (this.scheme === "op") return item.kind === "node" ? `op-${classOf(item.label)}` : "";
    if (this.scheme === "provider") {
      const names = new Set(item.nodes.slice(0, 2000).map((node) => this.model.providers.get(node) ?? "").filter(Boolean));
      if (names.size === 0) return "heat-none";
      const at = names.size === 1 ? this.providers.indexOf([...names][0]!) : MAX_PROVIDERS;
      return at < MAX_PROVIDERS ? `provider-${at}` : "op-plain";
    }
    if (this.scheme === "change") {
      const names = new Set(item.nodes.flatMap((node) => this.changes?.get(node) ?? []));
      if (names.size === 0) return "heat-none";
      return names.size === 1 ? `change-${[...names][0]}` : "change-different";
    }
    const values = this.values(this.scheme);
    let sum = 0;
    for (const node of item.nodes) {
      const value = values[node]!;
      sum = this.add(sum, value);
    }
    if (this.scheme === "error") return ["heat-none", "error-exact", "error-rounding", "error-wrong", "error-first"][sum]!;
    const steps = this.scheme === "loss" ? LOSSES : STEPS;
    const part = sum / this.whole();
    if (part <= 0) return "heat-none";
    const step = steps.findIndex((least) => part >= least);
    return `heat-${step < 0 ? steps.length : step}`;
  }

  /** Returns the measure that is all of it. */
  private whole(): number {
    const { cost } = this.model;
    switch (this.scheme) {
      case "bytes":
        return Math.max(1, this.totalBytes());
      case "operations":
      case "moved":
        return Math.max(1, cost?.total(cost[this.scheme]) ?? 1);
      case "memory":
        return Math.max(1, cost?.most() ?? 1);
      default:
        return 1;
    }
  }

  /** Returns the measure of a box from those of two parts. */
  private add(a: number, b: number): number {
    return this.scheme === "error" || this.scheme === "loss" ? Math.max(a, b) : a + b;
  }

  /** Returns the measure of each node, with that of its bodies. Errors are from 0, not compared, to 4, first wrong. */
  private values(scheme: Scheme): Float64Array {
    const known = this.measured.get(scheme);
    if (known) return known;
    const { model } = this;
    const own = (node: number): number => {
      if (scheme === "time") return model.share[node]!;
      if (scheme === "error") {
        const error = model.errors.get(node) ?? model.errorOfLine(node);
        if (!error) return 0;
        return error.isWrong ? 4 : error.wrong > 0 ? 3 : error.error === 0 ? 1 : 2;
      }
      if (scheme === "loss") {
        const loss = model.losses.get(node);
        return loss === undefined ? 0 : Math.max(loss, NO_LOSS);
      }
      if (model.cost && scheme === "operations") return model.cost.operations[node]!;
      if (model.cost && scheme === "moved") return model.cost.moved[node]!;
      if (model.cost && scheme === "memory") return model.cost.held[node]!;
      return model.bytesOf(node);
    };
    const values = Float64Array.from(model.data.nodes, (_, node) => own(node));
    if (model.bodies.size > 0) {
      const ofGraphs = new Map<number, number>();
      const ofGraph = (graph: number, depth: number): number => {
        const found = ofGraphs.get(graph);
        if (found !== undefined) return found;
        ofGraphs.set(graph, 0);
        const { first, count } = model.data.graphs[graph]!;
        let sum = 0;
        for (let node = first; node < first + count; node++) {
          sum = this.add(sum, own(node));
          if (depth < MAX_DEPTH) for (const body of model.bodies.get(node) ?? []) sum = this.add(sum, ofGraph(body, depth + 1));
        }
        ofGraphs.set(graph, sum);
        return sum;
      };
      for (const [node, bodies] of model.bodies) {
        for (const body of bodies) values[node] = this.add(values[node]!, ofGraph(body, 0));
      }
    }
    this.measured.set(scheme, values);
    return values;
  }
}
