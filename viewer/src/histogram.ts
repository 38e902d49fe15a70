// The contents of a weight: the range of its elements, and how often each part of the range occurs.

import { h, plural, s, thousands } from "./dom";
import type { SummaryRow } from "./format";

const HEIGHT = 44;
const BAR = 16;

/** Returns a number with few digits. */
export function digits(number: number): string {
  const size = Math.abs(number);
  if (Number.isInteger(number) && size < 1e6) return thousands(number);
  const text = size >= 1e6 || size < 1e-3 ? number.toExponential(3) : String(Number(number.toPrecision(4)));
  return text.replace("e+", "e");
}

/** Returns the range of the elements, and how many of them are not numbers: `-0.3 to 0.4, 2 NaN`. */
export function rangeOf(summary: NonNullable<SummaryRow> | null): string {
  if (!summary) return "";
  const [, nans, infinities, minimum, maximum] = summary;
  const parts: string[] = [];
  if (minimum !== null && maximum !== null) parts.push(minimum === maximum ? `all ${digits(minimum)}` : `${digits(minimum)} to ${digits(maximum)}`);
  if (nans) parts.push(`${thousands(nans)} NaN`);
  if (infinities) parts.push(`${thousands(infinities)} ∞`);
  return parts.join(", ");
}

/** Returns the number of elements of a type such as `f32[768,2304]`. */
function elementsOf(type: string | null): number {
  const sizes = /\[([\d,]*)\]$/.exec(type ?? "")?.[1];
  if (sizes === undefined) return 0;
  return sizes.split(",").filter(Boolean).reduce((product, size) => product * Number(size), 1);
}

/** Describes the contents of a weight. */
export function contents(summary: NonNullable<SummaryRow>, type: string | null): HTMLElement {
  const [read, nans, infinities, minimum, maximum, bins] = summary;
  const rows: [string, string][] = [
    ["Minimum", minimum === null ? "none" : digits(minimum)],
    ["Maximum", maximum === null ? "none" : digits(maximum)],
    ["NaN", thousands(nans)],
  ];
  if (infinities) rows.push(["Infinite", thousands(infinities)]);
  const all = elementsOf(type);
  const sampled = read < all ? `From a sample of ${plural(read, "element")} of ${thousands(all)}.` : null;
  return h(
    "section",
    { class: "contents" },
    h("h3", {}, "Contents"),
    bins.length ? histogram(bins, `from ${digits(minimum ?? 0)} to ${digits(maximum ?? 0)}`) : null,
    h("dl", {}, ...rows.flatMap(([key, value]) => [h("dt", {}, key), h("dd", { class: nans && key === "NaN" ? "minus" : null }, value)])),
    sampled && h("p", { class: "dim" }, sampled),
  );
}

function histogram(bins: number[], range: string): SVGElement {
  const shown = bins.slice(0, 64);
  const bars = shown.map((height, at) => {
    const size = height > 0 ? Math.max(1, (Math.min(100, height) / 100) * HEIGHT) : 0;
    return s("rect", { x: at * BAR, y: HEIGHT - size, width: BAR - 2, height: size });
  });
  const view = `0 0 ${shown.length * BAR} ${HEIGHT}`;
  return s("svg", { class: "histogram", viewBox: view, preserveAspectRatio: "none", role: "img", "aria-label": `Histogram ${range}` }, ...bars);
}
