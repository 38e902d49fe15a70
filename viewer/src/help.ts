// The list of keys.

import { h } from "./dom";

const KEYS: [string, string][] = [
  ["/", "search nodes, operators, lines, weights and shapes"],
  ["↑ ↓", "go along an edge, or to the next line with nodes"],
  ["← →", "go to the next box on the left or right"],
  ["o or Enter", "open or close a box"],
  ["s, g", "go to the source, to the graph"],
  ["f", "show the whole graph"],
  ["+ −", "zoom (or Ctrl + wheel)"],
  ["m", "show or hide the map"],
  ["Esc", "clear the selection, and close the boxes that it opened"],
  ["?", "show this help"],
];

/** Returns the dialog that lists the keys. */
export function helpDialog(): HTMLDialogElement {
  const rows = KEYS.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]);
  const close = h("button", { type: "button", class: "find", click: () => dialog.close() }, "Close");
  const text =
    "Click a line to see its nodes, and a node to see its line. Double-click a box to open or close it. " +
    "The address of the page shows the same view to others. Go back and forward as usual.";
  const dialog = h(
    "dialog",
    { class: "help", "aria-label": "Help" },
    h("h2", {}, "Help"),
    h("p", {}, text),
    h("dl", {}, ...rows),
    close,
  ) as HTMLDialogElement;
  return dialog;
}
