// Saves the graph as a picture. Nothing is loaded for it, so the policy of the page stays as strict as it is.

import { s } from "./dom";

/** A shape with its style and its place. */
interface Shape {
  kind: "rect" | "path" | "text";
  x: number;
  y: number;
  width: number;
  height: number;
  radius: number;
  path: string;
  text: string;
  style: Style;
}

interface Style {
  fill: string;
  stroke: string;
  strokeWidth: number;
  dashes: number[];
  font: string;
  size: number;
  weight: string;
  anchor: "start" | "middle" | "end";
  hasArrow: boolean;
}

export interface Drawn {
  world: SVGElement;
  width: number;
  height: number;
}

const MARGIN = 24;
/** Browsers draw no larger canvas. */
const MAX_SIDE = 16_000;
const MAX_PIXELS = 120_000_000;
const FONT = "system-ui, 'Segoe UI', Roboto, sans-serif";
/** The corner of an arrow, relative to its tip. */
const ARROW = "M-7 -3L0 0L-7 3Z";

/** Reads the shapes of a drawing with the colors of the page. */
function shapesOf({ world }: Drawn): { shapes: Shape[]; background: string; edge: string } {
  const host = s("svg", { class: "graph is-saved" }, world);
  document.body.append(host);
  const shapes: Shape[] = [];
  const visit = (element: Element, x: number, y: number): void => {
    const style = getComputedStyle(element);
    if (style.display === "none") return;
    const move = /^translate\(([-\d.]+) ([-\d.]+)\)$/.exec(element.getAttribute("transform") ?? "");
    const [left, top] = move ? [x + Number(move[1]), y + Number(move[2])] : [x, y];
    const number = (name: string): number => Number(element.getAttribute(name) ?? 0);
    const kind = element.localName;
    if (kind === "rect" || kind === "path" || kind === "text") {
      shapes.push({
        kind,
        x: left + number("x"),
        y: top + number("y"),
        width: number("width"),
        height: number("height"),
        radius: number("rx"),
        path: element.getAttribute("d") ?? "",
        text: kind === "text" ? (element.textContent ?? "") : "",
        style: {
          fill: style.fill,
          stroke: style.stroke,
          strokeWidth: parseFloat(style.strokeWidth),
          dashes: style.strokeDasharray === "none" ? [] : style.strokeDasharray.split(/[ ,]+/).map(parseFloat),
          font: FONT,
          size: parseFloat(style.fontSize),
          weight: style.fontWeight,
          anchor: (style.textAnchor as Style["anchor"]) || "start",
          hasArrow: element.hasAttribute("marker-end"),
        },
      });
    }
    for (const child of element.children) visit(child, left, top);
  };
  for (const child of world.children) visit(child, 0, 0);
  const root = getComputedStyle(document.body);
  const edge = shapes.find(({ style }) => style.hasArrow)?.style.stroke ?? "gray";
  const background = root.backgroundColor;
  host.remove();
  return { shapes: shapes.filter(({ style }) => style.fill !== "none" || style.stroke !== "none"), background, edge };
}

/** Returns the picture as a file of SVG that needs no style sheet. */
export function toSvg(drawn: Drawn): string {
  const { shapes, background, edge } = shapesOf(drawn);
  const [width, height] = [Math.ceil(drawn.width + 2 * MARGIN), Math.ceil(drawn.height + 2 * MARGIN)];
  const arrow = s("marker", { id: "arrow", viewBox: "-8 -4 8 8", markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse", refX: 0, refY: 0 }, s("path", { d: ARROW, fill: edge }));
  const world = s("g", { transform: `translate(${MARGIN} ${MARGIN})`, "font-family": FONT });
  for (const { kind, x, y, style, ...shape } of shapes) {
    const isText = kind === "text";
    const place = kind === "path" ? { d: shape.path, transform: x || y ? `translate(${x} ${y})` : null } : { x, y };
    const size = kind === "rect" ? { width: shape.width, height: shape.height, rx: shape.radius || null } : {};
    const font = isText ? { "font-size": style.size, "font-weight": style.weight === "400" ? null : style.weight, "text-anchor": style.anchor } : {};
    const stroke = style.stroke === "none" || isText ? {} : { stroke: style.stroke, "stroke-width": style.strokeWidth, "stroke-dasharray": style.dashes.join(" ") || null };
    world.append(s(kind, { ...place, ...size, ...font, ...stroke, fill: style.fill, "marker-end": style.hasArrow ? "url(#arrow)" : null }, isText ? shape.text : null));
  }
  const svg = s(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}` },
    s("defs", {}, arrow),
    s("rect", { width, height, fill: background }),
    world,
  );
  return new XMLSerializer().serializeToString(svg);
}

/** Returns the picture as PNG, at twice the size of the page if a browser can draw it. */
export async function toPng(drawn: Drawn): Promise<Blob | null> {
  const { shapes, background, edge } = shapesOf(drawn);
  const [width, height] = [drawn.width + 2 * MARGIN, drawn.height + 2 * MARGIN];
  const scale = Math.min(2, MAX_SIDE / width, MAX_SIDE / height, Math.sqrt(MAX_PIXELS / width / height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const context = canvas.getContext("2d");
  if (!context) return null;
  context.fillStyle = background;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.scale(scale, scale);
  context.translate(MARGIN, MARGIN);
  for (const shape of shapes) paint(context, shape, edge);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function paint(context: CanvasRenderingContext2D, { kind, x, y, style, ...shape }: Shape, edge: string): void {
  context.save();
  context.translate(x, y);
  context.fillStyle = style.fill;
  context.strokeStyle = style.stroke;
  context.lineWidth = style.strokeWidth;
  context.setLineDash(style.dashes.filter(Number.isFinite));
  if (kind === "text") {
    context.font = `${style.weight} ${style.size}px ${style.font}`;
    context.textAlign = style.anchor === "middle" ? "center" : style.anchor;
    context.fillText(shape.text, 0, 0);
  } else {
    const path = new Path2D(kind === "path" ? shape.path : undefined);
    if (kind === "rect") path.roundRect(0, 0, shape.width, shape.height, shape.radius);
    if (style.fill !== "none") context.fill(path);
    if (style.stroke !== "none") context.stroke(path);
    const tip = style.hasArrow ? /([-\d.]+) ([-\d.]+)$/.exec(shape.path) : null;
    if (tip) {
      // Every edge ends from above.
      context.translate(Number(tip[1]), Number(tip[2]));
      context.rotate(Math.PI / 2);
      context.fillStyle = edge;
      context.fill(new Path2D(ARROW));
    }
  }
  context.restore();
}

/** Offers a file to the user. The link is never part of the page. */
export function download(name: string, contents: Blob): void {
  const url = URL.createObjectURL(contents);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
