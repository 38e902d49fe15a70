// Links the panes: one selection, shown in all three.

import { answerOf, type Answer } from "./answer";
import { Colors } from "./colors";
import { button, colorMenu, segmented, splitter, toggleTheme } from "./controls";
import { clean, h, plural, short, withCode } from "./dom";
import { DetailsPane } from "./details";
import type { ViewData } from "./format";
import { changesOf, EarlierPane } from "./earlier";
import { GraphPane } from "./graph";
import { helpDialog } from "./help";
import { titleOf } from "./layout";
import { type Marks, marksOfLine, marksOfNodes, NO_MARKS } from "./marks";
import { MemoryPane } from "./memory";
import { Model } from "./model";
import type { Span } from "./row";
import { Search } from "./search";
import { download, toPng, toSvg } from "./save";
import { fromHash, type Selection, toHash } from "./selection";
import { SourcePane } from "./source";
import type { Item } from "./tree";

/** An address names so many boxes that are open, or says that all are. */
const MAX_OPEN = 300;
const ALL = "*";
/** The boxes and edges of a picture that is saved. */
const MAX_SAVED = 60_000;
/** The lines of one node that are highlighted. */
const MAX_LINKED = 100;

export class App {
  readonly model: Model;
  private readonly graph: GraphPane;
  private readonly source: SourcePane;
  private readonly details: DetailsPane;
  private readonly search: Search;
  private readonly help: HTMLDialogElement;
  private readonly answer: Answer | null;
  private readonly colors: Colors;
  private readonly earlier: EarlierPane | null;
  private readonly legend = h("div", { class: "legends" });
  private readonly crumbs = h("nav", { class: "crumbs", "aria-label": "Breadcrumb" });
  /** Says what the page does not show. */
  private readonly leftOut = h("div", { class: "left-out", role: "note", hidden: true });
  private readonly notDrawn = h("p", { hidden: true });
  private readonly status = h("div", { class: "visually-hidden", role: "status", "aria-live": "polite" });
  private readonly tip = h("div", { class: "tip", role: "tooltip", hidden: true });
  private selection: Selection | null = null;
  private isCustom = false;
  private isApplying = false;
  private isFresh = true;
  private timer = 0;

  constructor(
    readonly data: ViewData,
    root: HTMLElement,
  ) {
    this.model = new Model(data);
    const pane = (name: string, label: string): HTMLElement => h("section", { class: `pane ${name}`, "aria-label": label });
    const [left, middle, right] = [pane("source", "Source"), pane("middle", "Graph"), pane("details", "Details")];
    const canvas = h("div", { class: "canvas" });
    const changes = changesOf(data);
    this.answer = answerOf(this.model, changes);
    this.colors = new Colors(this.model, changes?.later ?? null);
    this.earlier = changes && new EarlierPane(data.earlier!, changes, {
      select: (node) => this.select({ kind: "node", node, item: null }),
      selectGone: (model, graph, item) => this.selectGone(right, model, graph, item),
      clear: () => this.select(null),
    });
    const { cost } = this.model;
    const memory = cost && new MemoryPane(this.model, cost, (node) => this.select({ kind: "node", node, item: null }));
    middle.append(this.graphBar(), this.leftOut, canvas, this.legend, ...(memory ? [memory.element] : []));
    this.leftOut.append(...(data.left_out ?? []).slice(0, 20).map((text) => h("p", {}, ...withCode(text))), this.notDrawn);
    this.leftOut.hidden = this.leftOut.childElementCount === 1;
    const panes = h("main", { class: "panes" }, left, splitter("--left", 1), middle, splitter("--right", -1), right);
    root.append(this.bar(), panes, this.status, this.tip);
    this.graph = new GraphPane(this.model, canvas, this.colors, {
      select: (item) => this.select(this.selectionOf(item)),
      hover: (item, event) => this.hoverItem(item, event),
      clear: () => this.select(null),
      moved: () => this.changed(),
      leftOut: (text) => this.showNotDrawn(text),
    });
    this.source = new SourcePane(this.model, left, this.tabs(left), {
      select: (file, line) => this.select({ kind: "line", file, line }),
      hover: (file, line) => this.graph.setHover(line === null ? NO_MARKS : marksOfLine(this.model, file, line, false)),
    });
    if (this.earlier) left.append(this.earlier.element);
    this.details = new DetailsPane(
      this.model, this.graph, right,
      (selection) => this.select(selection),
      (nodes) => this.graph.setHover(marksOfNodes(nodes)),
      this.answer,
      () => this.showAnswer(),
    );
    this.search = new Search(this.model, (selection) => this.select(selection));
    this.help = helpDialog();
    root.append(this.search.dialog, this.help);
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("hashchange", () => this.apply(location.hash));
    cost?.onChange(() => this.resize());
    this.legend.replaceChildren(this.colors.element());
    this.graph.start();
    this.source.start();
    this.apply(location.hash);
  }

  /** Selects something in all panes. Of the nodes of a line, one can be the one to bring into sight. */
  select(selection: Selection | null, focus = -1): void {
    const isUnknown = selection?.kind === "node" && !this.data.nodes[selection.node];
    this.selection = isUnknown ? null : selection;
    this.link(true, focus);
    if (!this.isApplying) this.push();
  }

  /** Shows the line that a report or a profile is about. */
  showAnswer(): void {
    if (this.answer?.selection) this.select(this.answer.selection, this.answer.node);
  }

  /** Shows the costs for other sizes. */
  private resize(): void {
    this.colors.refresh();
    this.graph.recolor();
    this.source.refresh();
    this.details.show(this.selection);
  }

