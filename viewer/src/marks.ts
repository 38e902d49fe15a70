// Which nodes are highlighted, and how.

import type { Model } from "./model";

/** The nodes that a selection is linked to. */
export interface Marks {
  /** Nodes of the line, or the selected ones. */
  own: ReadonlySet<number>;
  /** Nodes that stand for the line beside another one. */
  fused: ReadonlySet<number>;
  /** Nodes that calls on the line made. */
  under: ReadonlySet<number>;
}

const EMPTY: ReadonlySet<number> = new Set();

export const NO_MARKS: Marks = { own: EMPTY, fused: EMPTY, under: EMPTY };

/** Returns the marks of a line. */
export function marksOfLine(model: Model, file: number, line: number, withCalls: boolean): Marks {
  const entry = model.line(file, line);
  if (!entry) return NO_MARKS;
  const own = new Set(entry.own);
  const fused = new Set(entry.fused);
  const isCall = withCalls && entry.calls > 0;
  const under = isCall ? model.under(file, line).filter((node) => !own.has(node) && !fused.has(node)) : [];
  return { own, fused, under: new Set(under) };
}

/** Returns the marks of some nodes. */
export function marksOfNodes(nodes: Iterable<number>): Marks {
  return { own: new Set(nodes), fused: EMPTY, under: EMPTY };
}
