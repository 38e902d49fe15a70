// Buttons, menus and borders around the panes.

import { Colors, type Scheme } from "./colors";
import { h } from "./dom";

/** Returns a button that says what it does when it is pointed at. */
export function button(label: string, text: string, act: () => void, name = ""): HTMLElement {
  return h("button", { type: "button", class: name, title: label, "aria-label": label, click: act }, text);
}

/** Returns buttons in one frame. */
export function segmented(label: string, ...buttons: HTMLElement[]): HTMLElement {
  return h("div", { class: "segmented", role: "toolbar", "aria-label": label }, ...buttons);
}

/** Returns the choice of colors. */
export function colorMenu(colors: Colors, changed: () => void): HTMLElement {
  const options = colors.schemes.map((scheme) =>
    h("option", { value: scheme, selected: scheme === colors.scheme }, Colors.nameOf(scheme)),
  );
  const menu = h("select", { class: "menu", "aria-label": "Color nodes by", title: "Color nodes by" }, ...options) as HTMLSelectElement;
  menu.addEventListener("change", () => {
    colors.scheme = menu.value as Scheme;
    changed();
  });
  return menu;
}

export function toggleTheme(): void {
  const root = document.documentElement;
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset["theme"] ?? (isDark ? "dark" : "light");
  root.dataset["theme"] = now === "dark" ? "light" : "dark";
}

const LEAST_WIDTH = 160;
/** The part of the window that one pane may take. */
const MOST = 0.7;

/** Returns a handle between two panes that sets the width of one of them. */
export function splitter(property: string, direction: number): HTMLElement {
  const name = property === "--left" ? "source" : "details";
  const handle = h("div", { class: "splitter", role: "separator", "aria-orientation": "vertical", "aria-label": `Width of the ${name}`, tabindex: 0 });
  const pane = (): HTMLElement => document.querySelector<HTMLElement>(`.pane.${name}`)!;
  const set = (width: number): void => {
    const most = innerWidth * MOST;
    document.documentElement.style.setProperty(property, `${Math.min(most, Math.max(LEAST_WIDTH, width))}px`);
  };
  handle.addEventListener("pointerdown", (event) => {
    const [start, width] = [event.clientX, pane().offsetWidth];
    const move = (moved: PointerEvent): void => set(width + (moved.clientX - start) * direction);
    handle.setPointerCapture(event.pointerId);
    handle.addEventListener("pointermove", move);
    handle.addEventListener("pointerup", () => handle.removeEventListener("pointermove", move), { once: true });
  });
  handle.addEventListener("dblclick", () => document.documentElement.style.removeProperty(property));
  handle.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowLeft" ? -24 : event.key === "ArrowRight" ? 24 : 0;
    if (!step) return;
    event.stopPropagation();
    set(pane().offsetWidth + step * direction);
  });
  return handle;
}
