// Places boxes: each open box is laid out on its own, so only what is visible costs time.

import { arrange, type Ends, type Point } from "./arrange";
import { plural, short, thousands } from "./dom";
import type { Model } from "./model";
import type { Item, Tree } from "./tree";

export type { Point };

/** A box with its place in the whole picture. */
export interface Placed {
  item: Item;
  x: number;
  y: number;
  width: number;
  height: number;
  isOpen: boolean;
  depth: number;
}

/** A line between two boxes. */
export interface Edge {
  from: Item | null;
  to: Item | null;
  /** The values that it stands for. */
  values: number[];
  points: Point[];
  /** The shape of its value, where there is room for it. */
  label: Label | null;
}

/** A text at its lower left corner. */
export interface Label extends Point {
  text: string;
}

export interface Picture {
  width: number;
  height: number;
  placed: Map<Item, Placed>;
  edges: Edge[];
}

/** A box with its contents, relative to its corner. */
interface Box {
  width: number;
  height: number;
  children: { item: Item; box: Box; x: number; y: number }[];
  edges: Edge[];
}

const HEADER = 30;
const PADDING = 14;
const ROW = 17;
const TITLE = 28;
const MAX_WIDTH = 260;
/** The edges of one box with a text. */
const MAX_LABELS = 300;
/** The points of an edge beside which its text may be. */
const MAX_PLACES = 24;

interface Link extends Ends {
  values: Set<number>;
}

export class Layout {
  private readonly boxes = new Map<Item, Box>();
  private readonly links = new Map<Item, Link[]>();

  constructor(
    private readonly model: Model,
    private readonly tree: Tree,
    private readonly width: (text: string, isBold: boolean) => number,
  ) {}

  /** Forgets the places of a box and of those around it, after it was opened or closed. */
  forget(item: Item): void {
    for (let at: Item | null = item; at; at = at.parent) this.boxes.delete(at);
  }

  /** Lays out everything that is open. */
  picture(open: ReadonlySet<string>): Picture {
    const box = this.box(this.tree.root, open);
    const picture: Picture = { width: box.width, height: box.height, placed: new Map(), edges: [] };
    this.flatten(this.tree.root, box, 0, 0, 0, open, picture);
    return picture;
  }

  private flatten(
    item: Item, box: Box, x: number, y: number, depth: number, open: ReadonlySet<string>, into: Picture,
  ): void {
    const isOpen = box.children.length > 0 || open.has(item.id);
    into.placed.set(item, { item, x, y, width: box.width, height: box.height, isOpen, depth });
    for (const edge of box.edges) {
      const points = edge.points.map((point) => ({ x: point.x + x, y: point.y + y }));
      const label = edge.label && { ...edge.label, x: edge.label.x + x, y: edge.label.y + y };
      into.edges.push({ ...edge, points, label });
    }
    for (const child of box.children) {
      this.flatten(child.item, child.box, x + child.x, y + child.y, depth + 1, open, into);
    }
  }

  private box(item: Item, open: ReadonlySet<string>): Box {
    const known = this.boxes.get(item);
    if (known) return known;
    const isOpen = item === this.tree.root || (open.has(item.id) && this.tree.isContainer(item));
    const box = isOpen ? this.inside(item, open) : this.closed(item);
    this.boxes.set(item, box);
    return box;
  }

  private closed(item: Item): Box {
    const texts = this.rows(item);
    const title = this.width(titleOf(item), true) + (this.tree.isContainer(item) ? 44 : 24);
    const rows = texts.map((text) => this.width(text, false) + 20);
    const width = Math.min(MAX_WIDTH, Math.max(56, title, ...rows));
    return { width, height: TITLE + ROW * texts.length + (texts.length ? 5 : 0), children: [], edges: [] };
  }

  /** Returns the lines of text below the title of a box. */
  rows(item: Item): string[] {
    if (item.kind === "node") {
      const rows: string[] = [];
      for (const value of this.model.node(item.number)[3]) {
        if (value >= 0 && this.model.weightOf[value]! >= 0 && rows.length < 3) {
          const [name, type, path] = this.model.data.values[value]!;
          rows.push(`${last(path ?? name)} ${shape(type)}`);
        }
      }
      return rows;
    }
    if (item.kind === "input" || item.kind === "output") return [this.model.type(item.number)];
    return [sizeOf(item)];
  }

