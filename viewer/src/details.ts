// The details pane: everything about what is selected.

import type { Answer } from "./answer";
import { amount, bytes, clean, countOps, h, inSteps, listOps, percent, plural, short, thousands } from "./dom";
import type { GraphPane } from "./graph";
import { sizeOf, titleOf } from "./layout";
import type { Model } from "./model";
import { contents, rangeOf } from "./histogram";
import { charAt } from "./python";
import type { Selection } from "./selection";
import type { Item } from "./tree";

type Child = Node | string | null | false;

/** The nodes at the other end of one value that a list names. */
const MAX_ENDS = 12;
/** The nodes of a box or a line whose operators and lines are counted. */
const MAX_COUNTED = 20_000;

export class DetailsPane {
  private isAllFrames = false;

  constructor(
    private readonly model: Model,
    private readonly graph: GraphPane,
    readonly element: HTMLElement,
    private readonly select: (selection: Selection) => void,
    private readonly hover: (nodes: number[]) => void,
    private readonly answer: Answer | null,
    private readonly showAnswer: () => void,
  ) {}

  show(selection: Selection | null): void {
    this.element.scrollTop = 0;
    this.element.replaceChildren(...this.content(selection).filter((child): child is Node => child instanceof Node));
  }

  private content(selection: Selection | null): Child[] {
    switch (selection?.kind) {
      case "node":
        return this.node(selection.node, selection);
      case "line":
        return this.line(selection.file, selection.line);
      case "weight":
        return this.weight(selection.value);
      case "box": {
        const item = this.graph.tree.find(selection.item);
        return item ? this.box(item) : this.overview();
      }
      case "end":
        return this.end(selection.value, selection.side);
      case "op": {
        const nodes = this.model.data.nodes.flatMap((row, number) => (row[1] === selection.op ? number : []));
        return [heading(selection.op, plural(nodes.length, "node")), this.nodes("Nodes", nodes)];
      }
      case "shape": {
        const nodes = this.model.data.nodes.flatMap((row, number) =>
          row[4].some((value) => value >= 0 && this.model.type(value) === selection.type) ? number : [],
        );
        return [heading(selection.type, `the result of ${plural(nodes.length, "node")}`), this.nodes("Nodes", nodes)];
      }
      default:
        return this.overview();
    }
  }

  private node(number: number, selection: Selection): Child[] {
    const [name, op, , inputs, outputs, origin, sure, attributes] = this.model.node(number);
    const site = this.model.sites(origin)[0];
    const [frame, , scope, plugin] = site === undefined ? [-1, -1, -1, -1] : this.model.data.sites[site]!;
    const callsites = this.model.callsites(origin);
    const emitter = this.model.data.plugins[plugin];
    const weights = inputs.filter((value) => value >= 0 && this.model.weightOf[value]! >= 0);
    const operands = inputs.filter((value) => value >= 0 && this.model.weightOf[value]! < 0);
    const attribute = ([key, value]: [string, string]): Node =>
      h("div", { class: "attribute" }, h("dt", {}, short(key)), h("dd", {}, h("code", {}, value)));
    const error = this.model.errors.get(number);
    const share = this.model.share[number]!;
    const facts: [string, Child][] = [];
    const path = this.model.scope(scope);
    if (path.length) facts.push(["Module", path.map((name) => short(name)).join(" / ")]);
    if (emitter) facts.push(["Plugin", emitter[1] ? `${emitter[0]}, ${emitter[1]}:${emitter[2]}` : emitter[0]]);
    if (sure !== "exact") facts.push(["Origin", HOW[sure] ?? sure]);
    if (share > 0) facts.push(["Time", `${percent(share)} of the time of all kernels`]);
    const provider = this.model.providers.get(number);
    if (provider) facts.push(["Runs on", provider]);
    if (error) facts.push(["Error", error.what]);
    const { cost } = this.model;
    if (cost) facts.push(...costs(cost.operations[number]!, cost.moved[number]!, cost.held[number]!));
    const transforms = this.transforms(scope);
    if (transforms.length) facts.push(["Transforms", transforms.join(" / ")]);
    return [
      heading(op, name),
      this.sourceLine(callsites[0] ?? -1),
      list(facts),
      this.traceback(frame, callsites[0] ?? -1, selection),
      this.fused(callsites.slice(1)),
      this.values("Inputs", operands, true),
      this.weights(weights),
      this.values("Outputs", outputs.filter((value) => value >= 0), false),
      attributes.length ? section("Attributes", ...inSteps(h("dl", { class: "attributes" }), attributes, attribute)) : null,
    ];
  }

