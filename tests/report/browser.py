# SPDX-License-Identifier: GPL-3.0-or-later
"""A headless Chromium that reports what a page did: its console, its requests, and its looks.

    python tests/report/browser.py PAGE DIRECTORY

saves pictures of PAGE in DIRECTORY: on a desktop, on a phone, in dark colours, and printed as PDF. The tests check that
everything is there; whether it looks good is for people to decide.
"""

from __future__ import annotations

import base64
import json
import pathlib
import sys
import tempfile
import time
import typing as t

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM = "/usr/bin/chromium"
DRIVER = "/usr/bin/chromedriver"
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


class Browser:
    """A Chromium with its own profile, for one page after another."""

    def __init__(self) -> None:
        self._profile = tempfile.TemporaryDirectory()
        options = Options()
        options.binary_location = CHROMIUM
        for argument in (*ARGUMENTS, f"--user-data-dir={self._profile.name}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))

    def close(self) -> None:
        self.driver.quit()
        self._profile.cleanup()

    def emulate(self, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Emulate a screen, which is a phone if it is narrow, with light or dark colours."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {
                "width": width,
                "height": height,
                "deviceScaleFactor": 1,
                "mobile": width < 600,
            },
        )
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {
                "media": "",
                "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
            },
        )

    def open(self, page: pathlib.Path) -> None:
        """Open a page and wait until its charts are drawn."""
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(page.resolve().as_uri())
        WebDriverWait(self.driver, 30).until(
            lambda driver: driver.execute_script("return document.documentElement.dataset.charts")
        )

    def console(self) -> list[str]:
        """Read what the page has written to the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the addresses that the page has requested since it was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def hover(self, chart: str, series: int | None = None) -> str:
        """Hover over the middle of a chart, or over the first point of one of its series, and return the tooltip."""
        place = self.driver.find_element(By.ID, f"chart-{chart}")
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", place)
        width, height = place.size["width"], place.size["height"]
        x, y = width / 2, height / 3
        if series is not None:
            x, y = self.driver.execute_script(
                "const chart = echarts.getInstanceByDom(arguments[0]);"
                "const first = chart.getOption().series[arguments[1]].data[0];"
                "return chart.convertToPixel({seriesIndex: arguments[1]}, first.value || first)",
                place,
                series,
            )
        ActionChains(self.driver, duration=50).move_to_element_with_offset(
            place, int(x - width / 2) + 2, int(y - height / 2)
        ).move_by_offset(-2, 0).perform()
        return WebDriverWait(self.driver, 10).until(
            lambda driver: driver.execute_script(
                "return [...arguments[0].children].slice(1)"
                ".filter(e => getComputedStyle(e).visibility !== 'hidden').map(e => e.innerText).join('').trim()",
                place,
            )
        )

    def picture(self, path: pathlib.Path) -> None:
        """Save a picture of the whole page."""
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "format": "png"})
        path.write_bytes(base64.b64decode(shot["data"]))

    def print(self, path: pathlib.Path) -> None:
        """Save the printed page as PDF."""
        printed = self.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})
        path.write_bytes(base64.b64decode(printed["data"]))


def main(page: str, directory: str) -> None:
    browser = Browser()
    place = pathlib.Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    try:
        looks: dict[str, dict[str, t.Any]] = {
            "desktop": {},
            "phone": {"width": 390, "height": 844},
            "dark": {"dark": True},
        }
        for name, look in looks.items():
            browser.emulate(**look)
            browser.open(pathlib.Path(page))
            time.sleep(0.3)
            browser.picture(place / f"{name}.png")
            print(name, browser.console())
        browser.emulate()
        browser.open(pathlib.Path(page))
        browser.print(place / "print.pdf")
    finally:
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