  private inside(item: Item, open: ReadonlySet<string>): Box {
    const children = this.tree.children(item);
    const boxes = children.map((child) => this.box(child, open));
    const links = this.linksIn(item, children);
    const isRoot = item === this.tree.root;
    const arranged = arrange(boxes, links);
    const title = this.width(titleOf(item), true) + 70;
    const inner = Math.max(arranged.width, isRoot ? 0 : title);
    const left = (isRoot ? 0 : PADDING) + (inner - arranged.width) / 2;
    const top = isRoot ? 0 : HEADER + PADDING / 2;
    const width = inner + (isRoot ? 0 : 2 * PADDING);
    const height = top + arranged.height + (isRoot ? 0 : PADDING);
    const placed = children.map((child, at) => {
      const { x, y } = arranged.centers[at]!;
      const box = boxes[at]!;
      return { item: child, box, x: left + x - box.width / 2, y: top + y - box.height / 2 };
    });
    const edges = links.map(({ from, to, values }, at): Edge => {
      const points = arranged.lines[at]!.map((point) => ({ x: point.x + left, y: point.y + top }));
      // An edge from outside begins at the upper border, and one to the outside ends at the lower one.
      if (from < 0 && points[0]) points[0] = { x: points[0].x, y: HEADER };
      if (to < 0 && points.length) points.push({ x: points.at(-1)!.x, y: height });
      return { from: children[from] ?? null, to: children[to] ?? null, values: [...values], points, label: null };
    });
    this.label(edges, placed, width);
    return { width, height, children: placed, edges };
  }

  /** Places the texts of edges where they cover neither a box, nor an edge, nor another text. */
  private label(edges: Edge[], placed: Box["children"], width: number): void {
    const taken: Rectangle[] = placed.map(({ x, y, box }) => [x, y, x + box.width, y + box.height]);
    const seen = new Map<Item | null, Set<string>>();
    const samples = edges.length <= MAX_LABELS ? edges.flatMap(({ points }) => samplesOf(points)) : [];
    let count = 0;
    for (const edge of edges) {
      const text = textOf(this.model, edge.values);
      const known = seen.get(edge.from) ?? new Set();
      // Edges from one box with the same text show it once, at the first edge.
      if (!text || known.has(text) || count >= MAX_LABELS || edge.points.length < 2) continue;
      const size = this.width(text, false);
      const [start, end] = [edge.points[0]!, edge.points.at(-1)!];
      const beside = (point: Point, gap: number): Point[] => [{ x: point.x + gap, y: point.y }, { x: point.x - gap - size, y: point.y }];
      const places = [
        ...beside({ x: start.x, y: start.y + 14 }, 5),
        ...beside({ x: end.x, y: end.y - 9 }, 7),
        ...samplesOf(edge.points).slice(0, MAX_PLACES).flatMap((point) => beside({ x: point.x, y: point.y + 4 }, 7)),
      ];
      const area = ({ x, y }: Point): Rectangle => [x - 2, y - 10, x + size + 2, y + 3];
      const isFree = (place: Point): boolean => {
        const own = area(place);
        return own[0] >= 0 && own[2] <= width && !taken.some((other) => overlaps(own, other));
      };
      const place = places.find((place) => isFree(place) && !crosses(area(place), samples));
      if (!place) continue;
      taken.push(area(place));
      edge.label = { ...place, text };
      seen.set(edge.from, known.add(text));
      count++;
    }
  }

