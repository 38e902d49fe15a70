// The hierarchy that the graph pane shows: graphs, modules, loops, functions, and sections of what is left.

import { short } from "./dom";
import type { Model } from "./model";

export type Kind = "graph" | "group" | "section" | "node" | "input" | "output";

/** Something that the graph pane shows as one box. */
export interface Item {
  /** Its place in the hierarchy, the same in every page of the model. */
  id: string;
  kind: Kind;
  label: string;
  /** The number of a node, or of the value of an input or an output. */
  number: number;
  /** The graph whose nodes it contains. */
  graph: number;
  parent: Item | null;
  /** The nodes of its graph that it contains, in order. */
  nodes: number[];
  /** The nodes that it contains, with those in bodies; of a section of inputs or outputs, how many there are. */
  size: number;
  /** The side of the graph that an input, an output, or a section of them is on. */
  side: "input" | "output" | null;
  /** The values of an input, of an output, or of a section of them. */
  values: number[];
  /** True for a group of nodes that compute from constants alone. */
  isConstant?: boolean;
}

/** A box with more children is divided into sections. */
const MAX_CHILDREN = 120;
const SECTION = 80;
/** A path of names is followed so far: a hostile name may have thousands of parts. */
const MAX_PARTS = 32;
/** A longer name is cut in an id, because an address contains the ids of the boxes that are open. */
const MAX_NAME = 80;
/** Dividing groups stops after so many steps, because a hostile model may interleave thousands of them. */
const MAX_STEPS = 5_000_000;
/** Deeper boxes are not offered: a hostile function may call itself. */
const MAX_DEPTH = 60;

export class Tree {
  readonly root: Item;
  private readonly known = new Map<Item, Item[]>();
  private readonly sizes = new Map<number, number>();
  private readonly items = new Map<string, Item>();

  constructor(private readonly model: Model) {
    this.root = this.graphItem(0, "main", null, "g0");
  }

  /** True if a box can be opened. */
  isContainer(item: Item): boolean {
    if (item.kind === "input" || item.kind === "output") return false;
    return item.kind !== "node" || (this.model.bodies.has(item.number) && depth(item) < MAX_DEPTH);
  }

  children(item: Item): Item[] {
    let known = this.known.get(item);
    if (!known) {
      known = this.divide(item);
      for (const child of known) this.items.set(child.id, child);
      this.known.set(item, known);
    }
    return known;
  }

  /** Returns the box with an id, and creates those around it. */
  find(id: string): Item | null {
    if (id === this.root.id) return this.root;
    const known = this.items.get(id);
    if (known) return known;
    let at: Item = this.root;
    for (;;) {
      const next: Item | undefined = this.isContainer(at)
        ? this.children(at).find((child) => id === child.id || id.startsWith(`${child.id}|`))
        : undefined;
      if (!next || next.id === id) return next ?? null;
      at = next;
    }
  }

  /** Returns the first box of a node, and creates those around it. */
  itemOf(number: number): Item {
    let at = this.container(this.model.node(number)[2]);
    for (let steps = 0; steps < 1000; steps++) {
      const next = this.children(at).find((child) =>
        child.kind === "node" ? child.number === number : contains(child.nodes, number),
      );
      if (!next) return at;
      if (next.kind === "node") return next;
      at = next;
    }
    return at;
  }

  /** Returns the box of an input or an output of the main graph, and creates those around it. */
  endOf(value: number, side: "input" | "output"): Item | null {
    let at = this.root;
    for (let steps = 0; steps < MAX_DEPTH; steps++) {
      const next = this.children(at).find((child) => child.side === side && child.values.includes(value));
      if (!next) return null;
      if (next.kind !== "section") return next;
      at = next;
    }
    return null;
  }

  /** Returns the boxes around a box, outermost first. */
  around(item: Item): Item[] {
    const path: Item[] = [];
    for (let at = item.parent; at; at = at.parent) path.unshift(at);
    return path;
  }

