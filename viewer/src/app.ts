// Links the panes: one selection, shown in all three.

import { clean, h, plural, short } from "./dom";
import { DetailsPane } from "./details";
import type { ViewData } from "./format";
import { GraphPane } from "./graph";
import { helpDialog } from "./help";
import { titleOf } from "./layout";
import { type Marks, marksOfLine, marksOfNodes, NO_MARKS } from "./marks";
import { Model } from "./model";
import { Search } from "./search";
import { fromHash, type Selection, toHash } from "./selection";
import { SourcePane, type Span } from "./source";
import type { Item } from "./tree";

/** The lines of one node that are highlighted. */
const MAX_LINKED = 100;

export class App {
  readonly model: Model;
  private readonly graph: GraphPane;
  private readonly source: SourcePane;
  private readonly details: DetailsPane;
  private readonly search: Search;
  private readonly help: HTMLDialogElement;
  private readonly crumbs = h("nav", { class: "crumbs", "aria-label": "Breadcrumb" });
  /** Says what the page does not show. */
  private readonly leftOut = h("div", { class: "left-out", role: "note", hidden: true });
  private readonly notDrawn = h("p", { hidden: true });
  private readonly status = h("div", { class: "visually-hidden", role: "status", "aria-live": "polite" });
  private readonly tip = h("div", { class: "tip", role: "tooltip", hidden: true });
  private selection: Selection | null = null;
  private isCustom = false;
  private isApplying = false;
  private timer = 0;

  constructor(
    readonly data: ViewData,
    root: HTMLElement,
  ) {
    this.model = new Model(data);
    const pane = (name: string, label: string): HTMLElement => h("section", { class: `pane ${name}`, "aria-label": label });
    const [left, middle, right] = [pane("source", "Source"), pane("middle", "Graph"), pane("details", "Details")];
    const canvas = h("div", { class: "canvas" });
    const button = (label: string, text: string, act: () => void): HTMLElement =>
      h("button", { type: "button", title: label, "aria-label": label, click: act }, text);
    const zoom = h(
      "div",
      { class: "segmented", role: "toolbar", "aria-label": "Zoom" },
      button("Zoom in (+)", "+", () => this.graph.zoomBy(1.3)),
      button("Zoom out (-)", "−", () => this.graph.zoomBy(1 / 1.3)),
      button("Fit (f)", "fit", () => this.graph.fit()),
    );
    middle.append(h("div", { class: "bar" }, this.crumbs, zoom), this.leftOut, canvas);
    this.leftOut.append(...(data.left_out ?? []).slice(0, 20).map((text) => h("p", {}, text)), this.notDrawn);
    this.leftOut.hidden = this.leftOut.childElementCount === 1;
    const panes = h("main", { class: "panes" }, left, splitter("--left", 1), middle, splitter("--right", -1), right);
    root.append(this.bar(), panes, this.status, this.tip);
    this.graph = new GraphPane(this.model, canvas, {
      select: (item) => this.select(this.selectionOf(item)),
      hover: (item, event) => this.hoverItem(item, event),
      clear: () => this.select(null),
      moved: () => this.changed(),
      leftOut: (text) => this.showNotDrawn(text),
    });
    this.source = new SourcePane(this.model, left, {
      select: (file, line) => this.select({ kind: "line", file, line }),
      hover: (file, line) => this.graph.setHover(line === null ? NO_MARKS : marksOfLine(this.model, file, line, false)),
    });
    this.details = new DetailsPane(this.model, this.graph, right, (selection) => this.select(selection), (nodes) =>
      this.graph.setHover(marksOfNodes(nodes)),
    );
    this.search = new Search(this.model, (selection) => this.select(selection));
    this.help = helpDialog();
    root.append(this.search.dialog, this.help);
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("hashchange", () => this.apply(location.hash));
    this.graph.fit();
    this.apply(location.hash);
  }

  /** Selects something in all panes. */
  select(selection: Selection | null): void {
    const isUnknown = selection?.kind === "node" && !this.data.nodes[selection.node];
    this.selection = isUnknown ? null : selection;
    this.link(true);
    if (!this.isApplying) this.push();
  }