  private transforms(scope: number): string[] {
    const names: string[] = [];
    for (let at = scope; at >= 0; at = this.model.data.scopes[at]![2]) {
      const [name, isTransform] = this.model.data.scopes[at]!;
      if (isTransform && names.length < 20) names.push(short(name));
    }
    return names.reverse();
  }

  /** Shows the line of a location, with its expression underlined. */
  private sourceLine(location: number): Child {
    if (location < 0) return h("p", { class: "empty" }, "Nothing is known about where this node came from.");
    const [file, , line, column, endLine, endColumn] = this.model.location(location);
    const text = this.model.text(file, line);
    const place = this.place(location);
    if (text === null) return h("div", { class: "excerpt" }, place);
    const start = column < 0 ? 0 : charAt(text, column);
    const end = column < 0 ? 0 : endLine === line ? charAt(text, endColumn) : text.length;
    const cut = text.length - text.trimStart().length;
    const before = text.slice(Math.max(Math.min(cut, start), start - 500), start);
    const code = h("code", {}, before, h("span", { class: "expression" }, short(text.slice(start, end), 1000)), short(text.slice(end), 500));
    return h("div", { class: "excerpt" }, place, h("pre", {}, code));
  }

  /** Returns a button that leads to a line. */
  private place(location: number): HTMLElement {
    const [file, name, line] = this.model.location(location);
    const path = this.model.data.files[file]?.path;
    const text = path === null || path === undefined ? `line ${line}` : `${short(path, 300)}:${line}`;
    const inside = short(this.model.data.functions[name] ?? "");
    const button = link(text, () => this.select({ kind: "line", file, line }));
    return h("span", { class: "place" }, button, inside ? h("span", { class: "dim" }, ` in ${inside}`) : null);
  }

  private traceback(frame: number, callsite: number, selection: Selection): Child {
    const path = this.model.frames(frame);
    const tier = (location: number): string => this.model.data.files[this.model.location(location)[0]]?.tier ?? "user";
    const users = path.filter((location) => tier(location) === "user");
    const shown = this.isAllFrames ? path : users;
    if (shown.length === 0 || path.length < 2) return null;
    const row = (location: number): Node => {
      const [file, , line] = this.model.location(location);
      const text = this.model.text(file, line)?.trim();
      return h(
        "li",
        { class: `tier-${tier(location)}${location === callsite ? " is-callsite" : ""}` },
        this.place(location),
        text ? h("code", {}, short(text, 300)) : null,
      );
    };
    const hidden = path.length - users.length;
    const more = h(
      "button",
      {
        type: "button",
        class: "link",
        click: () => {
          this.isAllFrames = !this.isAllFrames;
          this.show(selection);
        },
      },
      this.isAllFrames ? "hide frames of libraries" : `show ${plural(hidden, "frame")} of libraries`,
    );
    const rows = inSteps(h("ol", { class: "traceback" }), [...shown].reverse(), row);
    return section("Call path", ...rows, hidden > 0 ? more : null);
  }

  private fused(locations: number[]): Child {
    const lines = new Map<string, number>();
    for (const location of locations) {
      const [file, , line] = this.model.location(location);
      if (!lines.has(`${file}:${line}`)) lines.set(`${file}:${line}`, location);
    }
    const row = (location: number): Node => {
      const [file, , line] = this.model.location(location);
      const text = this.model.text(file, line)?.trim();
      return h("li", {}, this.place(location), text ? h("code", {}, short(text, 300)) : null);
    };
    return lines.size ? section("Fused from", ...inSteps(h("ul", { class: "places" }), [...lines.values()], row)) : null;
  }

  private values(title: string, values: number[], isInput: boolean): Child {
    if (values.length === 0) return null;
    const row = (value: number): Node => {
      const [name, type, path] = this.model.data.values[value]!;
      const ends = isInput ? [this.model.producer[value]!].filter((node) => node >= 0) : this.model.readers(value);
      const links = ends.slice(0, MAX_ENDS).map((node) => this.nodeLink(node));
      const rest = ends.length - links.length;
      const label = isInput ? "from " : links.length ? "read by " : null;
      const isGraphInput = isInput && this.model.inputOf[value]! >= 0;
      return h(
        "li",
        {},
        h("div", { class: "value" }, h("span", { class: "name" }, path ?? name), h("span", { class: "type" }, type ?? "?")),
        isGraphInput ? h("span", { class: "dim" }, "an input of the graph") : null,
        links.length ? h("div", { class: "ends" }, label, ...joined(links), rest > 0 ? ` and ${thousands(rest)} more` : null) : null,
      );
    };
    return section(title, ...inSteps(h("ul", { class: "values" }), values, row));
  }