  /** Returns the box that shows a graph: the main one, or the body of its first caller. */
  private container(graph: number, calls = 0): Item {
    const row = this.model.data.graphs[graph];
    if (graph === 0 || !row || calls > MAX_DEPTH) return this.root;
    let owner = row.node ?? -1;
    if (row.kind === "function") {
      owner = this.model.callers.get(graph) ?? -1;
    }
    if (owner < 0) return this.root;
    let around = this.container(this.model.node(owner)[2], calls + 1);
    for (let steps = 0; steps < 1000; steps++) {
      const next = this.children(around).find((child) =>
        child.kind === "node" ? child.number === owner : contains(child.nodes, owner),
      );
      if (!next) return this.root;
      around = next;
      if (next.kind === "node") break;
    }
    return this.bodyIn(around, graph) ?? around;
  }

  /** Returns the box of a body, which may be inside of sections. */
  private bodyIn(around: Item, graph: number): Item | null {
    for (const child of this.children(around)) {
      if (child.kind === "graph" && child.graph === graph) return child;
      const inside = child.kind === "section" ? this.sectionItems.get(child) : undefined;
      if (inside?.some((item) => item.kind === "graph" && item.graph === graph)) return this.bodyIn(child, graph);
    }
    return null;
  }

  private graphItem(graph: number, label: string, parent: Item | null, id: string): Item {
    const { first, count } = this.model.data.graphs[graph]!;
    const nodes = Array.from({ length: count }, (_, at) => first + at);
    return { id, kind: "graph", label, number: -1, graph, parent, nodes, size: this.sizeOf(graph), side: null, values: [] };
  }

  /** Counts the nodes of a graph, with those in bodies; a function counts at each call. */
  private sizeOf(graph: number, calls = 0): number {
    const known = this.sizes.get(graph);
    if (known !== undefined) return known;
    const { first, count } = this.model.data.graphs[graph]!;
    let size = count;
    // A function that calls itself counts once.
    this.sizes.set(graph, count);
    if (calls < MAX_DEPTH) {
      for (let node = first; node < first + count; node++) {
        for (const body of this.model.bodies.get(node) ?? []) size += this.sizeOf(body, calls + 1);
      }
    }
    this.sizes.set(graph, size);
    return size;
  }

  private divide(item: Item): Item[] {
    if (item.kind === "node") return this.bodies(item);
    if (item.kind === "graph") {
      const { inputs, outputs } = this.model.data.graphs[item.graph]!;
      const ends = (kind: "input" | "output", values: number[]): Item[] => {
        const shown = [...new Set(values)].filter((value) => kind === "output" || this.model.weightOf[value]! < 0);
        const list = shown.map((value): Item => ({
          id: `${item.id}|${kind === "input" ? "i" : "o"}${value}`,
          kind,
          label: this.model.value(value),
          number: value,
          graph: item.graph,
          parent: item,
          nodes: [],
          size: 1,
          side: kind,
          values: [value],
        }));
        return this.sections(item, list);
      };
      const inner = this.sections(item, this.grouped(item, this.prefix(item)));
      return [...ends("input", inputs), ...inner, ...ends("output", outputs)];
    }
    if (item.kind === "section") return this.sections(item, this.sectionItems.get(item) ?? []);
    return this.sections(item, this.grouped(item, this.depths.get(item) ?? 0));
  }

  private bodies(item: Item): Item[] {
    const graphs = this.model.bodies.get(item.number) ?? [];
    const only = graphs.length === 1 ? graphs[0] : undefined;
    if (only !== undefined) {
      // One body needs no box of its own.
      const body = this.graphItem(only, item.label, item, item.id);
      const children = this.divide(body);
      for (const child of children) child.parent = item;
      return children;
    }
    const items = graphs.map((graph, at) => {
      const label = this.model.data.graphs[graph]!.attribute ?? this.model.data.graphs[graph]!.name;
      return this.graphItem(graph, label, item, `${item.id}|b${at}`);
    });
    return this.sections(item, items);
  }

  private readonly scopes = new Map<number, string[]>();

  /** Returns the names around a node: modules and scopes, or the parts of its name. */
  private scope(number: number): string[] {
    let path = this.scopes.get(number);
    if (!path) {
      path = this.model.scopeOf(number);
      if (path.length === 0) {
        const name = this.model.name(number);
        path = name.includes("/") ? name.split("/", MAX_PARTS + 1).filter(Boolean).slice(0, -1) : [];
      }
      path = path.slice(0, MAX_PARTS);
      this.scopes.set(number, path);
    }
    return path;
  }

