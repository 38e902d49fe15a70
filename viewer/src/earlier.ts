// The earlier model beside the later one, with the nodes that differ.

import { Colors, type Scheme } from "./colors";
import { h } from "./dom";
import type { ViewData } from "./format";
import { GraphPane } from "./graph";
import { type Marks, marksOfNodes, NO_MARKS } from "./marks";
import { Model } from "./model";
import type { Item } from "./tree";

/** The nodes of two models that differ. */
export interface Changes {
  /** For each node of the later model, that of the earlier one, or -1. */
  pairs: number[];
  /** `new` or `different`, for nodes of the later model. */
  later: Map<number, string>;
  /** `gone` or `different`, for nodes of the earlier model. */
  earlier: Map<number, string>;
}

/** Returns the differences, if the page has an earlier model. */
export function changesOf({ nodes, against, earlier }: ViewData): Changes | null {
  if (!against?.pairs || !earlier) return null;
  const count = earlier.nodes.length;
  const pairs = nodes.map((_, node) => {
    const pair = against.pairs?.[node] ?? -1;
    return pair < count ? pair : -1;
  });
  const changes: Changes = { pairs, later: new Map(), earlier: new Map() };
  const paired = new Set(pairs);
  pairs.forEach((pair, node) => {
    if (pair < 0) changes.later.set(node, "new");
  });
  for (let node = 0; node < count; node++) if (!paired.has(node)) changes.earlier.set(node, "gone");
  for (const node of against.different ?? []) {
    changes.later.set(node, "different");
    if ((pairs[node] ?? -1) >= 0) changes.earlier.set(pairs[node]!, "different");
  }
  return changes;
}

export interface EarlierEvents {
  /** A node was selected that a node of the later model stands for. */
  select(node: number): void;
  /** Something was selected that only the earlier model has. */
  selectGone(model: Model, graph: GraphPane, item: Item): void;
  clear(): void;
}

export class EarlierPane {
  readonly element = h("div", { class: "canvas earlier", hidden: true });
  private graph: GraphPane | null = null;
  private readonly later = new Map<number, number>();
  private marks: Marks = NO_MARKS;

  constructor(
    private readonly data: ViewData,
    private readonly changes: Changes,
    private readonly events: EarlierEvents,
  ) {
    changes.pairs.forEach((pair, node) => {
      if (pair >= 0) this.later.set(pair, node);
    });
  }

  get isShown(): boolean {
    return !this.element.hidden;
  }

  /** Shows or hides the pane. The graph is laid out when it is first shown. */
  toggle(isShown: boolean, scheme: Scheme): void {
    this.element.hidden = !isShown;
    if (!isShown) return;
    if (!this.graph) {
      const model = new Model(this.data);
      const graph = new GraphPane(model, this.element, new Colors(model, this.changes.earlier), {
        select: (item) => this.select(model, graph, item),
        hover: () => {},
        clear: () => this.events.clear(),
        moved: () => {},
        leftOut: () => {},
      });
      this.graph = graph;
      graph.toggleMap();
      graph.start();
    }
    this.recolor(scheme);
    this.link(this.marks);
  }

  recolor(scheme: Scheme): void {
    const colors = this.graph?.colors;
    if (!colors) return;
    colors.scheme = colors.schemes.includes(scheme) ? scheme : "op";
    this.graph?.recolor();
  }

  /** Closes what selections opened. */
  leave(): void {
    this.graph?.closeRevealed();
  }

  /** Highlights the nodes that nodes of the later model stand for. */
  link(later: Marks): void {
    this.marks = later;
    if (!this.graph || !this.isShown) return;
    const pairs = [...later.own].flatMap((node) => (this.changes.pairs[node]! >= 0 ? this.changes.pairs[node]! : []));
    const first = pairs.length === 1 ? this.graph.tree.itemOf(pairs[0]!) : null;
    this.graph.setMarks(marksOfNodes(pairs), { reveal: pairs.length > 0, focus: first });
    this.graph.setSelected(first);
  }

  private select(model: Model, graph: GraphPane, item: Item): void {
    const node = item.kind === "node" ? this.later.get(item.number) : undefined;
    if (node !== undefined) return this.events.select(node);
    this.events.selectGone(model, graph, item);
    graph.setMarks(item.kind === "node" ? marksOfNodes([item.number]) : NO_MARKS, { reveal: false });
    graph.setSelected(item);
  }
}
