// Places the children of one box in layers, in a time that grows little faster than their number.

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
  /** Links that leave a box with the same port begin at the same point. */
  port?: string;
}

export interface Arranged extends Size {
  /** The middle of each child. */
  centers: Point[];
  /** The points of each link, from the lower border of its first child to the upper border of its second one. */
  lines: Point[][];
}

const GAP = 22;
const LAYER_GAP = 34;
/** The room of a link that passes a layer. */
const BEND = 14;
/** The layers that all links together may pass. Further links do not bend around boxes. */
const MAX_BENDS = 5000;
/** The cells and segments that are ordered several times. */
const MAX_ORDERED = 8000;
const ROUNDS_OF_ORDER = 4;
const ROUNDS_OF_PLACES = 6;
/** Rows that are higher, and higher than wide by this factor, are placed in columns of this ratio. */
const MAX_HEIGHT = 9000;
const MAX_RATIO = 6;
const RATIO = 1.2;
/** The room between columns. */
const GUTTER = 64;
/** The distance between the points where links enter a box. */
const PORT_GAP = 22;
/** In a wider box, links enter near the place that they come from. */
const WIDE = 280;

/** Places boxes, each one below those that it reads from. */
export function arrange(boxes: readonly Size[], links: readonly Ends[]): Arranged {
  if (boxes.length === 0) return { width: 0, height: 0, centers: [], lines: links.map(() => []) };
  const grid = new Grid(boxes, links);
  grid.order();
  return grid.place();
}

/** Returns the boxes in an order in which each one comes after those that it reads from, as far as there are no cycles. */
function sorted(into: readonly number[][]): number[] {
  const order: number[] = [];
  const isSeen = new Uint8Array(into.length);
  const path: { box: number; next: number }[] = [];
  for (let first = 0; first < into.length; first++) {
    if (!isSeen[first]) path.push({ box: first, next: 0 });
    isSeen[first] = 1;
    for (let top = path.at(-1); top; top = path.at(-1)) {
      const from = into[top.box]![top.next++];
      if (from === undefined) order.push(path.pop()!.box);
      else if (!isSeen[from]) {
        isSeen[from] = 1;
        path.push({ box: from, next: 0 });
      }
    }
  }
  return order;
}

/** Returns the layer of each box: below the boxes that it reads from, and near those that read it. */
function layersOf(count: number, links: readonly Ends[]): Int32Array {
  const layers = new Int32Array(count);
  const into: number[][] = Array.from({ length: count }, () => []);
  const out: number[][] = Array.from({ length: count }, () => []);
  for (const { from, to } of links) {
    if (from < 0 || to < 0) continue;
    into[to]!.push(from);
    out[from]!.push(to);
  }
  const order = sorted(into);
  const position = new Int32Array(count);
  order.forEach((box, at) => (position[box] = at));
  const isAfter = (a: number, b: number): boolean => position[a]! > position[b]!;
  for (const box of order) {
    // A link that closes a cycle does not count.
    for (const from of into[box]!) if (isAfter(box, from)) layers[box] = Math.max(layers[box]!, layers[from]! + 1);
  }
  for (const box of [...order].reverse()) {
    if (out[box]!.length <= into[box]!.length) continue;
    let lowest = Infinity;
    for (const to of out[box]!) if (isAfter(to, box)) lowest = Math.min(lowest, layers[to]! - 1);
    if (lowest !== Infinity) layers[box] = Math.max(layers[box]!, lowest);
  }
  // A layer that everything left takes no room.
  const used = new Map([...new Set(layers)].sort((a, b) => a - b).map((layer, at) => [layer, at]));
  return layers.map((layer) => used.get(layer)!);
}

/** A row of cells, in one of the columns. */
interface Row {
  column: number;
  top: number;
  bottom: number;
  /** The distance by which its cells are moved to the right. */
  shift: number;
  /** The borders of its column. */
  left: number;
  right: number;
  end: number;
}

/** Boxes, and the places where links pass a layer, in rows. The cells from 0 to `boxes.length` are the boxes. */
class Grid {
  private readonly layer: number[];
  private readonly above: number[][];
  private readonly below: number[][];
  private rows: number[][];
  private readonly at: number[];
  /** The cells of each link, from its first box to its second one. */
  private readonly chains: number[][];
  private segments = 0;

