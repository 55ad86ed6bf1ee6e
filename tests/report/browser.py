"""A real browser for pages of this folder: Debian's chromium without a screen, spoken to through a pair of pipes."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on the PATH; `apt-get install chromium` brings it"
)

WORDS = """
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const until = async (claim) => {
  for (let turn = 0; turn < 400; turn += 1) { const found = claim(); if (found) return found; await wait(25); }
  throw new Error(`never so: ${claim}`);
};
const one = (selector) => document.querySelector(selector);
const all = (selector) => [...document.querySelectorAll(selector)];
const named = (selector, words) => all(selector).find((found) => found.textContent.includes(words));
const drawn = () => all(".plot").every((plot) => plot.querySelector("svg"));
"""
"""What bodies of :meth:`Page.ask` may use."""


class Browser:
    """A browser process; messages are those of the Chrome DevTools Protocol, ended by a zero byte."""

    def __init__(self, profile: Path) -> None:
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def hand_over() -> None:
            for place, end in enumerate((os.dup(to_browser), os.dup(from_browser)), 3):
                os.dup2(end, place)

        self._process = subprocess.Popen(
            [
                str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
                "--disable-extensions", "--disable-dev-shm-usage", "--remote-debugging-pipe",
                f"--user-data-dir={profile}", "about:blank",
            ],
            preexec_fn=hand_over,  # noqa: PLW1509  (it calls dup2 alone, which takes no lock)
            close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._numbers, self._rest = itertools.count(1), b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **options: Any) -> dict[str, Any]:
        """Call a method and return its result; events that come before it are kept."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": options} | (
            {"sessionId": session} if session else {}
        )
        os.write(self._out, json.dumps(message).encode() + b"\0")
        for told in self._messages():
            if told.get("id") == number:
                assert "error" not in told, (method, told["error"])
                result: dict[str, Any] = told["result"]
                return result
            self.events.append(told)
        raise AssertionError(f"the browser ended during {method}")

    def wait_for(self, method: str, session: str) -> None:
        """Wait for an event of a page."""
        for told in self._messages():
            self.events.append(told)
            if told.get("method") == method and told.get("sessionId") == session:
                return

    def close(self) -> None:
        """End the process."""
        self.call("Browser.close")
        self._process.wait(timeout=30)
        os.close(self._out)
        os.close(self._in)

    def _messages(self) -> Iterator[dict[str, Any]]:
        while True:
            while b"\0" not in self._rest:
                more = os.read(self._in, 1 << 16)
                if not more:
                    return
                self._rest += more
            text, _, self._rest = self._rest.partition(b"\0")
            yield json.loads(text)


class Page:
    """An open page."""

    def __init__(self, browser: Browser, session: str, site: str | None = None) -> None:
        self._browser, self._session, self._site = browser, session, site

    def call(self, method: str, **options: Any) -> dict[str, Any]:
        """Call a method of the page."""
        return self._browser.call(method, self._session, **options)

    def ask(self, body: str) -> Any:
        """Run the body of an async function in the page and return what it returns."""
        text = f"(async () => {{ {WORDS} {body} }})()"
        told = self.call("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]["exception"]["description"]
        return told["result"].get("value")

    def load(self, method: str, **options: Any) -> None:
        """Call a method that loads a page, and wait until it is drawn."""
        self.call(method, **options)
        self.loaded()

    def loaded(self) -> None:
        """Wait until the page has been loaded, by itself or others, and is drawn."""
        self._browser.wait_for("Page.loadEventFired", self._session)
        if self._site is None:
            self.ask("await until(() => document.documentElement.dataset.ready && drawn())")

    def press(self, *keys: str) -> None:
        """Press keys, one after the other, as a reader would."""
        for key in keys:
            letters = {"text": "\r", "windowsVirtualKeyCode": 13} if key == "Enter" else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, **letters)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def click(self, found: str) -> None:
        """Press the mouse on an element, given as an expression, as a reader would."""
        x, y = self.ask(
            f"const found = {found}; found.scrollIntoView({{ block: 'center', behavior: 'instant' }}); await wait(50);"
            "const box = found.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2];"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def wrongs(self) -> list[str]:
        """Return what went wrong so far: complaints, errors, and requests for anything but the page itself."""
        own = [event for event in self._browser.events if event.get("sessionId") == self._session]
        sent = [e["params"] for e in own if e["method"] == "Network.requestWillBeSent"]
        asked = [told["request"]["url"] for told in sent if told["type"] != "Document"]
        said = [
            json.dumps(e["params"])
            for e in own
            if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")
        ]
        said += [json.dumps(e["params"]) for e in own if e["method"] == "Runtime.consoleAPICalled"]
        own_places = ("data:", "blob:", *([self._site] if self._site else []))
        return [*said, *(url for url in asked if not url.startswith(own_places))]


@contextmanager
def opened(
    browser: Browser, path: Path, *, width: int = 1280, dark: bool = False, site: str | None = None
) -> Iterator[Page]:
    """Open a file, wait until it is drawn, and close it.

    Parameters
    ----------
    browser : Browser
    path : Path
    width : int
        Of the window, in pixels.
    dark : bool
        Whether the system prefers dark pages.
    site : str, optional
        Where a server shows the folder that `path` is in; requests to it are no others.

    Raises
    ------
    AssertionError
        If by the end anything went wrong, or the page has asked for anything.
    """
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    page = Page(browser, session, site)
    for domain in ("Page", "Runtime", "Log", "Network"):
        page.call(f"{domain}.enable")
    page.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
    )
    theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    page.call("Emulation.setEmulatedMedia", features=[theme])
    page.load("Page.navigate", url=f"{site}/{path.as_posix()}" if site else path.as_uri())
    yield page
    wrongs = page.wrongs()
    assert not wrongs, wrongs
    browser.call("Target.closeTarget", targetId=target)