  private bar(): HTMLElement {
    const { model, nodes } = this.data;
    const button = (label: string, text: string, act: () => void): HTMLElement =>
      h("button", { type: "button", class: "icon", title: label, "aria-label": label, click: act }, text);
    return h(
      "header",
      { class: "top" },
      h("h1", {}, short(model.name)),
      h("span", { class: "dim" }, `${plural(model.nodes ?? nodes.length, "node")} · ${short(model.producer) || "unknown producer"}`),
      h("button", { type: "button", class: "find", click: () => this.search.open() }, "Search", h("kbd", {}, "/")),
      button("Light or dark", "◐", toggleTheme),
      button("Help (?)", "?", () => this.help.showModal()),
    );
  }

  private showNotDrawn(text: string): void {
    if (this.notDrawn.textContent === text) return;
    this.notDrawn.textContent = text;
    this.notDrawn.hidden = text === "";
    this.leftOut.hidden = this.leftOut.childElementCount === 1 && text === "";
  }

  private selectionOf(item: Item): Selection {
    if (item.kind !== "node") return { kind: "box", item: item.id };
    const isFirst = this.graph.tree.itemOf(item.number) === item;
    return { kind: "node", node: item.number, item: isFirst ? null : item.id };
  }

  private itemOf(selection: Selection): Item | null {
    if (selection.kind === "box") return this.graph.tree.find(selection.item);
    if (selection.kind === "end") return this.graph.tree.endOf(selection.value, selection.side);
    if (selection.kind !== "node") return null;
    return (selection.item && this.graph.tree.find(selection.item)) || this.graph.tree.itemOf(selection.node);
  }

  private marks(selection: Selection): Marks {
    switch (selection.kind) {
      case "node":
        return marksOfNodes([selection.node]);
      case "line":
        return marksOfLine(this.model, selection.file, selection.line, true);
      case "weight":
        return marksOfNodes(this.model.readers(selection.value));
      case "box":
      case "end":
        return NO_MARKS;
      case "op":
        return marksOfNodes(this.model.data.nodes.flatMap((row, node) => (row[1] === selection.op ? node : [])));
      case "shape":
        return marksOfNodes(
          this.model.data.nodes.flatMap((row, node) => (row[4].some((value) => value >= 0 && this.model.type(value) === selection.type) ? node : [])),
        );
    }
  }

  /** Shows the selection in all panes. */
  private link(reveal: boolean): void {
    const selection = this.selection;
    const item = selection ? this.itemOf(selection) : null;
    this.graph.setMarks(selection ? this.marks(selection) : NO_MARKS, { reveal: false });
    if (reveal && selection) {
      if (item) this.graph.show(item);
      else this.graph.setMarks(this.marks(selection), { reveal: true });
    }
    this.graph.setSelected(item);
    this.linkLines(selection);
    this.details.show(selection);
    this.showCrumbs(item);
    this.announce(selection);
  }

  private linkLines(selection: Selection | null): void {
    if (selection?.kind === "line") {
      return this.source.setLinked([{ file: selection.file, line: selection.line, isFused: false }], new Map(), true);
    }
    let locations: number[] = [];
    if (selection?.kind === "node") locations = this.model.callsites(this.model.node(selection.node)[5]);
    if (selection?.kind === "weight") {
      const origin = this.model.data.weights[this.model.weightOf[selection.value]!]?.[2] ?? -1;
      locations = this.model.callsites(origin);
    }
    const lines: { file: number; line: number; isFused: boolean }[] = [];
    const spans = new Map<string, Span[]>();
    const seen = new Set<string>();
    locations.slice(0, MAX_LINKED).forEach((location, at) => {
      const [file, , line, column, endLine, endColumn] = this.model.location(location);
      if (!seen.has(`${file}:${line}`)) lines.push({ file, line, isFused: at > 0 });
      seen.add(`${file}:${line}`);
      if (column < 0) return;
      for (let number = line; number <= Math.min(endLine, line + 50); number++) {
        const text = this.model.text(file, number) ?? "";
        const start = number === line ? column : text.length - text.trimStart().length;
        const list = spans.get(`${file}:${number}`) ?? [];
        list.push({ start, end: number === endLine ? endColumn : -1 });
        spans.set(`${file}:${number}`, list);
      }
    });
    this.source.setLinked(lines, spans, false);
  }

