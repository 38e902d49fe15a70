// The source pane: files with what each line became beside it.

import { bytes, clean, cut, h, inSteps, listOps, percent, plural, short } from "./dom";
import type { LineChange } from "./format";
import { type Line, measure, type Metric, type Model } from "./model";
import { type Block, type Nothing, nothing, parse, type Token } from "./python";
import { badge, describe, MAX_LINE, paint, type Row, shown, type Span, stateOf } from "./row";

export interface SourceEvents {
  select(file: number, line: number): void;
  hover(file: number, line: number | null): void;
}

interface Section {
  file: number;
  header: HTMLElement;
  body: HTMLElement;
  rows: Map<number, Row> | null;
  blocks: Block[];
  /** The lines that the file has, and the parts of them that are not built. */
  numbers: number[];
  gaps: Gap[];
  build: (number: number) => Row;
}

/** Lines without rows, by their positions among the lines of the file; a button stands for them. */
interface Gap {
  from: number;
  to: number;
  element: HTMLElement;
}

/** A longer file shows the lines around those with nodes, and the others on request. */
const MAX_ROWS = 3000;
const CONTEXT = 15;
/** The rows that a file shows at first, and those that are built at once afterwards. */
const FIRST_ROWS = 160;
const ROWS_AT_ONCE = 120;
const ROW_HEIGHT = 20;
const STEP = 500;
/** A longer file has no colors. */
const MAX_PARSED = 20_000;
/** The colored parts of one file. */
const MAX_COLORS = 15_000;
/** The height of the headings above the lines, and of the path of their file. */
const TOP = 54;
/** The files that a selection opens. */
const MAX_OPENED = 3;

const METRICS: [Metric, string][] = [
  ["nodes", "Nodes"],
  ["weights", "Weights"],
  ["time", "Time"],
  ["error", "Error"],
  ["loss", "Precision"],
  ["operations", "Operations"],
  ["moved", "Bytes"],
  ["memory", "Memory"],
];

export class SourcePane {
  readonly metrics: Metric[];
  private metric: Metric;
  private readonly sections = new Map<number, Section>();
  private readonly most = new Map<Metric, number>();
  private readonly list: HTMLElement;
  /** Covers the end of lines that are wider than the pane. */
  private readonly fade = h("div", { class: "fade", "aria-hidden": "true" });
  private linked: Row[] = [];
  private underlined: Row[] = [];
  private hovered: Row[] = [];
  private current: Row | null = null;

  constructor(
    private readonly model: Model,
    readonly element: HTMLElement,
    private readonly tabs: HTMLElement | null,
    private readonly events: SourceEvents,
  ) {
    const { profile, compare, sensitivity } = model.data;
    this.metrics = METRICS.map(([metric]) => metric).filter(
      (metric) =>
        metric === "nodes" ||
        (metric === "weights" && model.most("weights") > 0) ||
        (metric === "time" && profile) ||
        (metric === "error" && compare) ||
        (metric === "loss" && sensitivity) ||
        (model.cost && (metric === "operations" || metric === "moved")) ||
        (metric === "memory" && model.cost?.curve.length),
    );
    for (const metric of this.metrics) this.most.set(metric, model.most(metric));
    this.metric = compare ? "error" : sensitivity ? "loss" : profile ? "time" : model.cost ? "operations" : "nodes";
    this.list = h("div", { class: "files" }, this.headings());
    element.classList.toggle("has-against", model.data.against !== null);
    element.dataset["by"] = this.metric;
    element.append(this.toolbar(), this.list, this.fade);
    this.build();
    const cut = (): void => this.showCut();
    this.list.addEventListener("scroll", cut, { passive: true });
    new ResizeObserver(cut).observe(this.list);
  }

  private showCut(): void {
    const { scrollWidth, scrollLeft, clientWidth, offsetWidth } = this.list;
    this.fade.hidden = scrollLeft + clientWidth >= scrollWidth - 1;
    this.fade.style.setProperty("right", `${offsetWidth - clientWidth}px`);
  }

  private toolbar(): HTMLElement {
    const buttons = METRICS.filter(([metric]) => this.metrics.includes(metric)).map(([metric, label]) =>
      h(
        "button",
        { type: "button", role: "radio", "aria-checked": metric === this.metric, "data-metric": metric, click: () => this.setMetric(metric) },
        label,
      ),
    );
    const choice = h("div", { class: "segmented", role: "radiogroup", "aria-label": "Color lines by", hidden: buttons.length < 2 }, ...buttons);
    return h("div", { class: "bar" }, this.tabs ?? h("h2", {}, "Source"), choice);
  }

