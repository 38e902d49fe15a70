// The graph pane: what is open is laid out, what is in sight is drawn.

import { h, plural, s } from "./dom";
import { drawBox, drawEdge, textWidth } from "./draw";
import { type Edge, Layout, type Picture, type Placed } from "./layout";
import { type Marks, NO_MARKS } from "./marks";
import { Minimap, type Window } from "./minimap";
import type { Model } from "./model";
import { contains, type Item, Tree } from "./tree";

/** The boxes that a page opens with fit on a screen. */
const FIRST_BOXES = 48;
/** Opening the boxes around linked nodes stops here. */
const MAX_REVEALED = 500;
/** Text is readable from here on. */
const LEAST_READABLE = 0.75;
/** A picture of so many boxes is drawn as a whole; of a larger one, what is in sight. */
const MAX_DRAWN = 400;
/** The boxes and the edges in sight that are drawn. */
const MAX_BOXES_IN_SIGHT = 2500;
const MAX_EDGES_IN_SIGHT = 1200;
/** Calls inside of calls are counted so deep. */
const MAX_CALLS = 500;
const MIN_ZOOM = 0.02;
const MAX_ZOOM = 2.5;

export interface GraphEvents {
  select(item: Item): void;
  hover(item: Item | null, event: PointerEvent | null): void;
  clear(): void;
  /** Something of the hash changed: what is open, or which part is visible. */
  moved(): void;
  /** Says what is in sight and not drawn; an empty text if everything is drawn. */
  leftOut(text: string): void;
}

export class GraphPane {
  readonly tree: Tree;
  readonly open = new Set<string>();
  readonly svg: SVGElement;
  /** Scrolls the picture. */
  private readonly viewport: HTMLElement;
  private readonly layout: Layout;
  private readonly world = s("g", { class: "world" });
  private readonly edges = s("g", { class: "edges", "aria-hidden": "true" });
  private readonly boxes = s("g", { class: "boxes" });
  private readonly items = s("g", { class: "items" });
  private readonly drawn = new Map<Item, SVGElement>();
  private readonly drawnEdges = new Map<Edge, SVGElement>();
  private readonly minimap: Minimap;
  private picture: Picture;
  private marks: Marks = NO_MARKS;
  private hovered: Marks = NO_MARKS;
  private selected: Item | null = null;
  private x = 0;
  private y = 0;
  private zoom = 1;
  private frame = 0;

  constructor(
    private readonly model: Model,
    readonly element: HTMLElement,
    private readonly events: GraphEvents,
  ) {
    this.tree = new Tree(model);
    this.layout = new Layout(model, this.tree, textWidth);
    this.world.append(this.boxes, this.edges, this.items);
    const arrow = s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path", { d: "M0 1L7 4L0 7Z" }));
    for (const group of [this.world, this.boxes, this.items]) group.setAttribute("role", "none");
    this.svg = s("svg", { class: "graph", role: "tree", "aria-label": "Graph of the model", tabindex: 0 }, s("defs", {}, arrow), this.world);
    const map = h("canvas", { class: "minimap", "aria-hidden": "true" }) as HTMLCanvasElement;
    this.viewport = h("div", { class: "viewport" }, this.svg);
    element.append(this.viewport, map);
    if (this.tree.children(this.tree.root).length === 0) element.append(h("p", { class: "empty" }, "This model has no nodes, no inputs and no outputs."));
    this.minimap = new Minimap(map, (x, y) => this.center(x, y));
    this.openLevels();
    this.picture = this.layout.picture(this.open);
    this.findLabelled();
    this.listen();
    new ResizeObserver(() => this.place()).observe(this.viewport);
  }

  /** Opens whole levels of the hierarchy while the boxes fit. */
  private openLevels(): void {
    let level = [this.tree.root];
    let boxes = 0;
    for (;;) {
      const children = level.flatMap((item) => this.tree.children(item));
      boxes += children.length;
      if (level[0] !== this.tree.root && boxes > FIRST_BOXES) return;
      for (const item of level) this.open.add(item.id);
      level = children.filter((item) => this.tree.isContainer(item));
      if (level.length === 0 || boxes > FIRST_BOXES) return;
    }
  }