  private weights(values: number[]): Child {
    if (values.length === 0) return null;
    const row = (value: number): Node => {
      const [name, type, path] = this.model.data.values[value]!;
      const [, size] = this.model.data.weights[this.model.weightOf[value]!]!;
      const button = link(path?.split("\n").join(", ") ?? name, () => this.select({ kind: "weight", value }));
      const range = rangeOf(this.model.data.weights[this.model.weightOf[value]!]![4] ?? null);
      return h("li", {}, h("div", { class: "value" }, button, h("span", { class: "type" }, type ?? "?")), h("span", { class: "dim" }, range ? `${bytes(size)} · ${range}` : bytes(size)));
    };
    return section("Weights", ...inSteps(h("ul", { class: "values" }), values, row));
  }

  private weight(value: number): Child[] {
    const [name, type, path] = this.model.data.values[value]!;
    const [, size, origin, isExternal, summary] = this.model.data.weights[this.model.weightOf[value]!] ?? [0, 0, -1, 0];
    const facts: [string, Child][] = [["Type", type ?? "?"], ["Size", bytes(size)]];
    if (path) facts.push(["Path", path.split("\n").join(", ")]);
    if (isExternal) facts.push(["Stored", "in another file"]);
    const callsite = this.model.callsites(origin)[0];
    const isComputed = callsite !== undefined;
    return [
      heading(path?.split("\n")[0] ?? name, isComputed ? "a constant that the export computed" : "a weight"),
      isComputed ? this.sourceLine(callsite) : null,
      list(facts),
      summary ? contents(summary, type) : null,
      this.nodes("Read by", this.model.readers(value)),
    ];
  }

  private line(file: number, line: number): Child[] {
    const entry = this.model.line(file, line);
    const path = this.model.data.files[file]?.path;
    const text = this.model.text(file, line);
    const facts: [string, Child][] = [];
    if (entry?.function) facts.push(["Function", entry.function]);
    if (entry?.own.length) facts.push(["Operators", this.ops(entry.own)]);
    if (entry?.bytes) facts.push(["Weights", bytes(entry.bytes)]);
    if (entry?.share) facts.push(["Time", `${percent(entry.share)} of the time of all kernels`]);
    if (entry?.error !== null && entry?.error !== undefined) facts.push(["Error", this.errorText(file, line)]);
    if (entry && this.model.cost) facts.push(...costs(entry.operations, entry.moved, entry.held));
    if (entry?.loss) facts.push([`In ${this.model.data.sensitivity!.to}`, entry.loss.what]);
    const placed = entry?.placed;
    if (placed?.providers.length) facts.push(["Runs on", placed.providers.join(", ")]);
    if (placed?.copies.length) facts.push(["Copies", h("div", {}, ...inSteps(h("ul", { class: "values" }), placed.copies, (copy) => h("li", {}, copy)))]);
    if (placed?.advice) facts.push(["Help", placed.advice]);
    const change = entry?.change;
    if (change) {
      if (change.gained.length) facts.push(["Gained", h("span", { class: "plus" }, `+ ${listOps(change.gained)}`)]);
      if (change.lost.length) facts.push(["Lost", h("span", { class: "minus" }, `− ${listOps(change.lost)}`)]);
      const changed = inSteps(h("ul", { class: "values" }), change.changed, (node) => h("li", {}, `${node.op}: ${node.what}`));
      if (change.changed.length) facts.push(["Changed", h("div", {}, ...changed)]);
    }
    const count = entry?.own.length ?? 0;
    const calls = entry?.calls ?? 0;
    const what = count || !calls ? plural(count, "node") : `calls made ${plural(calls, "node")}`;
    const slash = path?.lastIndexOf("/") ?? -1;
    return [
      heading(path ? `${path.slice(slash + 1)}:${line}` : `line ${line}`, slash < 0 ? what : `${path!.slice(0, slash)} · ${what}`),
      text === null ? null : h("div", { class: "excerpt" }, h("pre", {}, h("code", {}, text.trim()))),
      list(facts),
      this.nodes("Nodes", entry?.own ?? []),
      this.nodes("Fused into nodes of other lines", entry?.fused ?? []),
      count === 0 && entry?.constants.length
        ? section("Folded into constants", ...inSteps(h("ul", { class: "values" }), entry.constants, (value) => h("li", {}, link(this.model.value(value), () => this.select({ kind: "weight", value })))))
        : null,
      calls > 0 ? this.nodes("Nodes of calls on this line", this.callsOn(file, line)) : null,
    ];
  }