  /** Returns the names of the columns beside the lines. */
  private headings(): HTMLElement {
    const cells = METRICS.filter(([metric]) => this.metrics.includes(metric)).map(([metric, label]) => h("span", { class: `metric ${metric}` }, label));
    return h("div", { class: "headings", "aria-hidden": "true" }, ...cells, h("span", { class: "change" }, "Change"), h("span", { class: "fold" }), h("span", { class: "number" }, "Line"));
  }

  /** Shows the costs for other sizes. */
  refresh(): void {
    for (const metric of this.metrics) this.most.set(metric, this.model.most(metric));
    for (const [file, { rows }] of this.sections) {
      for (const row of rows?.values() ?? []) {
        const entry = this.model.line(file, row.number);
        const cells = row.element.querySelectorAll(".metric");
        this.metrics.forEach((metric, at) => cells[at]!.replaceChildren(entry ? shown(entry, metric) : ""));
        this.heat(row, entry);
      }
    }
  }

  private setMetric(metric: Metric): void {
    this.metric = metric;
    this.element.dataset["by"] = metric;
    for (const button of this.element.querySelectorAll("[data-metric]")) {
      button.setAttribute("aria-checked", String(button.getAttribute("data-metric") === metric));
    }
    for (const section of this.sections.values()) {
      for (const row of section.rows?.values() ?? []) this.heat(row, this.model.line(section.file, row.number));
    }
  }

  private build(): void {
    const totals = new Map<number, { nodes: number; bytes: number; share: number; lines: number }>();
    for (const line of this.model.lines.values()) {
      const total = totals.get(line.file) ?? { nodes: 0, bytes: 0, share: 0, lines: 0 };
      total.nodes += line.own.length;
      total.bytes += line.bytes;
      total.share += line.share;
      total.lines += line.own.length + line.fused.length + line.calls > 0 ? 1 : 0;
      totals.set(line.file, total);
    }
    const files = [...totals].filter(([file, total]) => total.lines > 0 || this.model.data.files[file]?.text !== undefined);
    files.sort(([, a], [, b]) => b.nodes - a.nodes);
    const add = ([file, total]: (typeof files)[number]): HTMLElement => {
      const row = this.model.data.files[file]!;
      const name = short(row.path ?? "files are not recorded at this level", 300);
      const facts = [plural(total.nodes, "node")];
      if (total.bytes > 0) facts.push(bytes(total.bytes));
      if (total.share > 0) facts.push(percent(total.share));
      const state = stateOf(row.source, row.is_newer ?? false);
      const header = h(
        "button",
        { type: "button", class: "file", "aria-expanded": "false", "data-path": row.path ?? "", click: () => this.toggle(file) },
        h("span", { class: "chevron", "aria-hidden": "true" }),
        h("span", { class: "path" }, name),
        row.tier === "user" ? null : h("span", { class: "tag" }, row.tier),
        state ? h("span", { class: "tag", title: state[1] }, state[0]) : null,
        h("span", { class: "facts" }, facts.join(" · ")),
      );
      const body = h("div", { class: "lines", role: "listbox", "aria-label": `Lines of ${name}`, tabindex: 0, hidden: true });
      const unbuilt = (): never => {
        throw new Error("the file is closed");
      };
      this.sections.set(file, { file, header, body, rows: null, blocks: [], numbers: [], gaps: [], build: unbuilt });
      return h("div", { class: "section" }, header, body);
    };
    const [totalOf, shown] = [new Map(files), h("div", {})];
    this.add = (file) => {
      const total = totalOf.get(file);
      if (total) shown.append(add([file, total]));
    };
    this.list.append(...inSteps(shown, files, (entry) => this.sections.get(entry[0])?.header.parentElement ?? add(entry)));
    const gone = this.model.data.against?.lines.filter((line) => line.after === null) ?? [];
    if (gone.length) this.list.append(this.goneLines(gone));
    if (files.length === 0) {
      this.list.append(h("p", { class: "empty" }, "This model does not record where its nodes came from."));
    }
    const first = files[0]?.[0];
    if (first !== undefined) this.openFile(first);
  }