  private showCrumbs(item: Item | null): void {
    const path = item ? [...this.graph.tree.around(item), item] : [this.graph.tree.root];
    const parts = path.flatMap((box, at) => {
      const isLast = at === path.length - 1;
      const button = h(
        "button",
        { type: "button", class: "crumb", "aria-current": isLast ? "true" : null, click: () => (box.parent ? this.select(this.selectionOf(box)) : this.home()) },
        titleOf(box),
      );
      return at === 0 ? [button] : [h("span", { class: "dim", "aria-hidden": "true" }, "›"), button];
    });
    this.crumbs.replaceChildren(...parts);
  }

  private home(): void {
    this.select(null);
    this.graph.fit();
  }

  private announce(selection: Selection | null): void {
    let text = "";
    if (selection?.kind === "node") text = `${this.model.op(selection.node)}, ${this.model.name(selection.node)}`;
    if (selection?.kind === "line") {
      const line = this.model.line(selection.file, selection.line);
      text = `line ${selection.line}: ${plural(line?.own.length ?? 0, "node")}`;
    }
    this.status.textContent = clean(text);
  }

  private hoverItem(item: Item | null, event: PointerEvent | null): void {
    const nodes = item && item.kind !== "input" && item.kind !== "output" && !this.graph.isOpen(item) ? item.nodes : [];
    const lines = nodes.slice(0, 500).flatMap((node) => {
      const location = this.model.callsite(node);
      if (location < 0) return [];
      const [file, , line] = this.model.location(location);
      return [{ file, line }];
    });
    this.source.setHover(lines);
    this.tip.hidden = item?.kind !== "node" || !event || this.graph.isOpen(item);
    if (!item || item.kind !== "node" || !event || this.tip.hidden) return;
    const output = this.model.node(item.number)[4].find((value) => value >= 0);
    const location = this.model.callsite(item.number);
    const parts: (Node | null)[] = [
      h("div", {}, h("strong", {}, short(this.model.name(item.number)))),
      output === undefined ? null : h("div", { class: "type" }, short(this.model.type(output))),
    ];
    if (location >= 0) {
      const [file, , line] = this.model.location(location);
      const text = this.model.text(file, line)?.trim();
      parts.push(h("div", { class: "dim" }, `${short(this.model.data.files[file]?.path ?? "line")}:${line}`), text ? h("code", {}, short(text, 300)) : null);
    }
    this.tip.replaceChildren(...parts.filter((part): part is Node => part !== null));
    const [x, y] = [Math.min(event.clientX + 14, innerWidth - 380), Math.min(event.clientY + 18, innerHeight - 110)];
    this.tip.style.setProperty("transform", `translate(${x}px, ${y}px)`);
  }

  private key(event: KeyboardEvent): void {
    const target = event.target instanceof Element ? event.target : null;
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (target?.matches("input, textarea, select")) return;
    const act = this.action(event.key, target);
    if (!act) return;
    event.preventDefault();
    act();
  }

  private action(key: string, target: Element | null): (() => void) | null {
    const isInSource = target?.closest(".pane.source") !== null && target !== null;
    switch (key) {
      case "/":
        return () => this.search.open();
      case "?":
        return () => this.help.showModal();
      case "Escape":
        return () => this.select(null);
      case "f":
        return () => this.graph.fit();
      case "+":
      case "=":
        return () => this.graph.zoomBy(1.3);
      case "-":
        return () => this.graph.zoomBy(1 / 1.3);
      case "s":
        return () => this.source.focus();
      case "g":
        return () => this.graph.focus();
      case "o":
        return () => this.toggle();
      case "Enter":
        // A button does what it says.
        return target?.matches("button, a, .line") ? null : () => this.toggle();
      case "ArrowUp":
      case "ArrowDown":
        return () => this.step(key === "ArrowDown", isInSource);
      case "ArrowLeft":
      case "ArrowRight":
        return () => this.stepBeside(key === "ArrowRight");
      default:
        return null;
    }
  }

