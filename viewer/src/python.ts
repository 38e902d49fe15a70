// As much of Python's grammar as a page needs: colors, the extent of functions, lines that became nothing.

import type { Line } from "./model";

/** A colored part of a line: start, end, class. */
export type Token = [number, number, string];

/** A function or a class: the line of its header, its last line. */
export interface Block {
  first: number;
  last: number;
  isFunction: boolean;
}

export interface Parsed {
  tokens: Token[][];
  blocks: Block[];
  /** Statements of functions: first line, last line. */
  statements: [number, number][];
}

const KEYWORDS = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except finally for from " +
    "global if import in is lambda nonlocal not or pass raise return try while with yield match case"
  ).split(" "),
);

const TOKEN =
  /([rbfuRBFU]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))|(#[^\n]*)|(\b\d[\w.]*)|(@?[\p{L}_][\p{L}\p{N}_]*)|([()[\]{}])|(\\\n)|(\n)/gu;

/** Reads the text of a file. Lines are counted from 0 here. */
export function parse(lines: string[]): Parsed {
  const text = lines.join("\n");
  const starts: number[] = [];
  let offset = 0;
  for (const line of lines) {
    starts.push(offset);
    offset += line.length + 1;
  }
  const tokens: Token[][] = lines.map(() => []);
  const statements: [number, number][] = [];
  let at = 0;
  let depth = 0;
  let first = -1;
  const add = (from: number, to: number, name: string): void => {
    for (let line = at; line < lines.length && starts[line]! < to; line++) {
      const start = Math.max(0, from - starts[line]!);
      const end = Math.min(lines[line]!.length, to - starts[line]!);
      if (end > start) tokens[line]!.push([start, end, name]);
    }
  };
  let before = "";
  for (const match of text.matchAll(TOKEN)) {
    const [all, string, comment, number, word, bracket, joined, end] = match;
    const from = match.index;
    while (at + 1 < lines.length && starts[at + 1]! <= from) at++;
    if (first < 0 && !comment && !end) first = at;
    if (string !== undefined) {
      add(from, from + all.length, "string");
      while (at + 1 < lines.length && starts[at + 1]! < from + all.length) at++;
    } else if (comment !== undefined) add(from, from + all.length, "comment");
    else if (number !== undefined) add(from, from + all.length, "number");
    else if (word !== undefined) {
      if (KEYWORDS.has(word)) add(from, from + all.length, "keyword");
      else if (before === "def" || before === "class") add(from, from + all.length, "name");
      else if (word.startsWith("@")) add(from, from + all.length, "decorator");
      before = word;
    } else if (bracket !== undefined) depth = Math.max(0, depth + ("([{".includes(bracket) ? 1 : -1));
    else if (joined !== undefined) continue;
    else if (end !== undefined && depth === 0) {
      if (first >= 0) statements.push([first, at]);
      first = -1;
    }
  }
  if (first >= 0) statements.push([first, lines.length - 1]);
  return { tokens, blocks: blocks(lines, statements), statements };
}

function blocks(lines: string[], statements: [number, number][]): Block[] {
  const found: Block[] = [];
  // The blocks around the current statement, with the column of each header.
  const open: { block: Block; column: number }[] = [];
  for (const [first, last] of statements) {
    const text = lines[first] ?? "";
    const column = indent(text);
    while (open.length > 0 && open.at(-1)!.column >= column) close(open);
    if (open.length > 0) open.at(-1)!.block.last = last;
    const header = /^\s*(?:async\s+)?(def|class)\b/.exec(text);
    if (!header) continue;
    const block = { first, last, isFunction: header[1] === "def" };
    found.push(block);
    open.push({ block, column });
  }
  while (open.length > 0) close(open);
  return found;
}

/** Ends the innermost block, which the one around it contains. */
function close(open: { block: Block }[]): void {
  const { last } = open.pop()!.block;
  const around = open.at(-1)?.block;
  if (around) around.last = Math.max(around.last, last);
}

function indent(line: string): number {
  return line.length - line.trimStart().length;
}

/** Says why a statement of a traced function has no node. */
export interface Nothing {
  word: "folded" | "dead" | "shape only" | "no node";
  why: string;
}

const HEADER = /^(?:async\s+)?(?:def|class|import|from|if|elif|else|for|while|with|try|except|finally|pass|global|nonlocal|assert|raise|break|continue|del|match|case)\b|^@|^["']|^[rbf]["']/;
const PLAIN_RETURN = /^return(?:\s+[\w.,\s()[\]]*)?$/;
const SHAPE = /\.(?:shape|ndim|dtype|size|axis_size)\b|\blen\(|\bdtype\b|\bjnp\.(?:shape|ndim)\b/;

/** The part of a statement that decides what it is. */
const MAX_HEAD = 2000;

/** Finds the statements of traced functions that became no node, and says why. */
export function nothing(
  lines: string[],
  parsed: Parsed,
  lineAt: (line: number) => Line | undefined,
): Map<number, Nothing> {
  const found = new Map<number, Nothing>();
  const isTraced = (line: number): boolean => {
    const entry = lineAt(line + 1);
    return entry !== undefined && (entry.own.length > 0 || entry.fused.length > 0 || entry.calls > 0);
  };
  const around = innermostFunctions(lines.length, parsed.blocks);
  const innermost = (line: number): Block | undefined => around[line];
  const traced = new Set<Block>();
  for (let line = 0; line < lines.length; line++) {
    const block = isTraced(line) ? innermost(line) : undefined;
    if (block) traced.add(block);
  }
  // From the end on: a result is dead if only dead statements read it. For each name, the next line that reads it.
  const next = new Map<string, number>();
  for (let index = parsed.statements.length - 1; index >= 0; index--) {
    const [first, last] = parsed.statements[index]!;
    const block = innermost(first);
    const text = lines.slice(first, last + 1).join("\n").trim();
    const head = text.slice(0, MAX_HEAD);
    const read = (): void => {
      for (const name of text.match(/\w+/g) ?? []) next.set(name, first);
    };
    if (!block || !traced.has(block) || HEADER.test(head) || PLAIN_RETURN.test(head)) {
      read();
      continue;
    }
    let isSilent = true;
    let constants = 0;
    for (let line = first; line <= last; line++) {
      if (isTraced(line)) isSilent = false;
      constants += lineAt(line + 1)?.constants.length ?? 0;
    }
    if (!isSilent) {
      read();
      continue;
    }
    if (constants > 0) {
      read();
      found.set(first + 1, { word: "folded", why: "Its result is a constant, which is stored in the model." });
      continue;
    }
    const target = /^([\w\s,()*]+?)(?::[^=]+)?=(?!=)/.exec(head)?.[1];
    const names = target?.match(/[A-Za-z_]\w*/g) ?? [];
    const isRead = names.some((name) => (next.get(name) ?? Infinity) <= block.last);
    if (names.length > 0 && !isRead) {
      found.set(first + 1, { word: "dead", why: "Nothing reads its result." });
      continue;
    }
    read();
    if (SHAPE.test(head)) {
      found.set(first + 1, { word: "shape only", why: "It reads shapes, which are known while the function is traced." });
    } else {
      found.set(first + 1, { word: "no node", why: "It ran while the function was traced, or no output needs it." });
    }
  }
  return found;
}

/** Returns for each line the innermost function around it. */
function innermostFunctions(count: number, blocks: Block[]): (Block | undefined)[] {
  const around = new Array<Block | undefined>(count);
  const open: Block[] = [];
  let next = 0;
  for (let line = 0; line < count; line++) {
    while (open.length > 0 && open.at(-1)!.last < line) open.pop();
    around[line] = open.at(-1);
    for (; next < blocks.length && blocks[next]!.first <= line; next++) {
      if (blocks[next]!.isFunction) open.push(blocks[next]!);
    }
  }
  return around;
}

/** Returns the position in a text of a position in its UTF-8 bytes. */
export function charAt(text: string, byte: number): number {
  let bytes = 0;
  let at = 0;
  for (const letter of text) {
    if (bytes >= byte) break;
    const code = letter.codePointAt(0)!;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    at += letter.length;
  }
  return at;
}