  /** Scrolls to the function with the first nodes of the first file. */
  start(): void {
    const section = this.sections.values().next().value;
    if (!section?.rows) return;
    const first = section.numbers.find((number) => {
      const entry = this.model.line(section.file, number);
      return entry !== undefined && entry.own.length + entry.fused.length > 0 && section.rows?.has(number);
    });
    if (first === undefined) return;
    const around = section.blocks.filter((block) => block.first + 1 <= first && first <= block.last + 1);
    const row = section.rows.get((around.at(-1)?.first ?? first - 1) + 1);
    const [pane, box] = [this.list.getBoundingClientRect(), row?.element.getBoundingClientRect()];
    if (box && box.bottom > pane.top + pane.height / 2) this.list.scrollTop += box.top - pane.top - TOP;
  }

  private goneLines(gone: LineChange[]): HTMLElement {
    const entry = (line: LineChange): Node =>
      h("li", {}, h("span", { class: "minus" }, "−"), ` ${short(line.path)}:${line.before}, in ${short(line.function)}: ${listOps(line.lost)}`);
    return h("section", { class: "gone" }, h("h3", {}, "Lines that are gone"), ...inSteps(h("ul", {}), gone, entry));
  }

  private toggle(file: number): void {
    const section = this.sections.get(file);
    if (!section) return;
    if (section.body.hidden) this.openFile(file);
    else {
      section.body.hidden = true;
      section.header.setAttribute("aria-expanded", "false");
    }
  }

  /** Opens a file and builds its lines when it is opened first. */
  openFile(file: number): void {
    if (!this.sections.has(file)) this.add(file);
    const section = this.sections.get(file);
    if (!section) return;
    section.body.hidden = false;
    section.header.setAttribute("aria-expanded", "true");
    if (section.rows) return;
    section.rows = new Map();
    const row = this.model.data.files[file]!;
    const lines = row.text === undefined ? null : this.model.textLines(file);
    const isLong = (lines?.length ?? 0) > MAX_PARSED;
    const parsed = lines && !isLong ? parse(lines.map((line) => line.slice(0, MAX_LINE))) : null;
    const silent = lines && parsed ? nothing(lines, parsed, (line) => this.model.line(file, line)) : new Map<number, Nothing>();
    const known = [...this.model.lines.values()].filter((line) => line.file === file).map((line) => line.line);
    const recorded = row.lines?.map(([number]) => number) ?? [];
    section.numbers = lines ? lines.map((_, at) => at + 1) : [...new Set([...known, ...recorded])].sort((a, b) => a - b);
    section.blocks = section.numbers.length > MAX_ROWS ? [] : (parsed?.blocks ?? []);
    const starts = new Map(section.blocks.map((block) => [block.first + 1, block]));
    let colors = 0;
    section.build = (number) => {
      const text = lines?.[number - 1] ?? this.model.text(file, number);
      const tokens = parsed?.tokens[number - 1] ?? [];
      colors += tokens.length;
      const isColored = colors <= MAX_COLORS;
      const entry = this.model.line(file, number);
      return this.row(section, number, text, isColored ? tokens : [], entry, silent.get(number), starts.get(number));
    };
    const count = section.numbers.length;
    section.gaps = [this.gap(section, 0, count)];
    section.body.append(section.gaps[0]!.element);
    const withNodes = new Set(known);
    if (count <= MAX_ROWS) {
      const first = section.numbers.findIndex((number) => withNodes.has(number));
      this.fill(section, first - FIRST_ROWS / 2, Math.max(first, 0) + FIRST_ROWS);
      return this.fillLater(section);
    }
    for (let at = 0; at < count && section.rows.size < MAX_ROWS / 2; at++) {
      if (withNodes.has(section.numbers[at]!)) this.fill(section, at - CONTEXT, at + CONTEXT + 1);
    }
    if (section.rows.size === 0) this.fill(section, 0, STEP);
  }

  /** Adds a file that the list does not show yet. */
  private add: (file: number) => void = () => {};

  /** Builds the rows that a file does not show at first, while nothing else is to be done. */
  private fillLater(section: Section): void {
    const gap = section.gaps[0];
    if (!gap) return;
    const build = (): void => {
      const at = section.gaps[0];
      if (at) this.fill(section, at.from, at.from + ROWS_AT_ONCE);
      this.fillLater(section);
    };
    if (typeof requestIdleCallback === "function") requestIdleCallback(build, { timeout: 1000 });
    else setTimeout(build, 50);
  }

  private gap(section: Section, from: number, to: number): Gap {
    if (section.numbers.length <= MAX_ROWS) {
      // Rows will be here soon, and what is below them keeps its place.
      const element = h("div", {});
      element.style.setProperty("height", `${(to - from) * ROW_HEIGHT}px`);
      return { from, to, element };
    }
    const show = (): void => this.fill(section, from, from + STEP);
    const all = plural(to - from, "line");
    const text = to - from > STEP ? `show ${STEP} of ${all}` : `show ${all}`;
    return { from, to, element: h("button", { type: "button", class: "gap", click: show }, text) };
  }

