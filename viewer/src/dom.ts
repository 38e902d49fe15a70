// Elements without markup: every text of a model becomes a text node.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

const SVG = "http://www.w3.org/2000/svg";

// Control characters, and characters that reorder or hide the text around them.
const UNPRINTABLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]/g;

/** A longer text is cut: no browser lays out a word of a million letters in time. */
const MAX_TEXT = 2000;

/** Cuts a text, and says how much is missing. */
export function cut(text: string, most = MAX_TEXT): string {
  return text.length <= most ? text : `${text.slice(0, most)}… (${thousands(text.length - most)} more letters)`;
}

/** Cuts a text to the beginning that fits into a box or a title. */
export function short(text: string, most = 100): string {
  return text.length <= most ? text : `${text.slice(0, most)}…`;
}

/** Cuts a text, and replaces characters that do more to a page than take their place. */
export function clean(text: string): string {
  return cut(text).replace(UNPRINTABLE, "\ufffd");
}

/** The entries that a list shows at first, and with each further step. */
const FIRST_STEP = 40;
const STEP = 200;

/** Adds the elements of a long list to its element: some at first, more with each click on a button below it. */
export function inSteps<T>(element: HTMLElement, list: readonly T[], row: (entry: T) => Node): HTMLElement[] {
  let shown = 0;
  const more = h("button", { type: "button", class: "link more", click: () => add(STEP) });
  const add = (count: number): void => {
    element.append(...list.slice(shown, shown + count).map(row));
    shown = Math.min(list.length, shown + count);
    const rest = list.length - shown;
    more.hidden = rest === 0;
    more.textContent = `show ${thousands(Math.min(rest, STEP))} of ${thousands(rest)} more`;
  };
  add(FIRST_STEP);
  return list.length > FIRST_STEP ? [element, more] : [element];
}

/** Creates an element of HTML. */
export function h(tag: string, attributes: Attributes = {}, ...children: Child[]): HTMLElement {
  return fill(document.createElement(tag), attributes, children);
}

/** Creates an element of SVG. */
export function s(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  return fill(document.createElementNS(SVG, tag) as SVGElement, attributes, children);
}

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    const isState = name.startsWith("aria-");
    if (value === null || value === undefined || (value === false && !isState)) continue;
    if (typeof value === "function") element.addEventListener(name, value as (event: Event) => void);
    else element.setAttribute(name, value === true && !isState ? "" : String(value));
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "string" ? clean(child) : child);
  }
  return element;
}

/** Returns a number of bytes as people write it. */
export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit++;
  }
  return `${unit === 0 || count >= 100 ? Math.round(count) : count.toFixed(1)} ${units[unit]}`;
}

/** Returns a number with three digits and a prefix: `25.2 M`. */
export function amount(count: number): string {
  const prefixes = ["", "k", "M", "G", "T", "P", "E"];
  let prefix = 0;
  while (count >= 999.5 && prefix < prefixes.length - 1) {
    count /= 1000;
    prefix++;
  }
  const digits = prefix === 0 || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
  return `${count.toFixed(digits)} ${prefixes[prefix]}`.trimEnd();
}

/** Returns an integer with commas: `1,234,567`. */
export function thousands(number: number): string {
  // The formatter of the browser takes a quarter of a second to load.
  return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Returns a count with its noun: `1 node`, `12 nodes`. */
export function plural(count: number, noun: string): string {
  return `${thousands(count)} ${noun}${count === 1 ? "" : noun.endsWith("x") ? "es" : "s"}`;
}

/** Returns a sentence in which the text between backticks is code. */
export function withCode(text: string): Child[] {
  return text.split("`").map((part, at) => (at % 2 ? h("code", {}, part) : part));
}

/** Returns a part of one as a percentage. */
export function percent(share: number): string {
  const value = share * 100;
  return value >= 9.95 ? `${Math.round(value)} %` : value >= 0.05 ? `${value.toFixed(1)} %` : "<0.1 %";
}

/** The operators that a text lists. */
const MAX_OPS = 30;

/** Returns operators with how often each occurs: `MatMul ×2, Add`. */
export function countOps(ops: Iterable<string>): string {
  const counts = new Map<string, number>();
  for (const op of ops) counts.set(op, (counts.get(op) ?? 0) + 1);
  return listOps([...counts].map(([op, count]) => ({ op, count })));
}

/** Returns counts of operators as text. */
export function listOps(counts: readonly { op: string; count: number }[]): string {
  const texts = counts.slice(0, MAX_OPS).map(({ op, count }) => (count === 1 ? short(op) : `${short(op)} ×${thousands(count)}`));
  const rest = counts.length - texts.length;
  return rest > 0 ? `${texts.join(", ")} and ${plural(rest, "other operator")}` : texts.join(", ");
}