  /** Shows the whole picture, or its beginning if that would be too small. */
  fit(): void {
    const { width, height } = this.size();
    const whole = Math.min((width - 48) / this.picture.width, (height - 48) / this.picture.height);
    this.zoom = Math.min(1.1, Math.max(LEAST_READABLE, whole));
    this.x = (width - this.picture.width * this.zoom) / 2;
    this.y = whole < LEAST_READABLE ? 24 : Math.max(24, (height - this.picture.height * this.zoom) / 2);
    this.place();
    this.events.moved();
  }

  /** Returns the part that is visible, for the hash. */
  position(): [number, number, number] {
    return [Math.round(this.x), Math.round(this.y), Math.round(this.zoom * 1000) / 1000];
  }

  setPosition([x, y, zoom]: [number, number, number]): void {
    [this.x, this.y] = [x, y];
    this.zoom = Math.min(MAX_ZOOM, Math.max(MIN_ZOOM, zoom));
    this.place();
  }

  /** Opens exactly these boxes. */
  setOpen(ids: Iterable<string>): void {
    const before = new Set(this.open);
    this.open.clear();
    for (const id of [this.tree.root.id, ...ids]) this.open.add(id);
    for (const id of new Set([...before, ...this.open])) {
      const item = this.tree.find(id);
      if (item && before.has(id) !== this.open.has(id)) this.layout.forget(item);
    }
    this.arrange();
  }

  /** Opens or closes a box, which keeps its place on the screen. */
  toggle(item: Item): void {
    if (!this.tree.isContainer(item) || item === this.tree.root) return;
    const before = this.picture.placed.get(item);
    if (!this.open.delete(item.id)) {
      this.open.add(item.id);
      // The branches of an `If` are what one wants to see.
      if (item.kind === "node") {
        for (const child of this.tree.children(item)) if (child.kind === "graph") this.open.add(child.id);
      }
    }
    this.layout.forget(item);
    this.arrange();
    const after = this.picture.placed.get(item);
    if (before && after) {
      const middle = (placed: Placed): number => placed.x + placed.width / 2;
      this.x += (middle(before) - middle(after)) * this.zoom;
      this.y += (before.y - after.y) * this.zoom;
    }
    this.place();
    this.events.moved();
  }

  isOpen(item: Item): boolean {
    return this.open.has(item.id);
  }

  /** Highlights nodes, opens the boxes around them while they fit, and brings them into sight. */
  setMarks(marks: Marks, options: { reveal: boolean; focus?: Item | null }): void {
    this.marks = marks;
    if (options.reveal) this.reveal([...marks.own, ...marks.fused], options.focus ?? null);
    this.update();
  }

  setHover(marks: Marks): void {
    this.hovered = marks;
    this.paint();
  }

  setSelected(item: Item | null): void {
    this.selected = item;
    this.update();
  }

  /** Opens all boxes around an item. */
  openAround(item: Item): boolean {
    let isChanged = false;
    for (const outer of this.tree.around(item)) {
      if (this.open.has(outer.id)) continue;
      this.open.add(outer.id);
      this.layout.forget(outer);
      isChanged = true;
    }
    return isChanged;
  }

  /** Moves a box into sight. */
  show(item: Item): void {
    if (this.openAround(item)) this.arrange();
    this.bringIntoSight([item]);
    this.place();
  }

  private reveal(nodes: number[], focus: Item | null): void {
    let isChanged = focus ? this.openAround(focus) : false;
    let boxes = this.picture.placed.size;
    const shown: Item[] = focus ? [focus] : [];
    for (const node of nodes.slice(0, MAX_REVEALED)) {
      const item = this.tree.itemOf(node);
      const closed = this.tree.around(item).filter((outer) => !this.open.has(outer.id));
      boxes += closed.reduce((sum, outer) => sum + this.tree.children(outer).length, 0);
      if (boxes > MAX_REVEALED) break;
      isChanged = this.openAround(item) || isChanged;
      if (!focus) shown.push(item);
    }
    if (isChanged) this.arrange();
    if (shown.length) this.bringIntoSight(shown);
  }