  private errorText(file: number, line: number): string {
    const rows = this.model.data.compare?.lines.filter((row) => row.file === file && row.line === line) ?? [];
    return rows.slice(0, 20).map((row) => row.what).join("; ");
  }

  /** Returns the nodes that calls on a line made, without its own. */
  private callsOn(file: number, line: number): number[] {
    const own = new Set(this.model.line(file, line)?.own);
    return this.model.under(file, line).filter((node) => !own.has(node));
  }

  private ops(nodes: number[]): string {
    const text = countOps(nodes.slice(0, MAX_COUNTED).map((node) => this.model.op(node)));
    return nodes.length > MAX_COUNTED ? `${text}, in the first ${plural(MAX_COUNTED, "node")}` : text;
  }

  /** Describes an input or an output. */
  private end(value: number, side: "input" | "output"): Child[] {
    const [name, type, path] = this.model.data.values[value]!;
    const facts: [string, Child][] = [["Type", type ?? "?"]];
    if (path && path !== name) facts.push(["Path", path]);
    const ends = side === "input" ? this.model.readers(value) : [this.model.producer[value]!].filter((node) => node >= 0);
    return [heading(name, side), list(facts), this.nodes(side === "input" ? "Read by" : "Computed by", ends)];
  }

  private box(item: Item): Child[] {
    if (item.kind === "input" || item.kind === "output") return this.end(item.number, item.kind);
    if (item.side) return [heading(titleOf(item), sizeOf(item)), this.ends(item.values, item.side)];
    const lines = new Map<string, { location: number; count: number }>();
    let size = 0;
    for (const node of item.nodes.slice(0, MAX_COUNTED)) {
      const location = this.model.callsite(node);
      for (const value of this.model.node(node)[3]) {
        const weight = value < 0 ? -1 : this.model.weightOf[value]!;
        if (weight >= 0) size += this.model.data.weights[weight]![1];
      }
      if (location < 0) continue;
      const [file, , line] = this.model.location(location);
      const known = lines.get(`${file}:${line}`);
      if (known) known.count++;
      else lines.set(`${file}:${line}`, { location, count: 1 });
    }
    const top = [...lines.values()].sort((a, b) => b.count - a.count).slice(0, 12);
    const rows = top.map(({ location, count }) => h("li", {}, this.place(location), h("span", { class: "dim" }, ` ${plural(count, "node")}`)));
    const facts: [string, Child][] = item.nodes.length ? [["Operators", this.ops(item.nodes)]] : [];
    if (size) facts.push(["Weights", bytes(size)]);
    return [
      heading(titleOf(item), sizeOf(item)),
      list(facts),
      rows.length ? section("Lines", h("ul", { class: "places" }, ...rows)) : null,
      this.nodes("Nodes", item.nodes),
    ];
  }

  private overview(): Child[] {
    const { model, nodes, weights, graphs, profile, compare, sensitivity, against } = this.model.data;
    const main = graphs[0];
    const total = weights.reduce((sum, [, size]) => sum + size, 0);
    const placed = nodes.filter((_, number) => this.model.callsite(number) >= 0).length;
    const some = `${thousands(placed)} of ${plural(nodes.length, "node")} ${placed === 1 ? "is" : "are"}`;
    const linked = placed === nodes.length ? "all nodes are" : placed === 0 ? "no node is" : some;
    const ops = new Map<string, number>();
    for (const [, op] of nodes) ops.set(op, (ops.get(op) ?? 0) + 1);
    const top = [...ops].sort((a, b) => b[1] - a[1]).slice(0, 14);
    const facts: [string, Child][] = [
      ["Size", bytes(model.bytes)],
      ["Weights", weights.length ? `${bytes(total)} in ${plural(weights.length, "tensor")}` : "none"],
      ["Producer", `${short(model.producer)} ${short(model.producer_version)}`.trim() || "unknown"],
      ["Opset", opsets(model.opsets)],
      ["Provenance", `${model.provenance}; ${linked} linked to source`],
    ];
    if (profile) facts.push(["Profile", `${plural(profile.runs, "run")}, ${(profile.microseconds / 1000).toFixed(2)} ms each; ${percent(profile.known)} of the time has a line`]);
    if (profile?.placement) facts.push(["Placement", profile.placement.summary]);
    const { answer } = this;
    const said = (report: "compare" | "sensitivity", verdict: string): Child =>
      answer?.report === report && answer.selection ? link(answer.text, this.showAnswer) : verdict;
    if (compare) facts.push(["Compared", said("compare", compare.verdict)]);
    if (sensitivity) facts.push(["Precision", said("sensitivity", sensitivity.verdict)]);
    if (against) facts.push(["Against", `${against.name}: ${against.nodes_before} → ${against.nodes_after} nodes, ${plural(against.lines.length, "line")} changed`]);
    return [
      heading(model.name, plural(model.nodes ?? nodes.length, "node")),
      list(facts),
      this.ends(main?.inputs.filter((value) => this.model.weightOf[value]! < 0) ?? [], "input"),
      this.ends(main?.outputs ?? [], "output"),
      top.length > 0 && section("Operators", h("ul", { class: "chips" }, ...top.map(([op, count]) => h("li", {}, h("button", { type: "button", class: "chip", click: () => this.select({ kind: "op", op }) }, short(op), h("span", { class: "dim" }, ` ${thousands(count)}`)))))),
      model.notes.length ? section("Notes", ...inSteps(h("ul", {}), model.notes, (note) => h("li", {}, note))) : null,
      h("p", { class: "hint" }, "Click a line or a node. Press / to search and ? for help."),
    ];
  }

