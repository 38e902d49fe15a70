// The pictures of boxes and edges.

import { classOf } from "./colors";
import { clean, s, short } from "./dom";
import { bendOf, type Edge, type Layout, type Placed, type Point, sizeOf, titleOf } from "./layout";
import type { Model } from "./model";

const measured = new Map<string, number>();
let context: CanvasRenderingContext2D | null = null;

/** Returns the width of a text in a box, which is not wider than its first letters. */
export function textWidth(whole: string, isBold: boolean): number {
  const text = short(whole);
  const key = (isBold ? "b" : "n") + text;
  let width = measured.get(key);
  if (width === undefined) {
    context ??= document.createElement("canvas").getContext("2d");
    if (context) {
      context.font = isBold ? "600 12px system-ui, sans-serif" : "11px system-ui, sans-serif";
      width = context.measureText(text).width;
    } else width = text.length * 7;
    measured.set(key, width);
  }
  return width;
}

function fit(whole: string, room: number, isBold: boolean): string {
  const text = short(whole);
  if (textWidth(text, isBold) <= room) return text;
  let end = text.length;
  while (end > 1 && textWidth(`${text.slice(0, end)}…`, isBold) > room) end = Math.floor(end * 0.9);
  return `${text.slice(0, end)}…`;
}

/** Describes a box for a screen reader. */
function label(model: Model, { item, isOpen }: Placed): string {
  if (item.kind === "node") {
    const [name, op, , , outputs] = model.node(item.number);
    const types = outputs.slice(0, 8).filter((value) => value >= 0).map((value) => short(model.type(value)));
    return clean(`${op}, ${name}, ${types.join(", ")}`);
  }
  if (item.kind === "input" || item.kind === "output") {
    return clean(`${item.kind} ${item.label}, ${model.type(item.number)}`);
  }
  return clean(`${titleOf(item)}, ${sizeOf(item)}, ${isOpen ? "open" : "closed"}`);
}

/** Draws a box: the rectangle, the title, and the rows below it. */
export function drawBox(model: Model, layout: Layout, placed: Placed, isContainer: boolean, color: string): SVGElement {
  const { item, x, y, width, height, isOpen } = placed;
  const isNode = item.kind === "node";
  const kind = isNode ? classOf(item.label) : item.isConstant ? "constant" : item.kind;
  const names = ["item", isOpen && "is-open", isNode ? "node" : item.kind, `is-${kind}`, !isOpen && color && `is-colored ${color}`];
  const g = s("g", {
    class: names.filter(Boolean).join(" "),
    transform: `translate(${x} ${y})`,
    "data-item": item.id,
    "data-node": isNode ? model.name(item.number) : null,
    "data-index": isNode ? item.number : null,
    "data-value": item.kind === "input" || item.kind === "output" ? item.label : null,
    role: "treeitem",
    "aria-level": placed.depth,
    "aria-expanded": isContainer ? isOpen : null,
    "aria-label": label(model, placed),
    tabindex: -1,
  });
  const radius = item.kind === "input" || item.kind === "output" ? 14 : isOpen ? 8 : 5;
  if (isContainer && !isOpen) {
    g.append(s("rect", { class: "shadow", x: 3, y: 3, width, height, rx: radius }));
  }
  g.append(s("rect", { class: "frame", width, height, rx: radius }));
  if (isNode && !isOpen) {
    const title = height > 30 ? `M0 28V5a5 5 0 0 1 5-5H${width - 5}a5 5 0 0 1 5 5V28Z` : null;
    g.append(title ? s("path", { class: "band", d: title }) : s("rect", { class: "band", width, height, rx: radius }));
  }
  g.append(s("rect", { class: "outline", width, height, rx: radius }));
  const room = width - (isContainer ? 40 : 16);
  const name = fit(titleOf(item), room, true);
  g.append(
    isOpen
      ? s("text", { class: "title", x: 30, y: 20 }, name)
      : s("text", { class: "title", x: isContainer ? (width - 16) / 2 : width / 2, y: 19, "text-anchor": "middle" }, name),
  );
  if (isContainer) {
    const at = isOpen ? 8 : width - 22;
    g.append(
      s(
        "g",
        { class: "toggle", transform: `translate(${at} 7)` },
        s("rect", { width: 15, height: 15, rx: 4 }),
        s("path", { d: isOpen ? "M4 7.5h7" : "M4 7.5h7M7.5 4v7" }),
      ),
    );
  }
  if (!isOpen) {
    layout.rows(item).forEach((row, at) => {
      const text = fit(row, width - 14, false);
      g.append(s("text", { class: "row", x: width / 2, y: 42 + 17 * at, "text-anchor": "middle" }, text));
    });
  }
  return g;
}

/** Returns the border of a box as a path. */
export function outline({ x, y, width, height }: Placed): string {
  return `M${Math.round(x)} ${Math.round(y)}h${Math.round(width)}v${Math.round(height)}h${-Math.round(width)}z`;
}

/** Draws an edge, with its text. */
export function drawEdge({ points, values, to, label }: Edge): SVGElement {
  const path = s("path", { d: curve(points), "marker-end": to ? "url(#arrow)" : null });
  const text = label && s("text", { x: round(label.x), y: round(label.y) }, label.text);
  return s("g", { class: values.length > 1 ? "edge is-many" : "edge" }, path, text);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** Returns a line that passes each point from above to below. */
function curve(points: Point[]): string {
  const at = ({ x, y }: Point): string => `${round(x)} ${round(y)}`;
  let path = "";
  points.forEach((point, number) => {
    const before = points[number - 1];
    if (!before) path = `M${at(point)}`;
    else if (Math.abs(before.x - point.x) < 0.5) path += `L${at(point)}`;
    else {
      const bend = bendOf(before, point);
      path += `C${at({ x: before.x, y: before.y + bend })} ${at({ x: point.x, y: point.y - bend })} ${at(point)}`;
    }
  });
  return path;
}
