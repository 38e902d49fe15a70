// The rows of the source pane: the text of a line, and what the model has of it.

import { amount, bytes, clean, countOps, h, percent, plural, short, thousands } from "./dom";
import type { PlacedLine } from "./format";
import { type Line, type Metric, type Model } from "./model";
import { charAt, type Token } from "./python";

/** A longer line is cut. */
export const MAX_LINE = 1000;

/** An expression on a line: the first and the last byte, or a whole line. */
export interface Span {
  start: number;
  end: number;
}

/** A row of a file. */
export interface Row {
  number: number;
  element: HTMLElement;
  code: HTMLElement;
  text: string | null;
  tokens: Token[];
}

/** Returns the state of a file as a tag and its explanation, or null for a file that is the exported one. */
export function stateOf(source: string, isNewer: boolean): [string, string] | null {
  switch (source) {
    case "unchecked":
      return isNewer ? ["newer", "The file was changed after the model was written. The page may show other lines than the export."] : null;
    case "changed":
      return ["changed", "The file is not the one that was exported, so the page does not show it."];
    case "missing":
      return ["not found", "The file was not found. Pass its folder with --source-root."];
    case "omitted":
      return ["no source", "The page was written without source text."];
    default:
      return null;
  }
}

/** Returns an error with one or two digits: `1.1`, `5e-7`. */
function errorText(error: number): string {
  return error >= 0.01 && error < 1000 ? String(Number(error.toPrecision(2))) : error.toExponential(0).replace("e+", "e");
}

/** Returns a metric of a line as text. */
export function shown(line: Line, metric: Metric): string {
  switch (metric) {
    case "nodes":
      return line.own.length ? thousands(line.own.length) : "";
    case "weights":
      return line.bytes ? bytes(line.bytes) : "";
    case "time":
      return line.share ? percent(line.share) : "";
    case "error":
      return line.error === null ? "" : line.error === 0 ? "0" : line.error === Infinity ? "∞" : errorText(line.error);
    case "loss":
      return line.loss === null ? "" : line.loss.error === Infinity ? "∞" : percent(line.loss.error);
    case "operations":
      return line.operations ? amount(line.operations) : "";
    case "moved":
      return line.moved ? bytes(line.moved) : "";
    case "memory":
      return line.held ? bytes(line.held) : "";
  }
}

/** Describes what a line became: its operators, then in parentheses those of other lines. */
export function describe(model: Model, line: Line): string | null {
  const own = countOps(line.own.map((node) => model.op(node)));
  const fused = countOps(line.fused.map((node) => model.op(node)));
  if (own || fused) return [own, fused && `(${fused})`].filter(Boolean).join(", ");
  if (line.calls > 0) return `→ ${plural(line.calls, "node")}`;
  return null;
}

/** Names the providers of a line that does not run where most nodes run, and counts its copies. */
export function badge({ providers, copies }: PlacedLine): HTMLElement {
  const names = providers.map((name) => short(name.replace(/(?<=.)ExecutionProvider$/, "")));
  const count = copies.length === 1 ? "1 copy" : `${copies.length} copies`;
  const text = [names.join(", "), copies.length > 0 && count].filter(Boolean).join(" · ");
  return h("span", { class: "tag placed", title: [...providers, ...copies.slice(0, 20)].join("\n") }, text);
}

/** Writes the text of a line with its colors, and underlines expressions. */
export function paint(row: Row, spans: Span[]): void {
  const text = row.text ?? "";
  const marks = spans.map(({ start, end }): [number, number] => [charAt(text, start), end < 0 ? text.length : charAt(text, end)]);
  const cuts = new Set([0, text.length]);
  for (const [start, end] of [...marks, ...row.tokens.map(([a, b]): [number, number] => [a, b])]) {
    cuts.add(Math.min(start, text.length));
    cuts.add(Math.min(end, text.length));
  }
  const sorted = [...cuts].sort((a, b) => a - b);
  // Tokens are in order and do not overlap.
  let next = 0;
  const parts: (Node | string)[] = [];
  for (let at = 0; at + 1 < sorted.length; at++) {
    const [start, end] = [sorted[at]!, sorted[at + 1]!];
    const part = text.slice(start, end);
    while (next < row.tokens.length && row.tokens[next]![1] <= start) next++;
    const [first, , name] = row.tokens[next] ?? [Infinity, 0, ""];
    const token = first <= start ? name : "";
    const isMarked = marks.some(([a, b]) => a <= start && end <= b);
    const names = [token && `t-${token}`, isMarked && "expression"].filter(Boolean).join(" ");
    parts.push(names ? h("span", { class: names }, part) : clean(part));
  }
  row.code.replaceChildren(...parts);
}
