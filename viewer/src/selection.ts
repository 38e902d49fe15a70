// What is selected, and how a hash says so.

import type { Model } from "./model";

export type Selection =
  | { kind: "node"; node: number; item: string | null }
  | { kind: "line"; file: number; line: number }
  | { kind: "box"; item: string }
  | { kind: "end"; side: "input" | "output"; value: number }
  | { kind: "weight"; value: number }
  | { kind: "op"; op: string }
  | { kind: "shape"; type: string };

/** Everything that a hash says. */
export interface Address {
  selection: Selection | null;
  open: string[] | null;
  position: [number, number, number] | null;
}

/** Writes the hash of a view. */
export function toHash(model: Model, { selection, open, position }: Address): string {
  const parts: [string, string][] = [];
  switch (selection?.kind) {
    case "node": {
      const name = model.name(selection.node);
      parts.push(["node", model.byName.get(name) === selection.node ? name : `@${selection.node}`]);
      if (selection.item) parts.push(["item", selection.item]);
      break;
    }
    case "line":
      parts.push(["line", `${model.path(selection.file)}:${selection.line}`]);
      break;
    case "box":
      parts.push(["box", selection.item]);
      break;
    case "end":
      parts.push([selection.side, model.value(selection.value)]);
      break;
    case "weight":
      parts.push(["weight", model.value(selection.value)]);
      break;
    case "op":
      parts.push(["op", selection.op]);
      break;
    case "shape":
      parts.push(["shape", selection.type]);
  }
  if (open) parts.push(["open", open.map((id) => id.replaceAll(",", "%2C")).join(",")]);
  if (position) parts.push(["view", position.join(",")]);
  return parts.map(([key, value]) => `${key}=${escape(value)}`).join("&");
}

/** Escapes what would end a part of a hash, and leaves the rest readable. */
function escape(text: string): string {
  return encodeURIComponent(text).replace(/%(2F|3A|2C|5B|5D|7C|40)/g, (code) => decodeURIComponent(code));
}

/** Reads a hash. Parts that name nothing of this model are left out. */
export function fromHash(model: Model, hash: string): Address {
  const parts = new Map<string, string>();
  for (const part of hash.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    if (at < 0) continue;
    try {
      parts.set(part.slice(0, at), decodeURIComponent(part.slice(at + 1)));
    } catch {
      // A broken escape: the part names nothing.
    }
  }
  const numbers = (parts.get("view") ?? "").split(",").map(Number);
  const [x, y, zoom] = numbers;
  const isPosition = numbers.length === 3 && numbers.every(Number.isFinite);
  return {
    selection: selectionOf(model, parts),
    open: parts.get("open")?.split(",").map((id) => id.replaceAll("%2C", ",")) ?? null,
    position: isPosition ? [x!, y!, zoom!] : null,
  };
}

function selectionOf(model: Model, parts: Map<string, string>): Selection | null {
  const node = parts.get("node");
  if (node !== undefined) {
    const number = /^@\d+$/.test(node) ? Number(node.slice(1)) : model.byName.get(node);
    const isKnown = number !== undefined && number < model.data.nodes.length;
    return isKnown ? { kind: "node", node: number, item: parts.get("item") ?? null } : null;
  }
  const line = /^(.*):(\d+)$/.exec(parts.get("line") ?? "");
  if (line) {
    const file = model.file(line[1]!);
    return file < 0 ? null : { kind: "line", file, line: Number(line[2]) };
  }
  const box = parts.get("box");
  if (box !== undefined) return { kind: "box", item: box };
  for (const side of ["input", "output"] as const) {
    const name = parts.get(side);
    const values = model.data.graphs[0]?.[`${side}s`] ?? [];
    const value = name === undefined ? undefined : values.find((number) => model.value(number) === name);
    if (value !== undefined) return { kind: "end", side, value };
  }
  const weight = parts.get("weight");
  if (weight !== undefined) {
    const found = model.data.weights.find(([value]) => model.value(value) === weight);
    return found ? { kind: "weight", value: found[0] } : null;
  }
  const op = parts.get("op");
  if (op !== undefined) return { kind: "op", op };
  const shape = parts.get("shape");
  return shape === undefined ? null : { kind: "shape", type: shape };
}