  constructor(
    private readonly boxes: readonly Size[],
    private readonly links: readonly Ends[],
  ) {
    const layers = layersOf(boxes.length, links);
    const top = links.some(({ from }) => from < 0) ? 1 : 0;
    this.layer = Array.from(layers, (layer) => layer + top);
    const last = this.layer.reduce((most, layer) => Math.max(most, layer), 0);
    const bottom = links.some(({ to }) => to < 0) ? last + 1 : last;
    this.above = this.layer.map(() => []);
    this.below = this.layer.map(() => []);
    const bends = new Map<string, number>();
    const known = new Set<number>();
    let room = MAX_BENDS;
    this.chains = links.map(({ from, to, port }, number) => {
      const start = from < 0 ? this.cell(0) : from;
      const end = to < 0 ? this.cell(bottom) : to;
      const [first, final] = [this.layer[start]!, this.layer[end]!];
      const chain = [start];
      const span = final - first;
      if (span < 1 || span - 1 > room) return [start, end];
      for (let layer = first + 1; layer < final; layer++) {
        // Links from one port share their way.
        const key = `${from < 0 ? `in${number}` : `${from} ${port ?? ""}`} ${layer}`;
        let bend = bends.get(key);
        if (bend === undefined) {
          bend = this.cell(layer);
          bends.set(key, bend);
          room--;
        }
        chain.push(bend);
      }
      chain.push(end);
      for (let at = 1; at < chain.length; at++) {
        const [upper, lower] = [chain[at - 1]!, chain[at]!];
        const segment = upper * 2 ** 26 + lower;
        if (known.has(segment)) continue;
        known.add(segment);
        this.below[upper]!.push(lower);
        this.above[lower]!.push(upper);
        this.segments++;
      }
      return chain;
    });
    this.rows = Array.from({ length: bottom + 1 }, () => []);
    this.layer.forEach((layer, cell) => this.rows[layer]!.push(cell));
    this.at = this.layer.map(() => 0);
    for (const row of this.rows) row.forEach((cell, at) => (this.at[cell] = at));
  }

  private cell(layer: number): number {
    this.above.push([]);
    this.below.push([]);
    return this.layer.push(layer) - 1;
  }

  private widthOf(cell: number): number {
    return this.boxes[cell]?.width ?? 0;
  }

  /** Orders the cells of each row so that few links cross. */
  order(): void {
    const rounds = this.layer.length + this.segments > MAX_ORDERED ? 1 : ROUNDS_OF_ORDER;
    let least = Infinity;
    let best = this.rows;
    for (let round = 0; round < rounds && least > 0; round++) {
      for (const isDown of [true, false]) {
        this.sweep(isDown);
        const crossings = this.crossings(least);
        if (crossings >= least) continue;
        least = crossings;
        best = this.rows.map((row) => [...row]);
      }
    }
    this.rows = best;
    for (const row of this.rows) row.forEach((cell, at) => (this.at[cell] = at));
  }

  /** Sorts each row by the middle of what its cells are linked to in the row before. */
  private sweep(isDown: boolean): void {
    const near = isDown ? this.above : this.below;
    const rows = isDown ? this.rows : [...this.rows].reverse();
    const middle = new Float64Array(this.layer.length);
    for (const row of rows) {
      for (const cell of row) {
        const ends = near[cell]!;
        let sum = 0;
        for (const end of ends) sum += this.at[end]!;
        middle[cell] = ends.length ? sum / ends.length : this.at[cell]!;
      }
      row.sort((a, b) => middle[a]! - middle[b]! || this.at[a]! - this.at[b]!);
      row.forEach((cell, at) => (this.at[cell] = at));
    }
  }

  /** Counts the links that cross, up to a number. */
  private crossings(most: number): number {
    let sum = 0;
    for (let layer = 1; layer < this.rows.length && sum < most; layer++) {
      const tree = new Int32Array(this.rows[layer]!.length + 1);
      let seen = 0;
      for (const upper of this.rows[layer - 1]!) {
        const ends = this.below[upper]!.map((cell) => this.at[cell]!);
        for (const end of ends) {
          let before = 0;
          for (let at = end + 1; at > 0; at -= at & -at) before += tree[at]!;
          sum += seen - before;
        }
        for (const end of ends) {
          for (let at = end + 1; at < tree.length; at += at & -at) tree[at]!++;
          seen++;
        }
      }
    }
    return sum;
  }

