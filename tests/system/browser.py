#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium by its DevTools protocol over a pair of pipes, for page.py: with nothing but the standard library."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE_S = 120
FLAGS = ["--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
         "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync",
         "--hide-scrollbars", "--mute-audio", "--no-default-browser-check", "--force-color-profile=srgb"]


def program():
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


# A picture of all of the page, cut into columns at those elements that are next to where it would be cut else.
IN_COLUMNS = """(async (data, count, what) => {
  const all = new Image(), gap = 16, canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
  const edges = [...document.querySelectorAll(what)].map(e => Math.max(0, Math.floor(e.getBoundingClientRect().top + scrollY) - 6));
  all.src = "data:image/png;base64," + data;
  await all.decode();
  const cuts = [0], behind = getComputedStyle(document.body).backgroundColor;
  for (let n = 1; n < count; n++) {
    const at = all.height * n / count, next = edges.reduce((a, b) => Math.abs(b - at) < Math.abs(a - at) ? b : a, all.height);
    if (next > cuts.at(-1) && next < all.height) cuts.push(next);
  }
  const ends = [...cuts.slice(1), all.height];
  canvas.width = cuts.length * (all.width + gap) - gap;
  canvas.height = Math.max(...cuts.map((cut, n) => ends[n] - cut));
  pen.fillStyle = behind;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  cuts.forEach((cut, n) => pen.drawImage(all, 0, cut, all.width, ends[n] - cut, n * (all.width + gap), 0, all.width, ends[n] - cut));
  return canvas.toDataURL("image/png").split(",")[1];
})"""


class Browser:
    """One browser with one tab. What its scripts, and its console, complain of is in `errors`."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="nigh-chromium-", ignore_cleanup_errors=True)
        theirs_in, self.to = os.pipe()
        self.come, theirs_out = os.pipe()
        # The protocol's pipes are descriptors 3 and 4 of the browser.
        flags = FLAGS + ([] if os.geteuid() else ["--no-sandbox"])
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "browser", program(), *flags,
             f"--user-data-dir={self.folder.name}", "about:blank"],
            pass_fds=[theirs_in, theirs_out], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.folder.name})
        os.close(theirs_in)
        os.close(theirs_out)
        self.number, self.buffer, self.session, self.errors = 0, b"", None, []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        os.close(self.to)  # it ends with its pipe, and its children with it
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout=30)
        os.close(self.come)
        self.folder.cleanup()

    def take(self, seconds):
        """The next message; None: none came in time."""
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            if not select.select([self.come], [], [], max(0, end - time.monotonic()))[0]:
                return None
            chunk = os.read(self.come, 1 << 20)
            assert chunk, "the browser has ended"
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(message)
        self.hear(message)
        return message

    def hear(self, message):
        what, said = message.get("method"), message.get("params", {})
        if what == "Runtime.exceptionThrown":
            details = said["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif what == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.errors.append(said["entry"]["text"] + " " + said["entry"].get("url", ""))
        elif what == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(value.get("description", value.get("value"))) for value in said["args"]))

    def ask(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            answer = self.take(end - time.monotonic())
            if answer is not None and answer.get("id") == message["id"]:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
        raise AssertionError(f"the browser does not answer {method}")

    def listen(self, seconds):
        """Takes in what comes for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.take(end - time.monotonic())

    def look(self, width, height, dark=False, touch=False):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.ask("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def go(self, url):
        self.ask("Page.navigate", url=url)

    def value(self, expression):
        said = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def wait(self, expression, seconds=60):
        end = time.monotonic() + seconds
        while not self.value(expression):
            assert time.monotonic() < end, f"never so: {expression}; {self.errors}"
            self.listen(.05)

    def capture(self):
        return self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.capture()))

    def picture_in_columns(self, path, columns, edges):
        """The same of a long page: in so many columns at most, which begin at elements of this selector."""
        words = ", ".join(json.dumps(word) for word in (self.capture(), columns, edges))
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.value(f"{IN_COLUMNS}({words})")))
