// The pictures of boxes and edges.

import { clean, s, short } from "./dom";
import { type Edge, type Layout, type Placed, type Point, shape, sizeOf, titleOf } from "./layout";
import type { Model } from "./model";

const CLASSES: [string, RegExp][] = [
  ["control", /^(Loop|Scan|If|SequenceMap)$/],
  ["layer", /^(MatMul|Gemm|Conv|ConvTranspose|Einsum|QLinear.*|MatMulInteger|.*Attention|LSTM|GRU|RNN|FusedMatMul|FusedGemm|FusedConv|RotaryEmbedding)$/],
  ["activation", /^(Relu|LeakyRelu|PRelu|Elu|Celu|Selu|Gelu|Mish|Sigmoid|HardSigmoid|HardSwish|Tanh|Softmax|LogSoftmax|Softplus|Softsign|ThresholdedRelu|Swish|QuickGelu|FastGelu|BiasGelu|Erf)$/],
  ["normalization", /^(.*Normalization|Dropout|LpNormalization|MeanVarianceNormalization|LRN)$/],
  ["pool", /^(.*Pool|.*RoiAlign|Resize|Reduce.*|ArgMax|ArgMin|TopK|CumSum)$/],
  ["shape", /^(Reshape|Transpose|Squeeze|Unsqueeze|Flatten|Expand|Tile|Slice|Split|Concat|Pad|Gather.*|Scatter.*|Shape|Size|DepthToSpace|SpaceToDepth|Cast|CastLike|Identity|Constant|ConstantOfShape|Range|OneHot|Trilu)$/],
];

/** Returns the class that colors an operator. */
export function classOf(op: string): string {
  const name = short(op.slice(op.lastIndexOf(":") + 1));
  return CLASSES.find(([, pattern]) => pattern.test(name))?.[0] ?? (op.includes("::") ? "function" : "plain");
}

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
      context.font = isBold ? "600 12.5px system-ui, sans-serif" : "11px system-ui, sans-serif";
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
export function drawBox(model: Model, layout: Layout, placed: Placed, isContainer: boolean): SVGElement {
  const { item, x, y, width, height, isOpen } = placed;
  const isNode = item.kind === "node";
  const kind = isNode ? classOf(item.label) : item.kind;
  const g = s("g", {
    class: `item ${isOpen ? "is-open " : ""}${isNode ? "node " : `${item.kind} `}op-${kind}`,
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
    g.append(title ? s("path", { class: "bar", d: title }) : s("rect", { class: "bar", width, height, rx: radius }));
  }
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

/** Draws an edge, with the shape of its value if it stands for one. */
export function drawEdge(model: Model, edge: Edge, hasText: boolean): SVGElement {
  const { points, values } = edge;
  const g = s("g", { class: values.length > 1 ? "edge is-many" : "edge" }, s("path", { d: curve(points), "marker-end": edge.to ? "url(#arrow)" : null }));
  const from = points[0]!;
  const text = values.length === 1 ? shape(model.type(values[0]!)) : `${values.length.toLocaleString("en-US")} values`;
  if (hasText && text && text !== "?" && text.length < 26) {
    const second = points[1] ?? from;
    const at = { x: from.x + (second.x - from.x) * 0.25 + 5, y: from.y + 15 };
    g.append(s("text", { x: at.x, y: at.y }, text));
  }
  return g;
}

/** Returns a smooth line through points. */
function curve(points: Point[]): string {
  const round = (value: number): number => Math.round(value * 10) / 10;
  const at = ({ x, y }: Point): string => `${round(x)} ${round(y)}`;
  const [first, ...rest] = points;
  if (!first) return "";
  if (rest.length < 2) return `M${at(first)}L${rest.map(at).join("L")}`;
  let path = `M${at(first)}`;
  for (let i = 0; i < rest.length - 1; i++) {
    const here = rest[i]!;
    const next = rest[i + 1]!;
    const end = i === rest.length - 2 ? next : { x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 };
    path += `Q${at(here)} ${at(end)}`;
  }
  return path;
}
