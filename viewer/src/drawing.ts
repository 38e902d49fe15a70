// Draws what is in sight, and sets the classes of what is drawn.

import type { Colors } from "./colors";
import { s } from "./dom";
import { drawBox, drawEdge, outline } from "./draw";
import type { Edge, Layout, Picture, Placed } from "./layout";
import { type Marks, NO_MARKS } from "./marks";
import type { Window } from "./minimap";
import type { Model } from "./model";
import { contains, type Item, type Tree } from "./tree";

/** A picture of so many boxes is drawn as a whole; of a larger one, what is in sight. */
const MAX_DRAWN = 400;
/** The boxes and the edges in sight that are drawn one by one. */
export const MAX_BOXES_IN_SIGHT = 2500;
export const MAX_EDGES_IN_SIGHT = 1200;
/** If more boxes are in sight and too small to read, all boxes of one color are one shape. */
const MAX_BOXES_FROM_AFAR = 500;
/** The edges that are drawn from afar. */
export const MAX_EDGES_FROM_AFAR = 20_000;
/** Texts below the title are readable from here on. */
const READABLE = 0.5;
/** Titles are readable from here on. */
const LEAST_READABLE = 0.28;
/** Calls inside of calls are counted so deep. */
const MAX_CALLS = 500;

/** The numbers of boxes and edges that are in sight, and that are drawn. */
export interface Sight {
  boxes: number;
  edges: number;
  mostBoxes: number;
  mostEdges: number;
}

export class Drawing {
  readonly world = s("g", { class: "world", role: "none" });
  marks: Marks = NO_MARKS;
  hovered: Marks = NO_MARKS;
  selected: Item | null = null;
  private readonly edges = s("g", { class: "edges", "aria-hidden": "true" });
  private readonly boxes = s("g", { class: "boxes", role: "none" });
  private readonly afar = s("g", { class: "afar", "aria-hidden": "true" });
  private readonly items = s("g", { class: "items", role: "none" });
  private readonly drawn = new Map<Item, SVGElement>();
  private readonly drawnEdges = new Map<Edge, SVGElement>();
  private picture: Picture | null = null;
  private farPicture: Picture | null = null;

  constructor(
    private readonly model: Model,
    private readonly layout: Layout,
    private readonly tree: Tree,
    private readonly colors: Colors,
  ) {
    this.world.append(this.boxes, this.edges, this.afar, this.items);
  }

  /** Returns the element of a box, if it is drawn. */
  element(item: Item): SVGElement | null {
    return this.drawn.get(item) ?? null;
  }

  /** Removes everything, after the picture or the colors changed. */
  clear(): void {
    for (const group of [this.boxes, this.edges, this.afar, this.items]) group.replaceChildren();
    this.drawn.clear();
    this.drawnEdges.clear();
    this.farPicture = null;
  }

  /** Draws the part of a picture that is in sight. */
  draw(picture: Picture, at: Window, zoom: number): Sight {
    this.picture = picture;
    const isSmall = picture.placed.size <= MAX_DRAWN;
    const isFar = zoom < LEAST_READABLE && picture.placed.size > MAX_BOXES_FROM_AFAR;
    this.world.classList.toggle("is-far", zoom < READABLE);
    this.world.classList.toggle("is-very-far", zoom < LEAST_READABLE);
    this.drawAfar(isFar ? picture : null);
    const [marginX, marginY] = [at.width / 3, at.height / 3];
    const [left, top, right, bottom] = [at.x - marginX, at.y - marginY, at.x + at.width + marginX, at.y + at.height + marginY];
    const isInSight = (x: number, y: number, endX: number, endY: number): boolean =>
      isSmall || (endX >= left && x <= right && endY >= top && y <= bottom);
    let boxes = 0;
    const fresh: [SVGElement[], SVGElement[]] = [[], []];
    for (const placed of picture.placed.values()) {
      if (placed.depth === 0) continue;
      const { item } = placed;
      const isWanted =
        (!isFar && isInSight(placed.x, placed.y, placed.x + placed.width, placed.y + placed.height) && boxes++ < MAX_BOXES_IN_SIGHT) ||
        (item.kind === "node" && (this.marks.own.has(item.number) || this.marks.fused.has(item.number))) ||
        item === this.selected;
      const known = this.drawn.get(item);
      if (isWanted && !known) {
        const element = drawBox(this.model, this.layout, placed, this.tree.isContainer(item), this.colors.of(item));
        fresh[placed.isOpen ? 0 : 1].push(element);
        this.drawn.set(item, element);
      } else if (!isWanted && known) {
        known.remove();
        this.drawn.delete(item);
      }
    }
    this.boxes.append(...fresh[0]);
    this.items.append(...fresh[1]);
    const edges = this.drawEdges(picture, isFar, isInSight);
    this.paint();
    if (!isFar) return { boxes, edges, mostBoxes: MAX_BOXES_IN_SIGHT, mostEdges: MAX_EDGES_IN_SIGHT };
    return { boxes: 0, edges: picture.edges.length, mostBoxes: 1, mostEdges: MAX_EDGES_FROM_AFAR };
  }