  /** Pans, and if needed zooms out, so that boxes are visible; the first one in any case. */
  private bringIntoSight(items: Item[]): void {
    const placed = items.flatMap((item) => this.picture.placed.get(item) ?? []);
    const first = placed[0];
    if (!first) return;
    const { width, height } = this.size();
    const bounds = (list: Placed[]): [number, number, number, number] => [
      Math.min(...list.map((box) => box.x)),
      Math.min(...list.map((box) => box.y)),
      Math.max(...list.map((box) => box.x + box.width)),
      Math.max(...list.map((box) => box.y + box.height)),
    ];
    let [left, top, right, bottom] = bounds(placed);
    const whole = Math.min((width - 80) / (right - left), (height - 80) / (bottom - top));
    if (whole < 0.45) [left, top, right, bottom] = bounds([first]);
    const at = this.visible();
    const margin = 24 / this.zoom;
    const isVisible =
      left >= at.x + margin && top >= at.y + margin &&
      right <= at.x + at.width - margin && bottom <= at.y + at.height - margin;
    if (isVisible && this.zoom >= 0.4) return;
    const zoom = Math.min((width - 80) / (right - left), (height - 80) / (bottom - top));
    this.zoom = Math.min(Math.max(this.zoom, 0.6), Math.max(zoom, 0.3), 1.2);
    this.x = width / 2 - ((left + right) / 2) * this.zoom;
    this.y = height / 2 - ((top + bottom) / 2) * this.zoom;
    this.place();
    this.events.moved();
  }

  /** Returns the boxes that are joined to one by an edge. */
  neighbors(item: Item, isForward: boolean): Item[] {
    const found: Item[] = [];
    for (const edge of this.picture.edges) {
      const [near, far] = isForward ? [edge.from, edge.to] : [edge.to, edge.from];
      if (near === item && far) found.push(far);
    }
    const center = this.centerOf(item);
    const distance = (other: Item): number => Math.abs(this.centerOf(other) - center);
    return found.sort((a, b) => distance(a) - distance(b));
  }

  /** Returns the next box to the left or the right. */
  beside(item: Item, isRight: boolean): Item | null {
    const own = this.picture.placed.get(item);
    if (!own) return null;
    let best: Item | null = null;
    let least = Infinity;
    for (const other of this.picture.placed.values()) {
      if (other.item === item || other.item.parent !== item.parent) continue;
      const dx = other.x + other.width / 2 - (own.x + own.width / 2);
      const dy = Math.abs(other.y + other.height / 2 - (own.y + own.height / 2));
      if (isRight ? dx <= 1 : dx >= -1) continue;
      const distance = Math.abs(dx) + 3 * dy;
      if (distance < least) [least, best] = [distance, other.item];
    }
    return best;
  }

  /** Returns the box to start from with the keyboard: the first one in sight. */
  first(): Item | null {
    const at = this.visible();
    for (const placed of this.picture.placed.values()) {
      if (placed.depth > 0 && !placed.isOpen && placed.y >= at.y && placed.x + placed.width >= at.x) return placed.item;
    }
    return this.tree.children(this.tree.root)[0] ?? null;
  }

  zoomBy(factor: number, at?: { x: number; y: number }): void {
    const { width, height } = this.size();
    const { x, y } = at ?? { x: width / 2, y: height / 2 };
    const zoom = Math.min(MAX_ZOOM, Math.max(MIN_ZOOM, this.zoom * factor));
    this.x = x - ((x - this.x) * zoom) / this.zoom;
    this.y = y - ((y - this.y) * zoom) / this.zoom;
    this.zoom = zoom;
    this.place();
    this.events.moved();
  }

  private center(x: number, y: number): void {
    const { width, height } = this.size();
    this.x = width / 2 - x * this.zoom;
    this.y = height / 2 - y * this.zoom;
    this.place();
    this.events.moved();
  }

  private centerOf(item: Item): number {
    const placed = this.picture.placed.get(item);
    return placed ? placed.x + placed.width / 2 : 0;
  }

  private size(): { width: number; height: number } {
    return { width: this.viewport.clientWidth || 800, height: this.viewport.clientHeight || 600 };
  }

  /** Returns the empty space around the picture, so that every box can be in the middle. */
  private margin(): { x: number; y: number } {
    const { width, height } = this.size();
    return { x: Math.round(width * 0.6), y: Math.round(height * 0.6) };
  }