  /** Lists inputs or outputs. */
  private ends(values: number[], side: "input" | "output"): Child {
    if (values.length === 0) return null;
    const row = (value: number): Node => {
      const [name, type] = this.model.data.values[value]!;
      const button = link(short(name, 300), () => this.select({ kind: "end", side, value }));
      return h("li", {}, h("div", { class: "value" }, button, h("span", { class: "type" }, short(type ?? "?", 300))));
    };
    return section(side === "input" ? "Inputs" : "Outputs", ...inSteps(h("ul", { class: "values" }), values, row));
  }

  private nodes(title: string, nodes: readonly number[]): Child {
    if (nodes.length === 0) return null;
    const row = (node: number): Node => {
      const output = this.model.node(node)[4].find((value) => value >= 0);
      const type = output === undefined ? "" : this.model.type(output);
      return h("li", {}, h("div", { class: "value" }, this.nodeLink(node), h("span", { class: "type" }, short(type, 300))));
    };
    return section(title, ...inSteps(h("ul", { class: "values" }), nodes, row));
  }

  private nodeLink(node: number): HTMLElement {
    const button = link(short(this.model.op(node)), () => this.select({ kind: "node", node, item: null }));
    button.append(h("span", { class: "dim" }, ` ${short(this.model.name(node), 300)}`));
    button.addEventListener("pointerenter", () => this.hover([node]));
    button.addEventListener("pointerleave", () => this.hover([]));
    return button;
  }
}

const HOW: Record<string, string> = {
  name: "found by the name of the node, because its result was renamed",
  fused: "the node replaces nodes from all of these lines",
  neighbour: "a tool inserted this node; the lines are those of its neighbors",
  unknown: "nothing is known about this node",
};

/** Returns the opsets of a model: `21, com.example 1`. */
function opsets(rows: { domain: string; version: number }[]): string {
  const texts = rows.slice(0, 20).map(({ domain, version }) => (domain ? `${short(domain)} ${version}` : String(version)));
  const rest = rows.length - texts.length;
  return rest > 0 ? `${texts.join(", ")} and ${thousands(rest)} more` : texts.join(", ");
}

function heading(title: string, subtitle: string): HTMLElement {
  return h("header", {}, h("h2", {}, title), h("p", { class: "dim" }, subtitle));
}

function section(title: string, ...children: Child[]): HTMLElement {
  return h("section", {}, h("h3", {}, title), ...children);
}

function list(facts: [string, Child][]): Child {
  if (facts.length === 0) return null;
  return h("dl", {}, ...facts.flatMap(([key, value]) => [h("dt", {}, key), h("dd", {}, value)]));
}

function link(text: string, act: () => void): HTMLElement {
  return h("button", { type: "button", class: "link", click: act }, clean(text));
}

function joined(links: HTMLElement[]): Child[] {
  return links.flatMap((element, at) => (at === 0 ? [element] : [", ", element]));
}

/** Describes what a node or a line costs. */
function costs(operations: number, moved: number, held: number): [string, Child][] {
  const facts: [string, Child][] = [];
  if (operations) facts.push(["Operations", amount(operations)]);
  if (moved) facts.push(["Moves", bytes(moved)]);
  if (held) facts.push(["At the peak", `holds ${bytes(held)}`]);
  return facts;
}