  /** Draws a whole picture, with all texts. */
  drawAll(picture: Picture): void {
    for (const placed of picture.placed.values()) {
      if (placed.depth === 0) continue;
      const box = drawBox(this.model, this.layout, placed, this.tree.isContainer(placed.item), this.colors.of(placed.item));
      (placed.isOpen ? this.boxes : this.items).append(box);
    }
    this.edges.append(...picture.edges.map(drawEdge));
  }

  private drawEdges(picture: Picture, isFar: boolean, isInSight: (...area: [number, number, number, number]) => boolean): number {
    let edges = 0;
    const fresh: SVGElement[] = [];
    for (const edge of picture.edges) {
      const isNear = this.isNear(edge);
      const isWanted = isFar ? isNear : isInSight(...boundsOf(edge)) && (edges++ < MAX_EDGES_IN_SIGHT || isNear);
      const known = this.drawnEdges.get(edge);
      if (isWanted && !known) {
        const element = drawEdge(edge);
        fresh.push(element);
        this.drawnEdges.set(edge, element);
      } else if (!isWanted && known) {
        known.remove();
        this.drawnEdges.delete(edge);
      }
    }
    this.edges.append(...fresh);
    return edges;
  }

  /** Draws all boxes of one color as one shape, and all edges as one line. */
  private drawAfar(picture: Picture | null): void {
    if (this.farPicture === picture) return;
    this.farPicture = picture;
    this.afar.replaceChildren();
    if (!picture) return;
    // Open boxes are below the edges, from the outermost to the innermost.
    const open: string[][] = [];
    const closed = new Map<string, string[]>();
    for (const placed of picture.placed.values()) {
      if (placed.depth === 0) continue;
      const name = this.colors.of(placed.item) || placed.item.kind;
      const list = placed.isOpen ? (open[placed.depth] ??= []) : (closed.get(name) ?? []);
      list.push(outline(placed));
      if (!placed.isOpen) closed.set(name, list);
    }
    const lines = picture.edges.slice(0, MAX_EDGES_FROM_AFAR).map(({ points }) => {
      const [first, last] = [points[0]!, points.at(-1)!];
      return `M${Math.round(first.x)} ${Math.round(first.y)}L${Math.round(last.x)} ${Math.round(last.y)}`;
    });
    const shape = (name: string, parts: string[]): SVGElement => s("path", { class: `far ${name}`, d: parts.join("") });
    this.afar.append(
      ...open.filter(Boolean).map((parts) => shape("is-open", parts)),
      shape("edge-line", lines),
      ...[...closed].map(([name, parts]) => shape(name, parts)),
    );
  }

  private isNear(edge: Edge): boolean {
    return this.selected !== null && (edge.from === this.selected || edge.to === this.selected);
  }

  /** Returns the closed box next to a place of the picture, or if there is none nearby, the innermost open one. */
  itemAt(x: number, y: number, nearby: number): Item | null {
    let around: Placed | null = null;
    let nearest: Placed | null = null;
    let least = nearby;
    for (const placed of this.picture?.placed.values() ?? []) {
      const dx = Math.max(placed.x - x, 0, x - placed.x - placed.width);
      const dy = Math.max(placed.y - y, 0, y - placed.y - placed.height);
      const distance = Math.hypot(dx, dy);
      if (placed.isOpen && distance === 0 && placed.depth > (around?.depth ?? 0)) around = placed;
      if (!placed.isOpen && distance < least) [least, nearest] = [distance, placed];
    }
    return (nearest ?? around)?.item ?? null;
  }

