// Evaluates the formulas of costs: polynomials of sizes with `//`, `%`, `max` and `min`, in the notation of Python.

/** A formula that was read: it returns its value for sizes. */
export type Formula = (sizes: ReadonlyMap<string, number>) => number;

/** Formulas in parentheses in parentheses are read so deep. */
const MAX_DEPTH = 200;

const TOKEN = /\s*(?:(\d+)|([A-Za-z_]\w*)|(\/\/|[-+*%(),]))/y;

/** Reads a formula. A text that is none is NaN for all sizes. */
export function formula(text: string): Formula {
  const tokens: string[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const found = TOKEN.exec(text);
    if (!found) return () => NaN;
    tokens.push(found[1] ?? found[2] ?? found[3]!);
  }
  const reader = new Reader(tokens);
  const read = reader.sum(0);
  return read && reader.isAtEnd() ? read : () => NaN;
}

class Reader {
  private at = 0;

  constructor(private readonly tokens: readonly string[]) {}

  isAtEnd(): boolean {
    return this.at === this.tokens.length;
  }

  sum(depth: number): Formula | null {
    let all = this.product(depth);
    for (let sign = this.take("+", "-"); all && sign; sign = this.take("+", "-")) {
      const [left, right] = [all, this.product(depth)];
      if (!right) return null;
      all = sign === "+" ? (sizes) => left(sizes) + right(sizes) : (sizes) => left(sizes) - right(sizes);
    }
    return all;
  }

  private product(depth: number): Formula | null {
    let all = this.factor(depth);
    for (let sign = this.take("*", "//", "%"); all && sign; sign = this.take("*", "//", "%")) {
      const [left, right] = [all, this.factor(depth)];
      if (!right) return null;
      if (sign === "*") all = (sizes) => left(sizes) * right(sizes);
      else if (sign === "//") all = (sizes) => Math.floor(left(sizes) / right(sizes));
      else all = (sizes) => left(sizes) - Math.floor(left(sizes) / right(sizes)) * right(sizes);
    }
    return all;
  }

  private factor(depth: number): Formula | null {
    if (depth > MAX_DEPTH) return null;
    if (this.take("-")) {
      const inner = this.factor(depth + 1);
      return inner && ((sizes) => -inner(sizes));
    }
    if (this.take("(")) {
      const inner = this.sum(depth + 1);
      return this.take(")") ? inner : null;
    }
    const word = this.tokens[this.at++];
    if (word === undefined) return null;
    if (/^\d/.test(word)) {
      const value = Number(word);
      return () => value;
    }
    if (!/^[A-Za-z_]/.test(word)) return null;
    if (!this.take("(")) return (sizes) => sizes.get(word) ?? NaN;
    const parts: Formula[] = [];
    do {
      const part = this.sum(depth + 1);
      if (!part) return null;
      parts.push(part);
    } while (this.take(","));
    if (!this.take(")") || (word !== "max" && word !== "min")) return null;
    const choose = word === "max" ? Math.max : Math.min;
    return (sizes) => parts.reduce((all, part, at) => (at === 0 ? part(sizes) : choose(all, part(sizes))), 0);
  }

  private take(...words: string[]): string | null {
    const word = this.tokens[this.at];
    if (word === undefined || !words.includes(word)) return null;
    this.at++;
    return word;
  }
}
