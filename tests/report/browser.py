"""A real browser without a window: Chromium and its driver from the distribution."""

from __future__ import annotations

import base64
import json
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

SWITCHES = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--disable-dev-shm-usage",
)  # fmt: skip


def programs() -> tuple[str | None, str | None]:
    """Where Chromium and its driver are, if they are."""
    return shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which(
        "chromedriver"
    )


@contextmanager
def chromium():
    """A running browser with an empty profile; it ends with the context."""
    from selenium import webdriver

    program, driver = programs()
    profile = tempfile.mkdtemp()
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for switch in (*SWITCHES, f"--user-data-dir={profile}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    running = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield Browser(running)
    finally:
        running.quit()
        shutil.rmtree(profile, ignore_errors=True)


class Browser:
    """What the tests ask of a page."""

    def __init__(self, driver):
        self.driver = driver
        self.run, self.command = driver.execute_script, driver.execute_cdp_cmd

    def open(
        self,
        path: Path,
        width: int = 1440,
        height: int = 900,
        scheme: str = "light",
        scale: float = 1.0,
    ) -> None:
        self.command(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )
        self.resize(width, height, scale)
        self.logs("browser"), self.logs("performance")
        address = path.resolve().as_uri()
        self.driver.get(address)
        self.wait(
            lambda: (
                self.driver.current_url == address
                and self.run("return document.readyState") == "complete"
            )
        )

    def wait(self, until) -> None:
        """The driver may return while the page before is still there."""
        end = time.monotonic() + 60
        while not until():
            assert time.monotonic() < end, "the page does not open"
            time.sleep(0.05)

    def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 500}
        self.command("Emulation.setDeviceMetricsOverride", size)

    def logs(self, kind: str) -> list:
        return self.driver.get_log(kind)

    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self.logs("performance")]
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def text(self, selector: str) -> list[str]:
        return self.run(
            "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)",
            selector,
        )

    def column(self, number: int) -> list[str]:
        return self.text(f"#table tbody tr > :nth-child({number})")

    def pointer(self, selector: str) -> None:
        """Move the mouse over the middle of an element."""
        place = (
            "const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.x +"
            " b.width/2, b.y + b.height/2]"
        )
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        x, y = self.run(place, selector)
        self.command("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})

    def screenshot(self) -> bytes:
        return base64.b64decode(self.command("Page.captureScreenshot", {"format": "png"})["data"])

    def printed(self) -> bytes:
        """The page as a PDF."""
        wanted = {"printBackground": True, "preferCSSPageSize": True}
        return base64.b64decode(self.command("Page.printToPDF", wanted)["data"])
