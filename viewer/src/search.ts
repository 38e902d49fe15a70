// The search for nodes, operators, lines, weights and shapes.

import { bytes, h, plural, short } from "./dom";
import type { Model } from "./model";
import type { Selection } from "./selection";

interface Hit {
  kind: string;
  text: string;
  detail: string;
  selection: Selection;
}

const MAX_PER_KIND = 8;

export class Search {
  readonly dialog: HTMLDialogElement;
  private readonly input: HTMLInputElement;
  private readonly list: HTMLElement;
  private hits: Hit[] = [];
  private at = 0;

  constructor(
    private readonly model: Model,
    private readonly select: (selection: Selection) => void,
  ) {
    this.input = h("input", {
      type: "text",
      placeholder: "Search nodes, inputs, operators, lines, weights, shapes",
      "aria-label": "Search",
      role: "combobox",
      "aria-expanded": "true",
      "aria-controls": "results",
      autocomplete: "off",
      spellcheck: "false",
      input: () => this.update(),
      keydown: (event: KeyboardEvent) => this.key(event),
    }) as HTMLInputElement;
    this.list = h("ul", { id: "results", role: "listbox", "aria-label": "Results" });
    this.dialog = h("dialog", { class: "search", "aria-label": "Search" }, this.input, this.list) as HTMLDialogElement;
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
  }

  open(): void {
    this.dialog.showModal();
    this.input.select();
    this.update();
  }

  private update(): void {
    this.hits = this.find(this.input.value.trim().toLowerCase());
    this.at = 0;
    this.show();
  }

  private show(): void {
    let kind = "";
    const rows: HTMLElement[] = [];
    this.hits.forEach((hit, at) => {
      if (hit.kind !== kind) rows.push(h("li", { class: "kind", role: "presentation" }, (kind = hit.kind)));
      rows.push(
        h(
          "li",
          { class: "hit", role: "option", "aria-selected": at === this.at, click: () => this.choose(at) },
          h("span", { class: "text" }, short(hit.text, 300)),
          h("span", { class: "detail" }, short(hit.detail, 300)),
        ),
      );
    });
    if (rows.length === 0 && this.input.value) rows.push(h("li", { class: "kind" }, "Nothing found"));
    this.list.replaceChildren(...rows);
    this.list.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "Enter") this.choose(this.at);
    else if (event.key === "ArrowDown") this.at = Math.min(this.at + 1, this.hits.length - 1);
    else if (event.key === "ArrowUp") this.at = Math.max(this.at - 1, 0);
    else return;
    event.preventDefault();
    event.stopPropagation();
    if (this.dialog.open) this.show();
  }

  private choose(at: number): void {
    const hit = this.hits[at];
    if (!hit) return;
    this.dialog.close();
    this.select(hit.selection);
  }

  private find(query: string): Hit[] {
    if (!query) return [];
    const { data } = this.model;
    const ops = new Map<string, number>();
    const shapes = new Map<string, number>();
    const nodes: Hit[] = [];
    data.nodes.forEach(([name, op, , , outputs], node) => {
      if (op.toLowerCase().includes(query)) ops.set(op, (ops.get(op) ?? 0) + 1);
      const type = outputs[0] === undefined || outputs[0] < 0 ? "" : this.model.type(outputs[0]);
      if (type.toLowerCase().includes(query)) shapes.set(type, (shapes.get(type) ?? 0) + 1);
      if (nodes.length < 200 && name.toLowerCase().includes(query)) {
        nodes.push({ kind: "Nodes", text: name, detail: `${op} ${type}`, selection: { kind: "node", node, item: null } });
      }
    });
    const ends = this.ends(query);
    // The best match of a name is the shortest one.
    nodes.sort((a, b) => a.text.length - b.text.length);
    const many = ([text, count]: [string, number], kind: string, selection: Selection): Hit => ({
      kind, text, detail: plural(count, "node"), selection,
    });
    const byCount = (counts: Map<string, number>): [string, number][] => [...counts].sort((a, b) => b[1] - a[1]);
    const weights = data.weights
      .filter(([value]) => this.weightText(value).toLowerCase().includes(query))
      .slice(0, MAX_PER_KIND)
      .map(([value, size]): Hit => ({
        kind: "Weights",
        text: this.weightText(value),
        detail: `${this.model.type(value)} ${bytes(size)}`,
        selection: { kind: "weight", value },
      }));
    return [
      ...byCount(ops).slice(0, 4).map((entry) => many(entry, "Operators", { kind: "op", op: entry[0] })),
      ...nodes.slice(0, MAX_PER_KIND),
      ...ends,
      ...this.lines(query),
      ...weights,
      ...byCount(shapes).slice(0, 4).map((entry) => many(entry, "Shapes", { kind: "shape", type: entry[0] })),
    ];
  }

  /** Finds inputs and outputs of the main graph. */
  private ends(query: string): Hit[] {
    const main = this.model.data.graphs[0];
    return (["input", "output"] as const).flatMap((side) => {
      const hits: Hit[] = [];
      for (const value of main?.[`${side}s`] ?? []) {
        const name = this.model.value(value);
        if (hits.length >= MAX_PER_KIND) break;
        if (this.model.weightOf[value]! >= 0 || !name.toLowerCase().includes(query)) continue;
        hits.push({ kind: side === "input" ? "Inputs" : "Outputs", text: name, detail: this.model.type(value), selection: { kind: "end", side, value } });
      }
      return hits;
    });
  }

  private weightText(value: number): string {
    const [name, , path] = this.model.data.values[value]!;
    return path ?? name;
  }

  private lines(query: string): Hit[] {
    const hits: Hit[] = [];
    this.model.data.files.forEach((row, file) => {
      if (hits.length >= MAX_PER_KIND) return;
      const known = row.text === undefined ? (row.lines ?? []).map(([, text]) => text) : this.model.textLines(file);
      const path = short(row.path ?? "", 300);
      for (const [at, text] of known.entries()) {
        if (hits.length >= MAX_PER_KIND) return;
        const line = row.text === undefined ? row.lines![at]![0] : at + 1;
        const place = `${path}:${line}`;
        if (!text.toLowerCase().includes(query) && !place.toLowerCase().endsWith(query)) continue;
        const count = this.model.line(file, line)?.own.length ?? 0;
        const detail = count ? `${place} · ${plural(count, "node")}` : place;
        hits.push({ kind: "Lines", text: short(text.trim(), 300), detail, selection: { kind: "line", file, line } });
      }
    });
    return hits;
  }
}
