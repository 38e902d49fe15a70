// The pane below the graph: the sizes, the sums, and the memory over the schedule.

import type { Cost } from "./cost";
import { amount, bytes, h, s, short } from "./dom";
import type { Model } from "./model";

const WIDTH = 1000;
const HEIGHT = 100;
/** If there are more steps, a bar is the largest of several. */
const MAX_BARS = 500;
/** Sliders go up to 2 to this power. */
const MAX_POWER = 14;
/** Slider positions between two powers of 2. */
const STEPS = 8;
/** Sizes with a slider. */
const MAX_SLIDERS = 12;

export class MemoryPane {
  readonly element: HTMLElement;
  private readonly sums = h("div", { class: "sums", role: "status" });
  private readonly chart = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  private readonly plot = h("div", { class: "plot", role: "slider", tabindex: 0, "aria-label": "Memory over the schedule", "aria-valuemin": 1 });
  private readonly here = h("div", { class: "here" });
  /** The step that is shown, or -1. */
  private step = -1;

  constructor(
    private readonly model: Model,
    private readonly cost: Cost,
    private readonly select: (node: number) => void,
  ) {
    const sliders = cost.data.symbols.slice(0, MAX_SLIDERS).map(({ name }) => this.slider(name));
    this.plot.append(this.here, this.chart);
    this.plot.addEventListener("click", (event) => this.choose(this.at(event)));
    this.plot.addEventListener("pointermove", (event) => this.show(this.at(event)));
    this.plot.addEventListener("pointerleave", () => this.show(this.cost.peak));
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.element = h("section", { class: "costs", "aria-label": "Cost" }, h("div", { class: "sizes" }, ...sliders, this.sums), this.plot);
    this.plot.hidden = cost.curve.length === 0;
    cost.onChange(() => this.draw());
    this.draw();
  }

  private slider(name: string): HTMLElement {
    const input = h("input", { type: "number", min: 1, step: 1, "aria-label": `Size ${short(name)}`, "data-size": name }) as HTMLInputElement;
    const range = h("input", { type: "range", min: 0, max: MAX_POWER * STEPS, "aria-label": `Size ${short(name)} as a slider`, "data-slider": name }) as HTMLInputElement;
    const write = (): void => {
      const size = this.cost.sizes.get(name) ?? 1;
      input.value = String(size);
      range.value = String(Math.round(Math.log2(size) * STEPS));
    };
    range.addEventListener("input", () => {
      this.cost.set(name, Math.max(1, Math.round(2 ** (Number(range.value) / STEPS))));
      input.value = String(this.cost.sizes.get(name));
    });
    input.addEventListener("change", () => {
      this.cost.set(name, Number(input.value));
      write();
    });
    write();
    return h("label", { class: "size" }, h("span", {}, short(name, 20)), range, input);
  }

  private draw(): void {
    const { cost } = this;
    const parts = [`${amount(cost.total(cost.operations))} operations`, `${bytes(cost.total(cost.moved))} moved`];
    if (cost.curve.length > 0) parts.push(`peak ${bytes(cost.most())}`);
    this.sums.textContent = parts.join(" · ");
    const count = cost.curve.length;
    const group = Math.max(1, Math.ceil(count / MAX_BARS));
    const most = Math.max(1, cost.most());
    let path = "";
    for (let first = 0; first < count; first += group) {
      const last = Math.min(count, first + group);
      let height = 0;
      for (let step = first; step < last; step++) height = Math.max(height, cost.curve[step]!.bytes);
      const [x, end] = [(first / count) * WIDTH, (last / count) * WIDTH];
      const y = HEIGHT - (height / most) * (HEIGHT - 4);
      path += `M${x.toFixed(1)} ${HEIGHT}V${y.toFixed(1)}H${end.toFixed(1)}V${HEIGHT}Z`;
    }
    this.chart.replaceChildren(s("path", { class: "live", d: path }), this.bar("peak", cost.peak));
    this.plot.setAttribute("aria-valuemax", String(Math.max(1, count)));
    this.show(cost.peak);
  }

  /** Returns a bar of a step, at least as wide as a finger sees. */
  private bar(name: string, step: number): SVGElement {
    const count = this.cost.curve.length;
    const bytesAt = this.cost.curve[step]?.bytes ?? 0;
    const width = Math.max(WIDTH / Math.max(1, count), 2);
    const y = HEIGHT - (bytesAt / Math.max(1, this.cost.most())) * (HEIGHT - 4);
    return s("rect", { class: name, x: (step / Math.max(1, count)) * WIDTH, y, width, height: HEIGHT - y });
  }

  private at(event: MouseEvent): number {
    const { left, width } = this.plot.getBoundingClientRect();
    const count = this.cost.curve.length;
    return Math.min(count - 1, Math.max(0, Math.floor(((event.clientX - left) / width) * count)));
  }

  /** Says what runs at a step, and marks it. */
  private show(step: number): void {
    this.step = step;
    this.chart.querySelector(".shown")?.remove();
    const moment = this.cost.curve[step];
    if (!moment) return;
    if (step !== this.cost.peak) this.chart.append(this.bar("shown", step));
    const place = placeOf(this.model, this.cost, moment.node);
    const text = `${step === this.cost.peak ? "peak " : ""}${bytes(moment.bytes)} · ${place}`;
    this.here.textContent = text;
    this.plot.setAttribute("aria-valuenow", String(step + 1));
    this.plot.setAttribute("aria-valuetext", text);
  }

  private choose(step: number): void {
    this.show(step);
    const moment = this.cost.curve[step];
    if (moment && this.model.data.nodes[moment.node]) this.select(moment.node);
  }

  private key(event: KeyboardEvent): void {
    const count = this.cost.curve.length;
    const moves: Record<string, number> = { ArrowLeft: this.step - 1, ArrowRight: this.step + 1, Home: 0, End: count - 1 };
    const next = moves[event.key];
    if (next === undefined && event.key !== "Enter") return;
    event.stopPropagation();
    event.preventDefault();
    if (next === undefined) this.choose(this.step);
    else this.show(Math.min(count - 1, Math.max(0, next)));
  }
}

/** Names a node by its line, or by itself if its line is not known. */
function placeOf(model: Model, cost: Cost, node: number): string {
  const [file, line] = cost.data.nodes[node] ?? [-1, 0];
  if (file < 0) return model.data.nodes[node] ? short(model.name(node), 60) : "";
  const path = short(model.path(file).split("/").at(-1) || "line", 60);
  return `${path}:${line} · ${short(model.op(node), 40)}`;
}
