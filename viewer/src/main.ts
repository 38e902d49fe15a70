// Starts the viewer on the data of the page.

import "./style.css";

import { App } from "./app";
import { h } from "./dom";
import { load } from "./format";

declare global {
  /** For scripts: the data of the page, and the means to select something. */
  var jax2onnxView: App | undefined;
}

const element = document.getElementById("jax2onnx-view");
if (element) {
  load(element)
    .then((data) => {
      globalThis.jax2onnxView = new App(data, document.body);
      document.documentElement.dataset["ready"] = "true";
    })
    .catch((error: unknown) => {
      const text = error instanceof Error ? error.message : String(error);
      document.body.append(h("p", { class: "failure", role: "alert" }, `The page cannot be shown: ${text}`));
    });
}