  /** Builds the rows of lines that have none. */
  private fill(section: Section, start: number, end: number): void {
    for (const gap of section.gaps.filter((gap) => gap.from < end && start < gap.to)) {
      const [from, to] = [Math.max(gap.from, start), Math.min(gap.to, end)];
      const parts: Node[] = [];
      const rest = [[gap.from, from], [to, gap.to]].map(([a, b]) => (a! < b! ? this.gap(section, a!, b!) : null));
      const [before, after] = [rest[0] ?? null, rest[1] ?? null];
      if (before) parts.push(before.element);
      for (let at = from; at < to; at++) {
        const row = section.build(section.numbers[at]!);
        section.rows?.set(row.number, row);
        parts.push(row.element);
      }
      if (after) parts.push(after.element);
      gap.element.replaceWith(...parts);
      section.gaps.splice(section.gaps.indexOf(gap), 1, ...rest.filter((part): part is Gap => part !== null));
    }
  }

  /** Builds the row of a line with those around it. */
  private reveal(section: Section, line: number): void {
    if (section.gaps.length === 0 || section.rows?.has(line)) return;
    let [low, high] = [0, section.numbers.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (section.numbers[middle]! < line) low = middle + 1;
      else high = middle;
    }
    if (section.numbers[low] === line) this.fill(section, low - CONTEXT, low + CONTEXT + 1);
  }

  private row(
    section: Section, number: number, text: string | null, tokens: Token[],
    entry: Line | undefined, silent: Nothing | undefined, block: Block | undefined,
  ): Row {
    const code = h("code", {});
    const cells = this.metrics.map((metric) => h("span", { class: `metric ${metric}` }, entry ? shown(entry, metric) : ""));
    const { file } = section;
    const element = h(
      "div",
      {
        class: "line",
        role: "option",
        "aria-selected": "false",
        tabindex: -1,
        "data-file": this.model.path(file),
        "data-line": number,
      },
      ...cells,
      h("span", { class: "change" }),
      block && block.last > block.first
        ? h("button", { class: "fold", type: "button", tabindex: -1, "aria-label": "Fold", "aria-expanded": "true", click: (event: Event) => this.fold(event, section, block) })
        : h("span", { class: "fold" }),
      h("span", { class: "number" }, String(number)),
      code,
    );
    const made: Row = { number, element, code, text: text === null ? null : cut(text, MAX_LINE), tokens };
    if (made.text === null) code.append(h("span", { class: "unknown" }, clean(entry?.function ? `in ${entry.function}` : "…")));
    else paint(made, []);
    const hint = entry ? describe(this.model, entry) : null;
    if (hint) element.append(h("span", { class: "ops" }, hint));
    else if (silent) element.append(h("span", { class: "nothing", title: silent.why }, silent.word));
    if (entry && entry.own.length + entry.fused.length > 0) element.classList.add("has-nodes");
    else if (entry && entry.calls > 0) element.classList.add("has-calls");
    if (entry?.placed) element.append(badge(entry.placed));
    if (entry?.change) this.change(element, entry.change);
    this.heat(made, entry);
    element.addEventListener("click", () => this.events.select(file, number));
    element.addEventListener("pointerenter", () => this.events.hover(file, number));
    element.addEventListener("pointerleave", () => this.events.hover(file, null));
    return made;
  }

  private change(element: HTMLElement, change: LineChange): void {
    const count = (list: { count: number }[]): number => list.reduce((sum, entry) => sum + entry.count, 0);
    const [gained, lost] = [count(change.gained), count(change.lost)];
    const cell = element.querySelector(".change");
    if (gained) cell?.append(h("span", { class: "plus" }, `+${gained}`));
    if (lost) cell?.append(h("span", { class: "minus" }, `−${lost}`));
    if (!gained && !lost) cell?.append(h("span", { class: "tilde" }, "~"));
    element.classList.add(gained && !lost ? "is-gained" : lost && !gained ? "is-lost" : "is-changed");
  }

  private heat({ element }: Row, entry: Line | undefined): void {
    const most = this.most.get(this.metric) ?? 0;
    const value = entry ? measure(entry, this.metric) : 0;
    const part = most > 0 ? Math.sqrt(value / most) : 0;
    element.style.setProperty("--heat", part.toFixed(3));
    element.classList.toggle("is-wrong", (entry?.wrong ?? 0) > 0);
  }