  /** Selects nothing, and closes what selections opened. */
  private leave(): void {
    this.select(null);
    this.graph.closeRevealed();
    this.earlier?.leave();
  }

  private graphBar(): HTMLElement {
    const recolor = (): void => {
      this.legend.replaceChildren(this.colors.element());
      this.graph.recolor();
      this.earlier?.recolor(this.colors.scheme);
    };
    const boxes = segmented(
      "Boxes",
      button("Collapse all boxes", "⊟", () => this.openBoxes(() => this.graph.collapse())),
      button("Expand all boxes", "⊞", () => this.openBoxes(() => this.graph.expand())),
    );
    const zoom = segmented(
      "Zoom",
      button("Zoom out (-)", "−", () => this.graph.zoomBy(1 / 1.3)),
      button("Zoom in (+)", "+", () => this.graph.zoomBy(1.3)),
      button("Fit (f)", "Fit", () => this.graph.fit()),
      button("Show or hide the map (m)", "Map", () => this.graph.toggleMap()),
    );
    const save = segmented(
      "Save",
      button("Save the graph as SVG", "SVG", () => void this.save("svg")),
      button("Save the graph as PNG", "PNG", () => void this.save("png")),
    );
    return h("div", { class: "bar" }, this.crumbs, colorMenu(this.colors, recolor), boxes, zoom, save);
  }

  /** Returns the choice between the source and the earlier model. */
  private tabs(left: HTMLElement): HTMLElement | null {
    const { earlier, data } = this;
    if (!earlier) return null;
    const show = (isEarlier: boolean): void => {
      left.classList.toggle("is-earlier", isEarlier);
      earlier.toggle(isEarlier, this.colors.scheme);
      tabs.forEach((tab, at) => tab.setAttribute("aria-selected", String(isEarlier === (at === 1))));
    };
    const tab = (text: string, title: string, isEarlier: boolean): HTMLElement =>
      h("button", { type: "button", role: "tab", title, "aria-selected": !isEarlier, click: () => show(isEarlier) }, text);
    const name = data.against?.name ?? "the earlier model";
    const tabs = [tab("Source", "Show the source", false), tab("Before", `Show the graph of ${short(name)} side by side`, true)];
    return h("div", { class: "segmented tabs", role: "tablist", "aria-label": "Left pane" }, ...tabs);
  }

  /** Shows what only the earlier model has. */
  private selectGone(element: HTMLElement, model: Model, graph: GraphPane, item: Item): void {
    this.select(null);
    const selection: Selection = item.kind === "node" ? { kind: "node", node: item.number, item: null } : { kind: "box", item: item.id };
    new DetailsPane(model, graph, element, () => {}, () => {}, null, () => {}).show(selection);
  }

  private async save(kind: "svg" | "png"): Promise<void> {
    const drawn = this.graph.drawn(MAX_SAVED);
    if (!drawn) return this.showNotDrawn("Too many boxes are open to save a picture. Close some of them.");
    const file = kind === "svg" ? new Blob([toSvg(drawn)], { type: "image/svg+xml" }) : await toPng(drawn);
    if (!file) return this.showNotDrawn("This browser cannot draw a picture of this size.");
    const name = short(this.data.model.name).replace(/\.onnx$/, "").replace(/[^\w.-]+/g, "_") || "model";
    download(`${name}.${kind}`, file);
  }

  private openBoxes(act: () => void): void {
    this.isCustom = true;
    act();
  }

  private bar(): HTMLElement {
    const { model, nodes } = this.data;
    const { answer } = this;
    const shown = answer && (answer.selection
      ? h("button", { type: "button", class: "answer link", title: answer.text, click: () => this.showAnswer() }, answer.text)
      : h("span", { class: "answer", title: answer.text }, answer.text));
    return h(
      "header",
      { class: "top" },
      h("h1", { title: short(model.name, 300) }, short(model.name)),
      h("span", { class: "dim" }, `${plural(model.nodes ?? nodes.length, "node")} · ${short(model.producer) || "unknown producer"}`),
      shown,
      h("button", { type: "button", class: "find", click: () => this.search.open() }, "Search", h("kbd", {}, "/")),
      button("Light or dark", "◐", toggleTheme, "icon"),
      button("Help (?)", "?", () => this.help.showModal(), "icon"),
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
  private link(reveal: boolean, focus = -1): void {
    const selection = this.selection;
    const item = selection ? this.itemOf(selection) : null;
    this.graph.setMarks(selection ? this.marks(selection) : NO_MARKS, { reveal: false });
    if (reveal && selection) {
      if (item) this.graph.show(item);
      else this.graph.setMarks(this.marks(selection), { reveal: true, focus: focus < 0 ? null : this.graph.tree.itemOf(focus) });
    }
    this.graph.setSelected(item);
    this.earlier?.link(selection ? this.marks(selection) : NO_MARKS);
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
    this.leave();
    this.graph.start();
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
        return () => this.leave();
      case "m":
        return () => this.graph.toggleMap();
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
    const ids = [...this.graph.open].filter((id) => id !== this.graph.tree.root.id);
    // A longer address is not accepted everywhere.
    const open = this.isCustom ? (ids.length > MAX_OPEN ? [ALL] : ids) : null;
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
    if (address.open?.[0] === ALL) this.graph.expand();
    else if (address.open) this.graph.setOpen(address.open);
    this.selection = address.selection;
    const isFirst = this.isFresh && !address.selection && !address.open && !address.position;
    this.isFresh = false;
    if (isFirst && this.answer?.selection) this.showAnswer();
    else this.link(address.position === null);
    if (address.position) this.graph.setPosition(address.position);
    clearTimeout(this.timer);
    this.isApplying = false;
  }
}