  /** Returns which children read from which; -1 is the outside. */
  private linksIn(item: Item, children: Item[]): Link[] {
    const known = this.links.get(item);
    if (known) return known;
    const owner = new Map<number, number>();
    const inputs = new Map<number, number>();
    const outputs = new Map<number, number>();
    children.forEach((child, at) => {
      for (const value of child.values) (child.side === "input" ? inputs : outputs).set(value, at);
      // The bodies of one node read from around it and are not linked to each other.
      if (child.kind !== "graph") for (const node of child.nodes) owner.set(node, at);
    });
    const found = new Map<string, Link>();
    const add = (from: number, to: number, value: number): void => {
      if (from === to) return;
      const link = found.get(`${from} ${to}`);
      if (link) link.values.add(value);
      else found.set(`${from} ${to}`, { from, to, values: new Set([value]) });
    };
    const seen = new Set<number>();
    for (const [node, at] of owner) {
      for (const value of this.model.reads(node)) {
        if (value < 0 || this.model.weightOf[value]! >= 0) continue;
        const producer = this.model.producer[value]!;
        add(owner.get(producer) ?? inputs.get(value) ?? -1, at, value);
      }
      for (const value of this.model.node(node)[4]) {
        // A value that several nodes claim to compute is the result of the last one.
        if (value < 0 || this.model.producer[value] !== node || seen.has(value)) continue;
        seen.add(value);
        const output = outputs.get(value);
        if (output !== undefined) add(at, output, value);
        else if (item !== this.tree.root && this.model.readers(value).some((reader) => !owner.has(reader))) {
          add(at, -1, value);
        }
      }
    }
    for (const [value, at] of outputs) {
      const input = inputs.get(value);
      if (input !== undefined) add(input, at, value);
    }
    const isRoot = item === this.tree.root;
    const links = [...found.values()].filter(({ from, to }) => !isRoot || (from >= 0 && to >= 0));
    for (const link of links) link.port = `${link.values.values().next().value} ${link.values.size}`;
    this.links.set(item, links);
    return links;
  }
}

type Rectangle = [left: number, top: number, right: number, bottom: number];

function overlaps(a: Rectangle, b: Rectangle): boolean {
  return a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
}

function crosses(area: Rectangle, samples: Point[]): boolean {
  return samples.some(({ x, y }) => area[0] < x && x < area[2] && area[1] < y && y < area[3]);
}

/** Returns how far a line keeps its direction at both of its ends, which it leaves and enters vertically. */
export function bendOf(start: Point, end: Point): number {
  return Math.max(12, Math.abs(end.y - start.y) / 2);
}

/** Returns some points of a line. */
function samplesOf(points: Point[]): Point[] {
  return points.slice(1).flatMap((end, at) => {
    const start = points[at]!;
    const [dx, dy] = [end.x - start.x, end.y - start.y];
    const bend = bendOf(start, end);
    const count = Math.min(60, Math.ceil((Math.abs(dx) + Math.abs(dy)) / 8));
    return Array.from({ length: count }, (_, number) => {
      const part = (number + 0.5) / count;
      const rest = 1 - part;
      const across = part * part * (3 - 2 * part);
      return {
        x: start.x + dx * across,
        y: start.y + 3 * rest * rest * part * bend + 3 * rest * part * part * (dy - bend) + part ** 3 * dy,
      };
    });
  });
}

/** Returns the text of an edge: the shape of its value, or how many values it stands for. */
function textOf(model: Model, values: number[]): string {
  const text = values.length === 1 ? shape(model.type(values[0]!)) : `${thousands(values.length)} values`;
  return text === "?" || text.length > 25 ? "" : text;
}

/** Returns the title of a box. */
export function titleOf(item: Item): string {
  return short(item.label || "?");
}

/** Returns what a box contains, in words: `12 nodes`. */
export function sizeOf(item: Item): string {
  return plural(item.size, item.side ?? "node");
}

/** Returns the last part of a path. */
function last(path: string): string {
  const first = path.slice(0, 2000).split("\n")[0] ?? path;
  return first.split(/[./]/).at(-1) || first;
}

/** `f32[768,2304]` becomes `768×2304`. */
export function shape(type: string | null): string {
  const sizes = /\[(.*)\]$/.exec(short(type ?? ""))?.[1];
  if (sizes === undefined) return type ?? "";
  return sizes === "" ? "scalar" : sizes.split(",").join("×");
}