  private toggle(): void {
    const item = this.selection && this.itemOf(this.selection);
    if (!item) return;
    this.isCustom = true;
    this.graph.toggle(item);
    this.graph.focus();
  }

  /** Goes along an edge, or in the source to the next line with nodes. */
  private step(isDown: boolean, isInSource: boolean): void {
    const selection = this.selection;
    if (selection?.kind === "line" || (isInSource && selection === null)) {
      const [file, line] = selection ? [selection.file, selection.line] : [[...this.model.lines.values()][0]?.file ?? 0, 0];
      const next = this.source.next(file, line, isDown);
      if (next) this.select({ kind: "line", ...next });
      this.source.focus();
      return;
    }
    const item = selection && this.itemOf(selection);
    const next = item ? (this.graph.neighbors(item, isDown)[0] ?? (isDown ? null : this.outer(item))) : this.graph.first();
    if (next) this.select(this.selectionOf(next));
    this.graph.focus();
  }

  /** Returns the open box around an item, which is reached from its first node. */
  private outer(item: Item): Item | null {
    return item.parent?.parent ? item.parent : null;
  }

  private stepBeside(isRight: boolean): void {
    const item = this.selection && this.itemOf(this.selection);
    const next = item ? this.graph.beside(item, isRight) : this.graph.first();
    if (next) this.select(this.selectionOf(next));
    this.graph.focus();
  }

  /** Notes that something of the hash changed. */
  private changed(): void {
    this.isCustom = true;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.replace(), 250);
  }

  private hash(): string {
    const open = this.isCustom ? [...this.graph.open].filter((id) => id !== this.graph.tree.root.id) : null;
    const position = this.isCustom ? this.graph.position() : null;
    return `#${toHash(this.model, { selection: this.selection, open, position })}`;
  }

  private push(): void {
    clearTimeout(this.timer);
    const hash = this.hash();
    if (hash === location.hash) return;
    try {
      history.pushState(null, "", hash);
    } catch {
      // A page without an address of its own, such as one in a notebook.
    }
  }

  private replace(): void {
    try {
      history.replaceState(null, "", this.hash());
    } catch {
      // See `push`.
    }
  }

  /** Shows what a hash says. */
  private apply(hash: string): void {
    const address = fromHash(this.model, hash);
    this.isApplying = true;
    if (address.open) this.graph.setOpen(address.open);
    this.selection = address.selection;
    this.link(address.position === null);
    if (address.position) this.graph.setPosition(address.position);
    clearTimeout(this.timer);
    this.isApplying = false;
  }
}

function toggleTheme(): void {
  const root = document.documentElement;
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset["theme"] ?? (isDark ? "dark" : "light");
  root.dataset["theme"] = now === "dark" ? "light" : "dark";
}

/** Returns a handle between two panes that sets the width of one of them. */
function splitter(property: string, direction: number): HTMLElement {
  const name = property === "--left" ? "source" : "details";
  const handle = h("div", { class: "splitter", role: "separator", "aria-orientation": "vertical", "aria-label": `Width of the ${name}`, tabindex: 0 });
  const pane = (): HTMLElement => document.querySelector<HTMLElement>(`.pane.${name}`)!;
  const set = (width: number): void => {
    const most = innerWidth * 0.7;
    document.documentElement.style.setProperty(property, `${Math.min(most, Math.max(160, width))}px`);
  };
  handle.addEventListener("pointerdown", (event) => {
    const [start, width] = [event.clientX, pane().offsetWidth];
    const move = (moved: PointerEvent): void => set(width + (moved.clientX - start) * direction);
    handle.setPointerCapture(event.pointerId);
    handle.addEventListener("pointermove", move);
    handle.addEventListener("pointerup", () => handle.removeEventListener("pointermove", move), { once: true });
  });
  handle.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowLeft" ? -24 : event.key === "ArrowRight" ? 24 : 0;
    if (!step) return;
    event.stopPropagation();
    set(pane().offsetWidth + step * direction);
  });
  return handle;
}
