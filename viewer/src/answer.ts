// The answer of a report or a profile: the line that computes the first wrong number, or the slowest one.

import { percent, plural, short } from "./dom";
import type { Changes } from "./earlier";
import type { Model } from "./model";
import type { Selection } from "./selection";

/** A sentence, with what it is about. */
export interface Answer {
  text: string;
  /** The report whose sentence it is. */
  report: "compare" | "sensitivity" | null;
  /** The line or the node to show; null if the sentence is about neither. */
  selection: Selection | null;
  /** The node of the line that matters most, or -1. */
  node: number;
}

/** Returns the answer of the report, or of the profile, if the page has one. */
export function answerOf(model: Model, changes: Changes | null): Answer | null {
  const { compare } = model.data;
  const wrong = compare && wrongOf(model);
  if (wrong?.selection) return wrong;
  return lostOf(model) ?? slowestOf(model) ?? changedOf(model, changes) ?? wrong;
}

/** Returns the first line that differs from an earlier model, or the first node that reads another weight. */
function changedOf(model: Model, changes: Changes | null): Answer | null {
  const { against } = model.data;
  if (!against) return null;
  const weights = against.weights?.length ?? 0;
  const changed: string[] = [];
  if (against.lines.length) changed.push(plural(against.lines.length, "line"));
  if (weights) changed.push(plural(weights, "weight"));
  if (changed.length === 0) return null;
  const text = `${changed.join(" and ")} changed since ${short(against.name, 60)}`;
  const first = against.lines.find(({ file, after }) => file !== null && after !== null);
  if (!first) {
    const node = against.different?.[0] ?? -1;
    return { text, report: null, selection: node < 0 ? null : selectionOf(model, node), node };
  }
  const entry = model.line(first.file!, first.after!);
  const selection: Selection = { kind: "line", file: first.file!, line: first.after! };
  const node = entry?.own.find((own) => changes?.later.has(own));
  return { text, report: null, selection, node: node ?? entry?.own[0] ?? -1 };
}

/** Returns the line of a node, or the node itself if its line is not known. */
function selectionOf(model: Model, node: number): Selection {
  const location = model.callsite(node);
  if (location < 0) return { kind: "node", node, item: null };
  const [file, , line] = model.location(location);
  return { kind: "line", file, line };
}

function wrongOf(model: Model): Answer {
  const { verdict, first, nodes, lines } = model.data.compare!;
  const text = short(verdict.replaceAll("`", ""), 120);
  const node = first ?? nodes.find((row) => row.is_wrong)?.node ?? -1;
  if (node >= 0 && model.data.nodes[node]) return { text, report: "compare", selection: selectionOf(model, node), node };
  const line = lines.find((row) => row.is_wrong);
  return { text, report: "compare", selection: line ? { kind: "line", file: line.file, line: line.line } : null, node: -1 };
}

/** Returns the line that loses most in a shorter type. */
function lostOf(model: Model): Answer | null {
  const { sensitivity } = model.data;
  if (!sensitivity) return null;
  const { first, lines } = sensitivity;
  const text = short(sensitivity.verdict.replaceAll("`", ""), 120);
  const node = first !== null && model.data.nodes[first] ? first : -1;
  const line = lines[0];
  const place: Selection | null = line ? { kind: "line", file: line.file, line: line.line } : null;
  return { text, report: "sensitivity", selection: node >= 0 ? selectionOf(model, node) : place, node };
}

function slowestOf(model: Model): Answer | null {
  const { profile } = model.data;
  if (!profile) return null;
  const most = <T extends { share: number }>(rows: readonly T[]): T | null =>
    rows.reduce<T | null>((best, row) => (row.share > (best?.share ?? 0) ? row : best), null);
  const line = most(profile.lines);
  if (!line) {
    const row = most(profile.nodes);
    if (!row) return null;
    const text = `slowest: ${short(model.name(row.node), 60)}, ${percent(row.share)} of the time`;
    return { text, report: null, selection: { kind: "node", node: row.node, item: null }, node: row.node };
  }
  const entry = model.line(line.file, line.line);
  const own = (entry?.own ?? []).map((node) => ({ node, share: model.share[node]! }));
  const path = short(model.path(line.file).split("/").at(-1) || "line", 60);
  return {
    text: `slowest: ${path}:${line.line}, ${percent(line.share)} of the time`,
    report: null,
    selection: { kind: "line", file: line.file, line: line.line },
    node: most(own)?.node ?? entry?.own[0] ?? entry?.fused[0] ?? -1,
  };
}
