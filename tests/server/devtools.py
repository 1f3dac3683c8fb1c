"""A headless Chromium that a test drives, over the DevTools protocol on two pipes.

Standard library alone. Whoever has a Browser closes it (it is a context manager).
"""

import base64
import fcntl
import itertools
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # containers give a browser no namespaces
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--password-store=basic",
    "--hide-scrollbars",
)
ANSWER_S = 30
KEYS = {
    "Enter": 13,
    "Escape": 27,
    "Tab": 9,
    " ": 32,
    "End": 35,
    "Home": 36,
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "ArrowDown": 40,
}


def find():
    """The browser's path, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    def __init__(self, path):
        self._home = tempfile.TemporaryDirectory()
        # Chromium reads what it is told at descriptor 3 and answers at 4.
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        browser_fds = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs_in, theirs_out)]

        def wire():
            os.dup2(browser_fds[0], 3)
            os.dup2(browser_fds[1], 4)

        self._process = subprocess.Popen(
            [path, *FLAGS, f"--user-data-dir={self._home.name}/profile", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=wire,
            pass_fds=(3, 4),
            env={**os.environ, "HOME": self._home.name},
        )
        for fd in (*browser_fds, theirs_in, theirs_out):
            os.close(fd)
        self._to = os.fdopen(ours_out, "wb", buffering=0)
        self._from = os.fdopen(ours_in, "rb", buffering=0)
        self._ids = itertools.count(1)
        self._answers = {}
        self.events = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        rest = b""
        while block := self._from.read(1 << 16):
            *messages, rest = (rest + block).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self._answers[message["id"]].put(message)
                else:
                    self.events.put(message)

    def call(self, method, session=None, **params):
        call_id = next(self._ids)
        answer = self._answers[call_id] = queue.SimpleQueue()
        message = {"id": call_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        self._to.write(json.dumps(message).encode() + b"\0")
        result = answer.get(timeout=ANSWER_S)
        del self._answers[call_id]
        if "error" in result:
            raise RuntimeError(f"{method}: {result['error']['message']}")
        return result["result"]

    def open(self, url):
        return Page(self, url)

    def close(self):
        try:
            self.call("Browser.close")
            self._process.wait(10)
        except (OSError, RuntimeError, queue.Empty, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._to.close()
        self._reader.join(10)
        self._from.close()
        for _ in range(20):  # its helpers may still be writing there
            try:
                self._home.cleanup()
                return
            except OSError:
                time.sleep(0.1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Page:
    def __init__(self, browser, url):
        self._browser = browser
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self._complaints = []
        self.requests = []
        self.go(url)

    def call(self, method, **params):
        return self._browser.call(method, self._session, **params)

    def go(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def close(self):
        self._browser.call("Target.closeTarget", targetId=self._target)

    def _take_events(self):
        while not self._browser.events.empty():
            event = self._browser.events.get()
            params = event["params"]
            if event.get("sessionId") != self._session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                self._complaints.append(json.dumps(params["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in (
                "error",
                "warning",
            ):
                self._complaints.append(json.dumps(params["args"]))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in (
                "error",
                "warning",
            ):
                self._complaints.append(json.dumps(params["entry"]))
            elif event["method"] == "Network.requestWillBeSent":
                self.requests.append(params["request"])

    def complaints(self):
        """Errors and warnings of the console so far: exceptions, refused content, failed requests."""
        self._take_events()
        return self._complaints

    def sent(self):
        """Requests so far, as the DevTools protocol has them."""
        self._take_events()
        return self.requests

    def evaluate(self, expression):
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {json.dumps(result['exceptionDetails'])}")
        return result["result"].get("value")

    def wait(self, expression, seconds=60):
        """Until the expression holds; returns what it gives."""
        end = time.monotonic() + seconds
        while True:
            value = self.evaluate(expression)
            if value:
                return value
            if time.monotonic() > end:
                raise TimeoutError(f"{expression} never held; complaints: {self.complaints()}")
            time.sleep(0.02)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, shift=False):
        code = KEYS[key]
        params = {
            "key": key,
            "code": "Space" if key == " " else key,
            "windowsVirtualKeyCode": code,
            "modifiers": 8 if shift else 0,
        }
        typed = {"Enter": "\r", " ": " "}.get(key)
        down = {"type": "keyDown", "text": typed} if typed else {"type": "rawKeyDown"}
        self.call("Input.dispatchKeyEvent", **params, **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **params)

    def resize(self, width, height):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, **features):
        """Media features by name: prefer(color_scheme="dark")."""
        listed = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value}
            for name, value in features.items()
        ]
        self.call("Emulation.setEmulatedMedia", features=listed)

    def force_colours(self):
        """Emulates a system's high contrast."""
        forced = {"name": "forced-colors", "value": "active"}
        self.call("Emulation.setEmulatedMedia", features=[forced])

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
