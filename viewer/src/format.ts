// The data of a page, as docs/view-format.md specifies it.

/** Name, operator, graph, inputs, outputs, origin, sureness, attributes. */
export type NodeRow = [
  string,
  string,
  number,
  number[],
  number[],
  number,
  string,
  [string, string][],
];
/** Name, type, path. */
export type ValueRow = [string, string | null, string | null];
/** Value, bytes, origin, whether the contents are in another file, a summary of the contents. */
export type WeightRow = [number, number, number, number, SummaryRow?];
/** Elements that were read, NaN, infinities, minimum, maximum, and the heights of a histogram from 0 to 100. */
export type SummaryRow = [number, number, number, number | null, number | null, number[]] | null;
/** File, function, line, column, end line, end column. */
export type LocationRow = [number, number, number, number, number, number];

export interface GraphRow {
  kind: "main" | "function" | "body";
  name: string;
  node?: number;
  attribute?: string;
  first: number;
  count: number;
  inputs: number[];
  outputs: number[];
}

export interface FileRow {
  path: string | null;
  tier: "user" | "library" | "internal";
  source: "same" | "unchecked" | "changed" | "missing" | "omitted";
  is_newer?: boolean;
  text?: string;
  lines?: [number, string][];
}

export interface OpCount {
  op: string;
  count: number;
}

export interface NodeChange {
  op: string;
  before: string | null;
  after: string | null;
  what: string;
}

export interface LineChange {
  file: number | null;
  path: string;
  function: string;
  before: number | null;
  after: number | null;
  lost: OpCount[];
  gained: OpCount[];
  changed: NodeChange[];
}

export interface ViewData {
  version: number;
  model: {
    name: string;
    bytes: number;
    producer: string;
    producer_version: string;
    ir_version: number;
    opsets: { domain: string; version: number }[];
    provenance: string;
    notes: string[];
    /** The number of nodes of the model, if the page does not contain all of them. */
    nodes?: number;
  };
  /** The parts that the page does not contain, in sentences. */
  left_out?: string[];
  graphs: GraphRow[];
  nodes: NodeRow[];
  values: ValueRow[];
  weights: WeightRow[];
  files: FileRow[];
  functions: string[];
  locations: LocationRow[];
  /** Location, caller. */
  frames: [number, number][];
  /** Name, whether it is a transformation, the scope around it. */
  scopes: [string, number, number][];
  /** Name, file, line. */
  plugins: [string, string, number][];
  /** Frame, location of the call site, scope, plugin. */
  sites: [number, number, number, number][];
  /** Sites, the one to show first at the front. */
  origins: number[][];
  profile: {
    runs: number;
    microseconds: number;
    known: number;
    lines: { file: number; line: number; microseconds: number; share: number; calls: number; ops: string[] }[];
    nodes: { node: number; microseconds: number; share: number }[];
    placement?: {
      summary: string;
      lines: PlacedLine[];
      nodes: { node: number; provider: string }[];
    };
  } | null;
  compare: {
    verdict: string;
    /** The node that computes the first wrong number. */
    first?: number | null;
    lines: { file: number; line: number; error: number | null; wrong?: number; what: string; is_wrong: boolean }[];
    nodes: { node: number; error: number | null; wrong?: number; what: string; is_wrong: boolean }[];
  } | null;
  cost?: CostData | null;
  sensitivity?: {
    /** The shorter type. */
    to: string;
    verdict: string;
    /** The node of the first line that loses most. */
    first: number | null;
    /** Errors are those of the outputs, relative to them; null if they are infinite. */
    lines: { file: number; line: number; error: number | null; what: string }[];
    nodes: { node: number; error: number | null }[];
  } | null;
  against: {
    name: string;
    nodes_before: number;
    nodes_after: number;
    lines_moved: number;
    lines: LineChange[];
    nodes_without_line: NodeChange[];
    /** For each node, the node of the earlier model that it stands for, or -1. */
    pairs?: number[];
    /** The weights that differ. */
    weights?: { name: string; change: string }[];
    /** The nodes that differ from those that they stand for, or that read a weight that differs. */
    different?: number[];
  } | null;
  /** The earlier model. */
  earlier?: ViewData | null;
}

/** Costs as formulas, by their numbers in `formulas`; -1 is a formula that is too long for the page. */
export interface CostData {
  symbols: { name: string; size: number | null }[];
  formulas: string[];
  /** File or -1, line, operations, bytes that are read and written. */
  nodes: [number, number, number, number][];
  memory: {
    /** A node of the main graph, and the sizes of what it needs while it runs, of which the largest counts. */
    steps: [number, number[]][];
    /** Size, first and last step, and the nodes that write to it with their steps. */
    buffers: [number, number, number, [number, number][]][];
    inputs: number;
    weights: number;
  } | null;
}

/** A line that does not run where most nodes run, or that needs copies. */
export interface PlacedLine {
  file: number;
  line: number;
  providers: string[];
  copies: string[];
  advice: string | null;
}

const VERSION = 1;

/** Reads the data in the element of the page. */
export async function load(element: HTMLElement): Promise<ViewData> {
  const letters = atob(element.textContent ?? "");
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = (await new Response(stream).json()) as ViewData;
  if (data.version !== VERSION) throw new Error(`this page has data of version ${data.version}`);
  return data;
}
