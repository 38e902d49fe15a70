// Places the children of one box: a few of them by dagre, many of them in layers, so that no graph takes long.

import { Graph, layout as dagre } from "@dagrejs/dagre";

export interface Point {
  x: number;
  y: number;
}

export interface Size {
  width: number;
  height: number;
}

/** Two children by their numbers; -1 is the outside. */
export interface Ends {
  from: number;
  to: number;
}

export interface Arranged extends Size {
  /** The middle of each child. */
  centers: Point[];
  /** The points of each link, from below its first child to above its second one. */
  lines: Point[][];
}

const GAP = 22;
const LAYER_GAP = 34;
/** dagre takes some 0.3 seconds for so many boxes and links. Its time grows faster than their number. */
const MAX_BOXES = 130;
const MAX_LINKS = 150;
/** The layers that all links together skip: dagre places a point in each of them. */
const MAX_SKIPPED = 300;
/** With more links, dagre takes a ranking that is nearly as good and much faster. */
const MAX_LINKS_OF_SIMPLEX = 60;

/** Places boxes. Children come in the order of the graph, so that most links lead to a later one. */
export function arrange(boxes: readonly Size[], links: readonly Ends[]): Arranged {
  if (boxes.length === 0) return { width: 0, height: 0, centers: [], lines: links.map(() => []) };
  const layers = layersOf(boxes.length, links);
  return isSmall(boxes, links, layers) ? byDagre(boxes, links) : inLayers(boxes, links, layers);
}

/** Returns the layer of each box: one below the boxes that it reads from. Links to an earlier box do not count. */
function layersOf(count: number, links: readonly Ends[]): Int32Array {
  const layers = new Int32Array(count);
  const into: number[][] = Array.from({ length: count }, () => []);
  for (const { from, to } of links) if (from >= 0 && from < to) into[to]!.push(from);
  for (let box = 0; box < count; box++) {
    for (const from of into[box]!) layers[box] = Math.max(layers[box]!, layers[from]! + 1);
  }
  return layers;
}

function isSmall(boxes: readonly Size[], links: readonly Ends[], layers: Int32Array): boolean {
  if (boxes.length > MAX_BOXES || links.length > MAX_LINKS) return false;
  let skipped = 0;
  for (const { from, to } of links) {
    if (from >= 0 && to >= 0) skipped += Math.abs(layers[to]! - layers[from]!);
  }
  return skipped - links.length <= MAX_SKIPPED;
}

function byDagre(boxes: readonly Size[], links: readonly Ends[]): Arranged {
  const graph = new Graph({ multigraph: false });
  const ranker = links.length > MAX_LINKS_OF_SIMPLEX ? "tight-tree" : "network-simplex";
  graph.setGraph({ rankdir: "TB", nodesep: GAP, ranksep: LAYER_GAP, edgesep: 12, marginx: 0, marginy: 0, ranker });
  graph.setDefaultEdgeLabel(() => ({}));
  boxes.forEach(({ width, height }, at) => graph.setNode(String(at), { width, height }));
  const name = (at: number, outside: string): string => (at < 0 ? outside : String(at));
  for (const { from, to } of links) {
    if (from < 0 && !graph.hasNode("in")) graph.setNode("in", { width: 1, height: 1 });
    if (to < 0 && !graph.hasNode("out")) graph.setNode("out", { width: 1, height: 1 });
    graph.setEdge(name(from, "in"), name(to, "out"));
  }
  dagre(graph);
  const { width = 0, height = 0 } = graph.graph();
  const centers = boxes.map((_, at) => graph.node(String(at)) as Point);
  const lines = links.map(({ from, to }) => {
    const edge = { v: name(from, "in"), w: name(to, "out") };
    return ((graph.edge(edge) as { points?: Point[] }).points ?? []).map(({ x, y }) => ({ x, y }));
  });
  return { width, height, centers, lines };
}

/** Places boxes in layers, in their order. */
function inLayers(boxes: readonly Size[], links: readonly Ends[], layers: Int32Array): Arranged {
  const rows: number[][] = [];
  layers.forEach((layer, box) => (rows[layer] ??= []).push(box));
  const widthOf = (row: number[]): number => row.reduce((sum, box) => sum + boxes[box]!.width + GAP, -GAP);
  const width = rows.reduce((most, row) => Math.max(most, widthOf(row)), 0);
  const centers: Point[] = boxes.map(() => ({ x: 0, y: 0 }));
  let y = 0;
  for (const row of rows) {
    const height = row.reduce((most, box) => Math.max(most, boxes[box]!.height), 0);
    let x = (width - widthOf(row)) / 2;
    for (const box of row) {
      centers[box] = { x: x + boxes[box]!.width / 2, y: y + height / 2 };
      x += boxes[box]!.width + GAP;
    }
    y += height + LAYER_GAP;
  }
  const height = y - LAYER_GAP;
  const lines = links.map(({ from, to }): Point[] => {
    const start = from < 0 ? { x: width / 2, y: 0 } : { x: centers[from]!.x, y: centers[from]!.y + boxes[from]!.height / 2 };
    const end = to < 0 ? { x: width / 2, y: height } : { x: centers[to]!.x, y: centers[to]!.y - boxes[to]!.height / 2 };
    return [start, { x: start.x, y: start.y + LAYER_GAP / 2 }, { x: end.x, y: end.y - LAYER_GAP / 2 }, end];
  });
  return { width, height, centers, lines };
}