  /** Sets the size of the picture and scrolls to the visible part. */
  private place(): void {
    const margin = this.margin();
    const [x, y] = [this.x, this.y];
    this.svg.setAttribute("width", String(Math.ceil(this.picture.width * this.zoom + 2 * margin.x)));
    this.svg.setAttribute("height", String(Math.ceil(this.picture.height * this.zoom + 2 * margin.y)));
    this.world.setAttribute("transform", `translate(${margin.x} ${margin.y}) scale(${this.zoom})`);
    this.svg.classList.toggle("is-far", this.zoom < 0.35);
    this.viewport.scrollLeft = margin.x - x;
    this.viewport.scrollTop = margin.y - y;
    this.readScroll();
    this.update();
  }

  private readScroll(): void {
    const margin = this.margin();
    this.x = margin.x - this.viewport.scrollLeft;
    this.y = margin.y - this.viewport.scrollTop;
  }

  private visible(): Window {
    const { width, height } = this.size();
    const zoom = this.zoom;
    return { x: -this.x / zoom, y: -this.y / zoom, width: width / zoom, height: height / zoom };
  }

  private arrange(): void {
    this.picture = this.layout.picture(this.open);
    this.findLabelled();
    for (const element of this.drawn.values()) element.remove();
    for (const element of this.drawnEdges.values()) element.remove();
    this.drawn.clear();
    this.drawnEdges.clear();
  }

  /** Draws what is in sight before the next frame. */
  private update(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  private draw(): void {
    const at = this.visible();
    const isSmall = this.picture.placed.size <= MAX_DRAWN;
    const [marginX, marginY] = [at.width / 3, at.height / 3];
    const isInSight = (left: number, top: number, right: number, bottom: number): boolean =>
      isSmall ||
      (right >= at.x - marginX && left <= at.x + at.width + marginX &&
      bottom >= at.y - marginY && top <= at.y + at.height + marginY);
    let boxes = 0;
    for (const placed of this.picture.placed.values()) {
      if (placed.depth === 0) continue;
      const { item } = placed;
      const isWanted =
        (isInSight(placed.x, placed.y, placed.x + placed.width, placed.y + placed.height) && boxes++ < MAX_BOXES_IN_SIGHT) ||
        (item.kind === "node" && (this.marks.own.has(item.number) || this.marks.fused.has(item.number))) ||
        item === this.selected;
      const known = this.drawn.get(item);
      if (isWanted && !known) {
        const element = drawBox(this.model, this.layout, placed, this.tree.isContainer(item));
        (placed.isOpen ? this.boxes : this.items).append(element);
        this.drawn.set(item, element);
      } else if (!isWanted && known) {
        known.remove();
        this.drawn.delete(item);
      }
    }
    let edges = 0;
    for (const edge of this.picture.edges) {
      const xs = edge.points.map((point) => point.x);
      const ys = edge.points.map((point) => point.y);
      const isNear = this.selected !== null && (edge.from === this.selected || edge.to === this.selected);
      const isWanted =
        isInSight(Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)) &&
        (edges++ < MAX_EDGES_IN_SIGHT || isNear);
      const known = this.drawnEdges.get(edge);
      if (isWanted && !known) {
        const element = drawEdge(this.model, edge, this.labelled.has(edge));
        this.edges.append(element);
        this.drawnEdges.set(edge, element);
      } else if (!isWanted && known) {
        known.remove();
        this.drawnEdges.delete(edge);
      }
    }
    const missing = (all: number, most: number, noun: string): string =>
      all > most ? `${most.toLocaleString("en-US")} of ${plural(all, noun)} in sight are drawn. ` : "";
    const text = missing(boxes, MAX_BOXES_IN_SIGHT, "box") + missing(edges, MAX_EDGES_IN_SIGHT, "edge");
    this.events.leftOut(text && `${text}Select a box to see its edges, or zoom in.`);
    this.paint();
  }

  /** The edges with a text: of those from one box with the same text, the first one. */
  private labelled = new Set<Edge>();