  /** Counts the nodes of a box that are in a set, with those in bodies. */
  private count(item: Item, set: ReadonlySet<number>): number {
    if (set.size === 0) return 0;
    let sum = 0;
    if (set.size < item.nodes.length) for (const node of set) sum += contains(item.nodes, node) ? 1 : 0;
    else for (const node of item.nodes) sum += set.has(node) ? 1 : 0;
    if (this.model.bodies.size === 0) return sum;
    const graphs = this.countInGraphs(set);
    for (const node of item.nodes) {
      for (const body of this.model.bodies.get(node) ?? []) sum += graphs(body);
    }
    return sum;
  }

  private readonly counted = new WeakMap<ReadonlySet<number>, Map<number, number>>();

  /** Counts the nodes of graphs that are in a set, with those in bodies. A function that calls itself counts once. */
  private countInGraphs(set: ReadonlySet<number>): (graph: number) => number {
    let known = this.counted.get(set);
    if (!known) {
      known = new Map();
      this.counted.set(set, known);
      const own = new Map<number, number>();
      for (const node of set) {
        const graph = this.model.data.nodes[node]?.[2] ?? -1;
        own.set(graph, (own.get(graph) ?? 0) + 1);
      }
      const counts = known;
      const ofGraph = (graph: number, depth: number): number => {
        const found = counts.get(graph);
        if (found !== undefined) return found;
        let sum = own.get(graph) ?? 0;
        counts.set(graph, sum);
        if (depth < MAX_CALLS) {
          for (const node of this.model.withBodies.get(graph) ?? []) {
            for (const body of this.model.bodies.get(node) ?? []) sum += ofGraph(body, depth + 1);
          }
        }
        counts.set(graph, sum);
        return sum;
      };
      this.model.data.graphs.forEach((_, graph) => ofGraph(graph, 0));
    }
    const counts = known;
    return (graph) => counts.get(graph) ?? 0;
  }

  /** Sets the classes of all boxes that are drawn. */
  paint(): void {
    const { marks, hovered } = this;
    for (const [item, element] of this.drawn) {
      const isOpen = element.classList.contains("is-open");
      const has = (set: ReadonlySet<number>): boolean =>
        set.size > 0 && (item.kind === "node" && (isOpen || set.has(item.number)) ? set.has(item.number) : !isOpen && this.count(item, set) > 0);
      const isOwn = has(marks.own);
      const isFused = !isOwn && has(marks.fused);
      const isHovered = !isOwn && !isFused && (has(hovered.own) || has(hovered.fused));
      element.classList.toggle("is-linked", isOwn || isFused);
      element.classList.toggle("is-fused", isFused);
      element.classList.toggle("is-under", !isOwn && !isFused && has(marks.under));
      element.classList.toggle("is-hovered", isHovered);
      element.classList.toggle("is-selected", item === this.selected);
      element.setAttribute("tabindex", item === this.selected ? "0" : "-1");
      if (item.kind !== "node" && item.kind !== "input" && item.kind !== "output" && !isOpen) this.badge(item, element);
    }
    for (const [edge, element] of this.drawnEdges) element.classList.toggle("is-near", this.isNear(edge));
  }

  /** Shows how many linked nodes a closed box contains. */
  private badge(item: Item, element: SVGElement): void {
    const known = element.querySelector(".badge");
    const count = this.count(item, this.marks.own) + this.count(item, this.marks.fused);
    if (count === 0) return known?.remove();
    const text = String(count);
    if (known?.textContent === text) return;
    known?.remove();
    const width = 10 + 7 * text.length;
    element.append(
      s(
        "g",
        { class: "badge", transform: "translate(-6 -8)" },
        s("rect", { width, height: 17, rx: 8.5 }),
        s("text", { x: width / 2, y: 12.5, "text-anchor": "middle" }, text),
      ),
    );
  }
}

function boundsOf({ points }: Edge): [number, number, number, number] {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y } of points) {
    if (x < left) left = x;
    if (x > right) right = x;
    if (y < top) top = y;
    if (y > bottom) bottom = y;
  }
  return [left, top, right, bottom];
}
