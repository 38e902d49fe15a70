"""A browser for the tests: Chromium, driven over its debugging pipe, without another package."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def find_chromium() -> str | None:
    """Return the path of Chromium, or None if it is not installed."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


class Browser:
    """A browser with an empty profile. Each page records its errors and its requests."""

    def __init__(self, executable: str) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # Chromium reads commands from file 3 and writes answers to file 4.
        script = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(
            ["bash", "-c", script, executable, *FLAGS, f"--user-data-dir={self._profile.name}"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self._events: list[dict[str, Any]] = []

    def close(self) -> None:
        """End the browser and remove its profile."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command, and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") != self._number:
                self._events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the events that came with the answers, each once."""
        while self._events:
            yield self._events.pop(0)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self._read, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self._buffer += part
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def page(self, width: int = 1440, height: int = 900, scheme: str = "light") -> Page:
        """Open an empty page."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.send(f"{domain}.enable")
        page.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        page.set_scheme(scheme)
        return page


class Page:
    """A page of a browser."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self.browser = browser
        self._target = target
        self._session = session
        #: Everything that the console showed as an error or a warning.
        self.errors: list[str] = []
        #: The addresses that were asked for.
        self.requests: list[str] = []

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.send(method, self._session, **params)

    def close(self) -> None:
        self.browser.send("Target.closeTarget", targetId=self._target)

    def set_scheme(self, scheme: str) -> None:
        """Prefer light or dark, as the user's system does."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def goto(self, url: str) -> None:
        """Open a page of `view`, and wait until it is shown."""
        self.send("Page.navigate", url=url)
        self.wait("document.documentElement?.dataset.ready === 'true'")
        self.settle()

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description"))
        return answer["result"].get("value")

    def in_frame(self, expression: str, seconds: float = 30) -> Any:
        """Return the value of an expression in a frame of the page, once the value is not false."""
        auto = {"autoAttach": True, "waitForDebuggerOnStart": False, "flatten": True}
        self.send("Target.setAutoAttach", **auto)
        # A frame in the process of the page was announced before: enabling announces it again.
        self.send("Runtime.disable")
        self.send("Runtime.enable")
        end = time.monotonic() + seconds
        frames: list[dict[str, Any]] = []
        while time.monotonic() < end:
            for event in self.browser.events():
                params = event.get("params", {})
                if event.get("method") == "Target.attachedToTarget":
                    frames.append({"session": params["sessionId"]})
                elif event.get("method") == "Runtime.executionContextCreated":
                    frames.append(
                        {"session": event.get("sessionId"), "contextId": params["context"]["id"]}
                    )
            for frame in frames:
                asked = {"expression": expression, "returnByValue": True, **frame}
                with contextlib.suppress(RuntimeError):
                    answer = self.browser.send("Runtime.evaluate", **asked)
                    if value := answer["result"].get("value"):
                        return value
            time.sleep(0.05)
        raise TimeoutError(expression)

    def wait(self, condition: str, seconds: float = 30) -> None:
        """Wait until a condition holds."""
        end = time.monotonic() + seconds
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise TimeoutError(condition)
            time.sleep(0.02)

    def settle(self) -> None:
        """Wait for the next two frames, and read what happened."""
        self.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        self.read_events()

    def read_events(self) -> None:
        for event in self.browser.events():
            method, params = event.get("method"), event.get("params", {})
            if event.get("sessionId") != self._session:
                continue
            if method == "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            elif method == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", str(details)))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                self.errors.append(str(params["args"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                self.errors.append(params["entry"]["text"])

    def click(self, selector: str) -> None:
        """Click the middle of the first element with a selector."""
        quoted = json.dumps(selector)
        place = self.evaluate(
            f"""(() => {{
                const found = document.querySelector({quoted});
                if (!found) return null;
                const part = found.querySelector(".number, .title") ?? found;
                part.scrollIntoView({{block: "center", inline: "center"}});
                const box = part.getBoundingClientRect();
                return [box.x + Math.min(box.width / 2, 30), box.y + box.height / 2];
            }})()"""
        )
        assert place is not None, f"the page has no {selector}"
        mouse = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1}
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
        self.send("Input.dispatchMouseEvent", type="mousePressed", **mouse)
        self.send("Input.dispatchMouseEvent", type="mouseReleased", **mouse)
        self.settle()

    def press(self, *keys: str) -> None:
        """Press keys one after the other: a letter, or a name such as `ArrowDown`."""
        codes = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39}
        codes |= {"ArrowDown": 40}
        for key in keys:
            shared = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
            text = {"text": key} if len(key) == 1 else {}
            self.send("Input.dispatchKeyEvent", type="keyDown", **shared, **text)
            self.send("Input.dispatchKeyEvent", type="keyUp", **shared)
            self.settle()

    def type(self, text: str) -> None:
        """Type a text into what has the focus."""
        self.send("Input.insertText", text=text)
        self.settle()

    def screenshot(self, path: Path) -> None:
        data = self.send("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