  private fold(event: Event, section: Section, block: Block): void {
    event.stopPropagation();
    const button = event.currentTarget as HTMLElement;
    const isOpen = button.getAttribute("aria-expanded") === "true";
    this.setFold(section, block, !isOpen);
  }

  private setFold(section: Section, block: Block, isOpen: boolean): void {
    const header = section.rows?.get(block.first + 1)?.element;
    header?.querySelector(".fold")?.setAttribute("aria-expanded", String(isOpen));
    header?.classList.toggle("is-folded", !isOpen);
    // A folded table has rows.
    this.fill(section, block.first, block.last + 1);
    for (let line = block.first + 2; line <= block.last + 1; line++) {
      const row = section.rows?.get(line);
      if (row) row.element.hidden = !isOpen;
    }
    // Functions inside that are folded stay so.
    if (!isOpen) return;
    for (const inner of section.blocks) {
      const isInside = inner.first > block.first && inner.last <= block.last;
      const isFolded = section.rows?.get(inner.first + 1)?.element.classList.contains("is-folded");
      if (isInside && isFolded) this.setFold(section, inner, false);
    }
  }

  /** Highlights lines; the first one is scrolled to, and its expression is underlined. */
  setLinked(lines: { file: number; line: number; isFused: boolean }[], spans: Map<string, Span[]>, isSelected: boolean): void {
    for (const row of this.linked) {
      row.element.classList.remove("is-linked", "is-fused", "is-selected");
      row.element.setAttribute("aria-selected", "false");
    }
    for (const row of this.underlined) if (row.text !== null) paint(row, []);
    this.linked = [];
    this.underlined = [];
    this.current = null;
    const opened = new Set<number>();
    for (const { file, line, isFused } of lines) {
      if (opened.size < MAX_OPENED || opened.has(file)) this.openFile(file);
      opened.add(file);
      const section = this.sections.get(file);
      if (section) this.reveal(section, line);
      const row = section?.rows?.get(line);
      if (!row) continue;
      this.unfold(file, line);
      row.element.classList.add("is-linked");
      row.element.classList.toggle("is-fused", isFused);
      row.element.classList.toggle("is-selected", isSelected && this.current === null);
      row.element.setAttribute("aria-selected", "true");
      this.linked.push(row);
      this.current ??= row;
    }
    for (const [at, list] of spans) {
      const [file, line] = at.split(":").map(Number);
      const row = this.sections.get(file!)?.rows?.get(line!);
      if (!row || row.text === null) continue;
      paint(row, list);
      this.underlined.push(row);
    }
    if (this.current) this.scrollTo(this.current.element);
  }

  private unfold(file: number, line: number): void {
    const section = this.sections.get(file);
    for (const block of section?.blocks ?? []) {
      const isInside = block.first + 1 < line && line <= block.last + 1;
      const header = section?.rows?.get(block.first + 1)?.element;
      if (section && isInside && header?.classList.contains("is-folded")) this.setFold(section, block, true);
    }
  }

  private scrollTo(row: HTMLElement): void {
    const [pane, box] = [this.list.getBoundingClientRect(), row.getBoundingClientRect()];
    if (box.top >= pane.top + TOP && box.bottom <= pane.bottom - 10) return;
    this.list.scrollTop += box.top - pane.top - pane.height / 3;
  }

  setHover(lines: { file: number; line: number }[]): void {
    for (const row of this.hovered) row.element.classList.remove("is-hovered");
    this.hovered = lines.flatMap(({ file, line }) => this.sections.get(file)?.rows?.get(line) ?? []);
    for (const row of this.hovered) row.element.classList.add("is-hovered");
  }

  /** Returns the next line with nodes, in the order of the pane. */
  next(file: number, line: number, isDown: boolean): { file: number; line: number } | null {
    const rows = this.sections.get(file)?.rows;
    if (!rows) return null;
    const numbers = this.sections.get(file)?.numbers ?? [];
    const has = (number: number): boolean => {
      if (rows.get(number)?.element.hidden) return false;
      const entry = this.model.line(file, number);
      return entry !== undefined && entry.own.length + entry.fused.length + entry.calls > 0;
    };
    const found = isDown
      ? numbers.find((number) => number > line && has(number))
      : numbers.findLast((number) => number < line && has(number));
    return found === undefined ? null : { file, line: found };
  }

  focus(): void {
    (this.current?.element ?? this.element.querySelector<HTMLElement>(".file"))?.focus({ preventScroll: true });
  }
}
