// Browsers start no worker from a page that is a file, and the search is one. In such a page, this class
// replaces `Worker`: it runs the script in a hidden frame.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = frame.contentWindow;
      this.inner = inner;
      inner.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      inner.importScripts = (...urls) =>
        urls.reduce((done, next) => done.then(() => load(inner, next)), Promise.resolve());
      this.ready = load(inner, url);
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.inner.frameElement.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}

function load(inner, url) {
  return new Promise((resolve, reject) => {
    const script = inner.document.createElement("script");
    script.src = url;
    script.onload = resolve;
    script.onerror = reject;
    inner.document.body.append(script);
  });
}