  place(): Arranged {
    const x = this.columns();
    const { starts, ends } = this.ports(x);
    const rows = this.wrap(x);
    const shift = (cell: number): number => rows[this.layer[cell]!]!.shift;
    const centers = this.boxes.map((_, box): Point => {
      const { top, bottom } = rows[this.layer[box]!]!;
      return { x: x[box]! + shift(box), y: (top + bottom) / 2 };
    });
    const gutters = new Map<number, number>();
    const lines = this.chains.map((chain, link): Point[] => {
      const points: Point[] = [];
      chain.forEach((cell, at) => {
        const row = rows[this.layer[cell]!]!;
        const box = this.boxes[cell];
        const middle = centers[cell]?.y ?? 0;
        const isFirst = at === 0;
        const isLast = at === chain.length - 1;
        const column = (isFirst ? starts[link]! : isLast ? ends[link]! : x[cell]!) + shift(cell);
        const before = isFirst ? row : rows[this.layer[chain[at - 1]!]!]!;
        if (before.column < row.column) {
          // The link goes on at the top of the next column, and reaches it between the columns.
          const used = gutters.get(row.column) ?? 0;
          gutters.set(row.column, used + 1);
          const between = row.left - GUTTER / 2 - 12 + (used % 8) * 3;
          points.push({ x: between, y: before.end + LAYER_GAP / 2 }, { x: between, y: LAYER_GAP / 2 });
        }
        if (!isFirst) points.push({ x: column, y: row.top });
        if (box && isFirst) points.push({ x: column, y: middle + box.height / 2 });
        if (box && isLast) points.push({ x: column, y: middle - box.height / 2 });
        if (!isLast) points.push({ x: column, y: row.bottom });
      });
      return points.filter((point, at) => at === 0 || point.x !== points[at - 1]!.x || point.y !== points[at - 1]!.y || points.length < 3);
    });
    const width = rows.reduce((most, row) => Math.max(most, row.right), 0);
    const isWrapped = rows.at(-1)!.column > 0;
    const height = rows.reduce((most, row) => Math.max(most, row.end), 0) + (isWrapped ? LAYER_GAP : 0);
    return { width, height, centers, lines };
  }

  /** Places the rows below each other, or if this is much higher than wide, in columns beside each other. */
  private wrap(x: readonly number[]): Row[] {
    const heights = this.rows.map((row) => row.reduce((most, cell) => Math.max(most, this.boxes[cell]?.height ?? 0), 0));
    const lefts = this.rows.map((row) => row.reduce((least, cell) => Math.min(least, x[cell]! - this.widthOf(cell) / 2), Infinity));
    const rights = this.rows.map((row) => row.reduce((most, cell) => Math.max(most, x[cell]! + this.widthOf(cell) / 2), -Infinity));
    const sum = heights.reduce((all, height) => all + height + LAYER_GAP, -LAYER_GAP);
    const width = Math.max(...rights) - Math.min(...lefts);
    const isHigh = sum > MAX_HEIGHT && sum > MAX_RATIO * width;
    const count = isHigh ? Math.ceil(Math.sqrt(sum / (RATIO * (width + GUTTER)))) : 1;
    const most = sum / count;
    const rows: Row[] = [];
    const top = count > 1 ? LAYER_GAP : 0;
    let [y, column] = [top, 0];
    this.rows.forEach((_, layer) => {
      if (y > top && y + heights[layer]! / 2 > top + most) [y, column] = [top, column + 1];
      rows.push({ column, top: y, bottom: y + heights[layer]!, shift: 0, left: 0, right: 0, end: 0 });
      y += heights[layer]! + LAYER_GAP;
    });
    let left = 0;
    for (let from = 0; from < rows.length; ) {
      let to = from;
      while (to < rows.length && rows[to]!.column === rows[from]!.column) to++;
      const [first, last] = [Math.min(...lefts.slice(from, to)), Math.max(...rights.slice(from, to))];
      const end = rows[to - 1]!.bottom;
      for (const row of rows.slice(from, to)) Object.assign(row, { shift: left - first, left, right: left + last - first, end });
      left += last - first + GUTTER;
      from = to;
    }
    return rows;
  }

  /** Returns the middle of each cell: as near as possible to what it is linked to. */
  private columns(): number[] {
    const x = this.layer.map(() => 0);
    const gaps = this.rows.map((row) =>
      row.map((cell, at) => {
        const before = row[at - 1];
        if (before === undefined) return 0;
        const isBend = cell >= this.boxes.length || before >= this.boxes.length;
        return (this.widthOf(before) + this.widthOf(cell)) / 2 + (isBend ? BEND : GAP);
      }),
    );
    this.rows.forEach((row, layer) => {
      let at = 0;
      row.forEach((cell, position) => (x[cell] = at += gaps[layer]![position]!));
      row.forEach((cell) => (x[cell]! -= at / 2));
    });
    const layers = this.rows.map((_, layer) => layer);
    const isWeak = (cell: number): boolean => cell < this.boxes.length;
    for (let round = 0; round <= ROUNDS_OF_PLACES; round++) {
      const isLast = round === ROUNDS_OF_PLACES;
      for (const isDown of isLast ? [true] : [true, false]) {
        for (const layer of isDown ? layers : [...layers].reverse()) {
          const row = this.rows[layer]!;
          const wanted = row.map((cell) => {
            const near = isDown ? this.above[cell]! : this.below[cell]!;
            const ends = isLast && isWeak(cell) ? [...this.above[cell]!, ...this.below[cell]!] : near;
            if (ends.length === 0) return x[cell]!;
            let [sum, weight] = [0, 0];
            for (const end of ends) {
              // A box is below a box rather than below a link that passes it.
              const part = isWeak(cell) && !isWeak(end) ? 0.1 : 1;
              sum += part * x[end]!;
              weight += part;
            }
            return sum / weight;
          });
          const weights = row.map((cell) => {
            const near = isDown ? this.above[cell]! : this.below[cell]!;
            // Boxes keep their places, and links go around them.
            return near.length === 0 ? 0.1 : isWeak(cell) ? 4 : near.some(isWeak) ? 0.5 : 2;
          });
          nearest(wanted, gaps[layer]!, weights).forEach((place, at) => (x[row[at]!] = place));
        }
      }
    }
    return x;
  }