  /** Returns how many names all nodes of a graph have in common. */
  private prefix(item: Item): number {
    const first = item.nodes[0];
    if (first === undefined) return 0;
    const path = this.scope(first);
    let common = path.length;
    for (const number of item.nodes) {
      const other = this.scope(number);
      let same = 0;
      while (same < common && other[same] === path[same]) same++;
      common = same;
      if (common === 0) break;
    }
    return common;
  }

  private readonly depths = new Map<Item, number>();

  /** Groups the nodes of a box by the next name around them. */
  private grouped(item: Item, skip: number): Item[] {
    const groups = new Map<string, Item>();
    const children: Item[] = [];
    const constants = item.isConstant ? null : this.constants(item, skip);
    for (const number of item.nodes) {
      const constant = constants?.get(number);
      if (constant) {
        if (constant.nodes.length === 0) children.push(constant);
        constant.nodes.push(number);
        constant.size++;
        continue;
      }
      const name = this.scope(number)[skip];
      if (name === undefined) {
        children.push(this.nodeItem(number, item));
        continue;
      }
      let group = groups.get(name);
      if (!group) {
        const part = name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}~${number}` : name;
        const id = `${item.id}|${part.replaceAll("|", "/")}`;
        group = { id, kind: "group", label: name, number: -1, graph: item.graph, parent: item, nodes: [], size: 0, side: null, values: [] };
        groups.set(name, group);
        children.push(group);
        this.depths.set(group, skip + 1);
      }
      group.nodes.push(number);
      group.size += this.nodeSize(number);
    }
    return children.flatMap((child) => (child.isConstant ? child : this.parts(child))).map((child) => {
      if (child.kind !== "group" || child.isConstant) return child;
      if (child.nodes.length === 1) return this.nodeItem(child.nodes[0]!, item);
      // A module that only contains another one is shown with it.
      const inner = this.prefix(child);
      const depth = this.depths.get(child) ?? 0;
      if (inner > depth) {
        child.label = this.scope(child.nodes[0]!).slice(skip, inner).join(".");
        this.depths.set(child, inner);
      }
      return child;
    });
  }

  /** Returns the group of each node that belongs to several linked nodes which compute from constants alone. */
  private constants(item: Item, skip: number): Map<number, Item> | null {
    const nodes = item.nodes.filter((number) => this.model.isConstant(number));
    if (nodes.length < 2) return null;
    // Nodes are linked to the first node of their group.
    const first = new Map(nodes.map((number) => [number, number]));
    const root = (number: number): number => {
      let at = number;
      while (first.get(at) !== at) {
        first.set(at, first.get(first.get(at)!)!);
        at = first.get(at)!;
      }
      return at;
    };
    for (const number of nodes) {
      for (const value of this.model.node(number)[3]) {
        const producer = value < 0 ? -1 : this.model.producer[value]!;
        if (!first.has(producer)) continue;
        const [a, b] = [root(producer), root(number)];
        first.set(Math.max(a, b), Math.min(a, b));
      }
    }
    const found = new Map<number, number[]>();
    for (const number of nodes) {
      const list = found.get(root(number));
      if (list) list.push(number);
      else found.set(root(number), [number]);
    }
    const groups = new Map<number, Item>();
    for (const [start, list] of found) {
      const name = this.scope(start)[skip];
      const isInside = name !== undefined && list.every((number) => this.scope(number)[skip] === name);
      // A box with nothing else, and a group inside of another box, need no box here.
      if (list.length < 2 || isInside || list.length === item.nodes.length) continue;
      const group: Item = {
        id: `${item.id}|=${start}`, kind: "group", label: "constant", number: -1, graph: item.graph, parent: item,
        nodes: [], size: 0, side: null, values: [], isConstant: true,
      };
      this.depths.set(group, skip);
      for (const number of list) groups.set(number, group);
    }
    return groups;
  }

  /** Divides a group whose nodes are needed between its own nodes: each part can be placed on its own. */
  private parts(group: Item): Item[] {
    const { nodes } = group;
    const [first, last] = [nodes[0]!, nodes.at(-1)!];
    const span = last - first + 1;
    if (group.kind !== "group" || span === nodes.length || this.steps > MAX_STEPS) return [group];
    this.steps += span;
    // For each node, how often a path from the group to it has left and entered the group again.
    const rounds = new Int32Array(span).fill(-1);
    const inside = new Set(nodes);
    const parts = new Map<number, number[]>();
    for (let number = first; number <= last; number++) {
      const isInside = inside.has(number);
      let round = isInside ? 0 : -1;
      const reads = this.model.reads(number);
      this.steps += reads.length;
      for (const value of reads) {
        const producer = value < 0 ? -1 : this.model.producer[value]!;
        if (producer < first || producer >= number) continue;
        const before = rounds[producer - first]!;
        if (before < 0) continue;
        round = Math.max(round, isInside && !inside.has(producer) ? before + 1 : before);
      }
      rounds[number - first] = round;
      if (!isInside) continue;
      const part = parts.get(round);
      if (part) part.push(number);
      else parts.set(round, [number]);
    }
    if (parts.size === 1) return [group];
    return [...parts].sort(([a], [b]) => a - b).map(([round, list]) => {
      const part = { ...group, id: round === 0 ? group.id : `${group.id}~${round}`, nodes: list };
      part.size = list.reduce((sum, number) => sum + this.nodeSize(number), 0);
      this.depths.set(part, this.depths.get(group) ?? 0);
      return part;
    });
  }

  private steps = 0;

  private nodeSize(number: number): number {
    let size = 1;
    for (const body of this.model.bodies.get(number) ?? []) size += this.sizeOf(body);
    return size;
  }

  private nodeItem(number: number, parent: Item): Item {
    const id = `${parent.id}|n${number}`;
    const graph = this.model.node(number)[2];
    const size = this.nodeSize(number);
    return { id, kind: "node", label: this.model.op(number), number, graph, parent, nodes: [number], size, side: null, values: [] };
  }

  private readonly sectionItems = new Map<Item, Item[]>();
  /** The number of children of the same kind before those of a section. */
  private readonly offsets = new Map<Item, number>();

  /** Divides many children into sections, in their order. */
  private sections(parent: Item, children: Item[]): Item[] {
    if (children.length <= MAX_CHILDREN) {
      for (const child of children) child.parent = parent;
      return children;
    }
    let length = SECTION;
    while (Math.ceil(children.length / length) > MAX_CHILDREN) length *= SECTION;
    const sections: Item[] = [];
    const before = this.offsets.get(parent) ?? 0;
    for (let at = 0; at < children.length; at += length) {
      const part = children.slice(at, at + length);
      const nodes = part.flatMap((child) => child.nodes).sort((a, b) => a - b);
      const { side } = part[0]!;
      const section: Item = {
        id: `${parent.id}|${side?.[0] ?? ""}s${length}.${at}`,
        kind: "section",
        label: sectionLabel(part, before + at),
        number: -1,
        graph: parent.graph,
        parent,
        nodes,
        size: part.reduce((sum, child) => sum + child.size, 0),
        side,
        values: part.flatMap((child) => child.values),
      };
      this.sectionItems.set(section, part);
      this.offsets.set(section, before + at);
      sections.push(section);
    }
    return sections;
  }
}

/** Returns the first and the last name of a section, or the numbers of what has no names. */
function sectionLabel(part: Item[], at: number): string {
  const [first, last] = [part[0]!, part.at(-1)!];
  const isNamed = (item: Item): boolean => item.kind === "group" && !item.isConstant;
  if (isNamed(first) && isNamed(last)) return `${short(first.label)} – ${short(last.label)}`;
  if (first.kind === "section" && last.kind === "section") return `${first.label.split(" – ")[0]} – ${last.label.split(" – ").at(-1)}`;
  const noun = first.side ? `${first.side}s` : first.kind === "graph" ? "bodies" : "nodes";
  return `${noun} ${at + 1} – ${at + part.length}`;
}

function depth(item: Item): number {
  let count = 0;
  for (let at = item.parent; at; at = at.parent) count++;
  return count;
}

/** True if a sorted list contains a number. */
export function contains(list: number[], number: number): boolean {
  let low = 0;
  let high = list.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const found = list[middle]!;
    if (found === number) return true;
    if (found < number) low = middle + 1;
    else high = middle - 1;
  }
  return false;
}
