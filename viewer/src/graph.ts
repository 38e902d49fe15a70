// The graph pane: what is open is laid out, what is in sight is drawn.

import type { Colors } from "./colors";
import { h, plural, s, thousands } from "./dom";
import { textWidth } from "./draw";
import { Drawing } from "./drawing";
import { Layout, type Picture, type Placed } from "./layout";
import { type Marks, NO_MARKS } from "./marks";
import { Minimap, type Window } from "./minimap";
import type { Model } from "./model";
import { type Item, Tree } from "./tree";

/** The boxes that a page opens with fit on a screen. */
const FIRST_BOXES = 48;
/** Opening the boxes around linked nodes stops here. */
const MAX_REVEALED = 500;
/** Opening all boxes stops here. */
const MAX_EXPANDED = 20_000;
/** Text is readable from here on. */
const LEAST_READABLE = 0.75;
/** From afar, a click finds a box within so many pixels. */
const NEARBY = 3;
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
  private readonly drawing: Drawing;
  private readonly map: HTMLCanvasElement;
  private readonly minimap: Minimap;
  private picture: Picture;
  /** The boxes that a selection opened, and what was visible before. */
  private readonly revealed = new Set<string>();
  private before: [number, number, number] | null = null;
  private isLimited = false;
  private x = 0;
  private y = 0;
  private zoom = 1;
  private frame = 0;

  constructor(
    readonly model: Model,
    readonly element: HTMLElement,
    readonly colors: Colors,
    private readonly events: GraphEvents,
  ) {
    this.tree = new Tree(model);
    this.layout = new Layout(model, this.tree, textWidth);
    this.drawing = new Drawing(model, this.layout, this.tree, colors);
    const arrow = s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse" }, s("path", { d: "M0 1L7 4L0 7Z" }));
    this.svg = s("svg", { class: "graph", role: "tree", "aria-label": "Graph of the model", tabindex: 0 }, s("defs", {}, arrow), this.drawing.world);
    this.map = h("canvas", { class: "minimap", "aria-hidden": "true" }) as HTMLCanvasElement;
    this.viewport = h("div", { class: "viewport" }, this.svg);
    element.append(this.viewport, this.map);
    if (this.tree.children(this.tree.root).length === 0) element.append(h("p", { class: "empty" }, "This model has no nodes, no inputs and no outputs."));
    this.minimap = new Minimap(this.map, (x, y) => this.center(x, y));
    this.openLevels();
    this.picture = this.layout.picture(this.open);
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.viewport);
  }

  /** Opens whole levels of modules while the boxes fit. Loops, branches, calls and constants stay closed. */
  private openLevels(): void {
    let level = [this.tree.root];
    let boxes = 0;
    for (;;) {
      const children = level.flatMap((item) => this.tree.children(item));
      boxes += children.length;
      if (level[0] !== this.tree.root && boxes > FIRST_BOXES) return;
      for (const item of level) this.open.add(item.id);
      level = children.filter((item) => item.kind !== "node" && !item.isConstant && this.tree.isContainer(item));
      if (level.length === 0 || boxes > FIRST_BOXES) return;
    }
  }

  /** Shows the whole picture. */
  fit(): void {
    const { width, height } = this.size();
    this.zoom = Math.min(1.1, this.whole());
    this.x = (width - this.picture.width * this.zoom) / 2;
    this.y = Math.max(24, (height - this.picture.height * this.zoom) / 2);
    this.place();
    this.events.moved();
  }

  /** Shows the whole picture, or if it would be too small to read, the part at the inputs. */
  start(): void {
    if (this.whole() >= LEAST_READABLE) return this.fit();
    const { width, height } = this.size();
    this.zoom = LEAST_READABLE;
    const inputs = [...this.picture.placed.values()].filter(({ item, depth }) => depth === 1 && item.side === "input");
    const first = inputs[0] ?? [...this.picture.placed.values()].find(({ depth }) => depth === 1);
    const middle = first ? first.x + first.width / 2 : this.picture.width / 2;
    const isNarrow = this.picture.width * this.zoom < width - 48;
    this.x = isNarrow ? (width - this.picture.width * this.zoom) / 2 : width / 2 - middle * this.zoom;
    // The picture begins above the first input if both fit.
    const isNear = first === undefined || (first.y + first.height) * this.zoom < height - 72;
    this.y = isNear ? 24 : height / 3 - first.y * this.zoom;
    this.place();
    this.events.moved();
  }

  /** Returns the scale at which the whole picture fits. */
  private whole(): number {
    const { width, height } = this.size();
    return Math.min((width - 48) / Math.max(1, this.picture.width), (height - 48) / Math.max(1, this.picture.height));
  }

  private clamp(zoom: number): number {
    return Math.min(MAX_ZOOM, Math.max(Math.min(MIN_ZOOM, this.whole()), zoom));
  }

  /** Closes all boxes. */
  collapse(): void {
    this.setOpen([]);
    this.isLimited = false;
    this.forgetRevealed();
    this.start();
  }

  /** Opens all boxes, as far as they can be drawn, and shows the whole picture. */
  expand(): void {
    this.isLimited = false;
    this.forgetRevealed();
    const ids: string[] = [];
    let boxes = 0;
    let level = [this.tree.root];
    while (level.length > 0) {
      const next: Item[] = [];
      for (const item of level) {
        const children = this.tree.children(item);
        boxes += children.length;
        if (boxes > MAX_EXPANDED) this.isLimited = true;
        if (this.isLimited) break;
        ids.push(item.id);
        next.push(...children.filter((child) => this.tree.isContainer(child)));
      }
      level = this.isLimited ? [] : next;
    }
    this.setOpen(ids);
    this.fit();
  }

  /** Shows or hides the map of the whole picture. */
  toggleMap(): boolean {
    this.map.hidden = !this.map.hidden;
    this.resize();
    return !this.map.hidden;
  }

  /** Draws everything again, after the colors changed. */
  recolor(): void {
    this.drawing.clear();
    this.update();
  }

  /** Returns everything that is open, drawn as a whole, with its size; null if there is too much of it. */
  drawn(most: number): { world: SVGElement; width: number; height: number } | null {
    const { width, height, placed, edges } = this.picture;
    if (placed.size + edges.length > most) return null;
    const drawing = new Drawing(this.model, this.layout, this.tree, this.colors);
    drawing.drawAll(this.picture);
    return { world: drawing.world, width, height };
  }

  /** Returns the part that is visible, for the hash. */
  position(): [number, number, number] {
    return [Math.round(this.x), Math.round(this.y), Math.round(this.zoom * 1000) / 1000];
  }

  setPosition([x, y, zoom]: [number, number, number]): void {
    [this.x, this.y] = [x, y];
    this.zoom = this.clamp(zoom);
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
    for (const outer of [item, ...this.tree.around(item)]) this.revealed.delete(outer.id);
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
    this.drawing.marks = marks;
    if (options.reveal) this.reveal([...marks.own, ...marks.fused], options.focus ?? null);
    this.update();
  }

  setHover(marks: Marks): void {
    if (marks === NO_MARKS && this.drawing.hovered === NO_MARKS) return;
    this.drawing.hovered = marks;
    this.drawing.paint();
  }

  setSelected(item: Item | null): void {
    this.drawing.selected = item;
    this.update();
  }

  /** Opens all boxes around an item. */
  openAround(item: Item): boolean {
    let isChanged = false;
    for (const outer of this.tree.around(item)) {
      if (this.open.has(outer.id)) continue;
      this.before ??= this.position();
      this.revealed.add(outer.id);
      this.open.add(outer.id);
      this.layout.forget(outer);
      isChanged = true;
    }
    return isChanged;
  }

  /** Closes the boxes that selections opened. */
  closeRevealed(): void {
    const ids = [...this.revealed];
    const before = this.before;
    this.forgetRevealed();
    if (ids.length === 0) return;
    for (const id of ids) {
      this.open.delete(id);
      const item = this.tree.find(id);
      if (item) this.layout.forget(item);
    }
    this.arrange();
    if (before) this.setPosition(before);
    this.events.moved();
  }

  private forgetRevealed(): void {
    this.revealed.clear();
    this.before = null;
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
    const zoom = this.clamp(this.zoom * factor);
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

  private known: { width: number; height: number } | null = null;

  /** Returns the size of the pane. Asking the browser for it takes a layout of the page. */
  private size(): { width: number; height: number } {
    this.known ??= { width: this.viewport.clientWidth || 800, height: this.viewport.clientHeight || 600 };
    return this.known;
  }

  private resize(): void {
    this.known = null;
    this.place();
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
    this.drawing.world.setAttribute("transform", `translate(${margin.x} ${margin.y}) scale(${this.zoom})`);
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
    this.drawing.clear();
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
    const { boxes, edges, mostBoxes, mostEdges } = this.drawing.draw(this.picture, this.visible(), this.zoom);
    const missing = (all: number, most: number, noun: string): string =>
      all > most ? `${thousands(most)} of ${plural(all, noun)} in sight are drawn. ` : "";
    const text = missing(boxes, mostBoxes, "box") + missing(edges, mostEdges, "edge");
    const limited = this.isLimited ? `Boxes are open as far as ${plural(MAX_EXPANDED, "box")} fit. ` : "";
    this.events.leftOut(limited + (text && `${text}Select a box to see its edges, or zoom in.`));
    const { own, fused } = this.drawing.marks;
    const linked = ({ kind, number }: Item): boolean => kind === "node" && (own.has(number) || fused.has(number));
    if (!this.map.hidden) this.minimap.draw(this.picture, this.visible(), linked);
  }

  private itemAt({ target, clientX, clientY }: MouseEvent): Item | null {
    const element = target instanceof Element ? target.closest("[data-item]") : null;
    const id = element?.getAttribute("data-item");
    if (id) return this.tree.find(id);
    // From afar, one shape stands for many boxes.
    if (!(target instanceof Element) || !target.closest(".afar")) return null;
    const box = this.viewport.getBoundingClientRect();
    const [x, y] = [clientX - box.left - this.x, clientY - box.top - this.y];
    return this.drawing.itemAt(x / this.zoom, y / this.zoom, NEARBY / this.zoom);
  }

  private listen(): void {
    let start: { x: number; y: number; left: number; top: number; isMoved: boolean } | null = null;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = { x: event.clientX, y: event.clientY, left: this.viewport.scrollLeft, top: this.viewport.scrollTop, isMoved: false };
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!start || !event.buttons) {
        this.events.hover(this.itemAt(event), event);
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
      const item = this.itemAt(event);
      if (!item) return this.events.clear();
      const isToggle = event.target instanceof Element && event.target.closest(".toggle") !== null;
      if (isToggle) this.toggle(item);
      else this.events.select(item);
    });
    this.svg.addEventListener("dblclick", (event) => {
      const item = this.itemAt(event);
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
    const element = this.drawing.selected ? this.drawing.element(this.drawing.selected) : null;
    (element ?? this.svg).focus({ preventScroll: true });
  }
}