  /** Returns where each link leaves its first box and enters its second one: links at different points. */
  private ports(x: number[]): { starts: number[]; ends: number[] } {
    const starts = this.chains.map((chain) => x[chain[0]!]!);
    const ends = this.chains.map((chain) => x[chain.at(-1)!]!);
    const out = new Map<number, Map<string, number[]>>();
    const into = new Map<number, number[]>();
    this.links.forEach(({ from, to, port }, link) => {
      if (from >= 0) {
        const groups = out.get(from) ?? new Map<string, number[]>();
        const key = port ?? String(link);
        const group = groups.get(key);
        if (group) group.push(link);
        else groups.set(key, [link]);
        out.set(from, groups);
      }
      if (to >= 0) {
        const list = into.get(to);
        if (list) list.push(link);
        else into.set(to, [link]);
      }
    });
    const next = (link: number): number => x[this.chains[link]![1]!]!;
    const before = (link: number): number => x[this.chains[link]!.at(-2)!]!;
    for (const [box, groups] of out) {
      const lists = [...groups.values()];
      const wanted = lists.map((list) => list.reduce((sum, link) => sum + next(link), 0) / list.length);
      this.spread(x[box]!, box, wanted).forEach((place, at) => {
        for (const link of lists[at]!) starts[link] = place;
      });
    }
    for (const [box, list] of into) {
      this.spread(x[box]!, box, list.map(before)).forEach((place, at) => (ends[list[at]!] = place));
    }
    return { starts, ends };
  }

  /** Spreads points over a border, in the order of the places that they are linked to. */
  private spread(center: number, box: number, wanted: number[]): number[] {
    const width = this.widthOf(box);
    const order = wanted.map((_, at) => at).sort((a, b) => wanted[a]! - wanted[b]! || a - b);
    const room = Math.max(0, width - 20);
    const gap = wanted.length > 1 ? Math.min(PORT_GAP, room / (wanted.length - 1)) : 0;
    const half = (gap * (wanted.length - 1)) / 2;
    const places = new Array<number>(wanted.length);
    if (width <= WIDE) order.forEach((at, position) => (places[at] = center - half + gap * position));
    else {
      const bounded = order.map((at, position) => {
        const [least, most] = [center - room / 2 + gap * position, center + room / 2 - gap * (wanted.length - 1 - position)];
        return Math.min(most, Math.max(least, wanted[at]!));
      });
      const gaps = order.map((_, position) => (position ? gap : 0));
      nearest(bounded, gaps, order.map(() => 1)).forEach((place, position) => (places[order[position]!] = place));
    }
    return places;
  }
}

/** Returns the places nearest to those that are wanted, of which each keeps its gap to the one before. */
function nearest(wanted: number[], gaps: number[], weights: number[]): number[] {
  // Neighbors that would be too near to each other move as one block.
  const blocks: { sum: number; weight: number; from: number }[] = [];
  const offsets: number[] = [];
  let offset = 0;
  wanted.forEach((place, at) => {
    offset += gaps[at]!;
    offsets.push(offset);
    let block = { sum: (place - offset) * weights[at]!, weight: weights[at]!, from: at };
    let last = blocks.at(-1);
    while (last && last.sum * block.weight >= block.sum * last.weight) {
      blocks.pop();
      block = { sum: last.sum + block.sum, weight: last.weight + block.weight, from: last.from };
      last = blocks.at(-1);
    }
    blocks.push(block);
  });
  const places: number[] = [];
  blocks.forEach(({ sum, weight, from }, at) => {
    const end = blocks[at + 1]?.from ?? wanted.length;
    for (let position = from; position < end; position++) places.push(sum / weight + offsets[position]!);
  });
  return places;
}