  private findLabelled(): void {
    this.labelled = new Set();
    const seen = new Map<Item | null, Set<string>>();
    for (const edge of this.picture.edges) {
      const text = edge.values.length === 1 ? this.model.type(edge.values[0]!) : "";
      const known = seen.get(edge.from) ?? new Set();
      if (!known.has(text)) this.labelled.add(edge);
      seen.set(edge.from, known.add(text));
    }
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
  private paint(): void {
    for (const [item, element] of this.drawn) {
      const isOpen = element.classList.contains("is-open");
      const has = (set: ReadonlySet<number>): boolean =>
        item.kind === "node" && (isOpen || set.has(item.number)) ? set.has(item.number) : !isOpen && this.count(item, set) > 0;
      const isOwn = has(this.marks.own);
      const isFused = !isOwn && has(this.marks.fused);
      element.classList.toggle("is-linked", isOwn || isFused);
      element.classList.toggle("is-fused", isFused);
      element.classList.toggle("is-under", !isOwn && !isFused && has(this.marks.under));
      element.classList.toggle("is-hovered", !isOwn && !isFused && (has(this.hovered.own) || has(this.hovered.fused)));
      element.classList.toggle("is-selected", item === this.selected);
      element.setAttribute("tabindex", item === this.selected ? "0" : "-1");
      if (item.kind !== "node" && item.kind !== "input" && item.kind !== "output" && !isOpen) this.badge(item, element);
    }
    for (const [edge, element] of this.drawnEdges) {
      const isNear = this.selected !== null && (edge.from === this.selected || edge.to === this.selected);
      element.classList.toggle("is-near", isNear);
    }
    const linked = (item: object): boolean => {
      const { kind, number } = item as Item;
      return kind === "node" && (this.marks.own.has(number) || this.marks.fused.has(number));
    };
    this.minimap.draw(this.picture, this.visible(), linked);
  }

  /** Shows how many linked nodes a closed box contains. */
  private badge(item: Item, element: SVGElement): void {
    element.querySelector(".badge")?.remove();
    const count = this.count(item, this.marks.own) + this.count(item, this.marks.fused);
    if (count === 0) return;
    const text = String(count);
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

  private itemAt(target: EventTarget | null): Item | null {
    const element = target instanceof Element ? target.closest("[data-item]") : null;
    const id = element?.getAttribute("data-item");
    return id ? this.tree.find(id) : null;
  }

  private listen(): void {
    let start: { x: number; y: number; left: number; top: number; isMoved: boolean } | null = null;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = { x: event.clientX, y: event.clientY, left: this.viewport.scrollLeft, top: this.viewport.scrollTop, isMoved: false };
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!start || !event.buttons) {
        this.events.hover(this.itemAt(event.target), event);
        return;
      }
      const [dx, dy] = [event.clientX - start.x, event.clientY - start.y];
      if (!start.isMoved && Math.hypot(dx, dy) < 4) return;
      if (!start.isMoved) {
        start.isMoved = true;
        this.svg.setPointerCapture(event.pointerId);
        this.svg.classList.add("is-dragged");
      }
      this.viewport.scrollLeft = start.left - dx;
      this.viewport.scrollTop = start.top - dy;
    });
    this.viewport.addEventListener("scroll", () => {
      this.readScroll();
      this.update();
      this.events.moved();
    });
    const end = (): void => {
      this.svg.classList.remove("is-dragged");
    };
    this.svg.addEventListener("pointerup", end);
    this.svg.addEventListener("pointercancel", end);
    this.svg.addEventListener("pointerleave", () => this.events.hover(null, null));
    this.svg.addEventListener("click", (event) => {
      const isMoved = start?.isMoved ?? false;
      start = null;
      if (isMoved) return;
      const item = this.itemAt(event.target);
      if (!item) return this.events.clear();
      const isToggle = event.target instanceof Element && event.target.closest(".toggle") !== null;
      if (isToggle) this.toggle(item);
      else this.events.select(item);
    });
    this.svg.addEventListener("dblclick", (event) => {
      const item = this.itemAt(event.target);
      if (item) this.toggle(item);
    });
    this.svg.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        const box = this.viewport.getBoundingClientRect();
        this.zoomBy(Math.exp(-event.deltaY / 200), { x: event.clientX - box.left, y: event.clientY - box.top });
      },
      { passive: false },
    );
  }

  /** Moves the keyboard's focus to the selected box. */
  focus(): void {
    this.draw();
    const element = this.selected ? this.drawn.get(this.selected) : null;
    (element ?? this.svg).focus({ preventScroll: true });
  }
}
