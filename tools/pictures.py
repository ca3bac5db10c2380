# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the pictures of docs/images again: make pictures.

A picture of a chart is what a headless Chromium shows of a page that is made from a kept result, or from synthetic
runs. It holds the name of its source, its title, and the checksum of a kept result, so that a test notices a stale one.
tools/diagrams.py has the diagrams.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import sys
import tempfile
import typing as t
import zlib
from pathlib import Path

from diagrams import DIAGRAMS, svg

sys.path += [
    str(Path(__file__).resolve().parents[1] / each) for each in (".ansible/collections", "tests", "tests/report")
]
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.plugin_utils.density import sentence
from ansible_collections.memstretch.density.plugins.plugin_utils.density.page import page
from ansible_collections.memstretch.density.plugins.plugin_utils.report.comparison_page import (
    comparison_page,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.comparison import (
    ArmRuns,
    compare,
)

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
# Keys of a text in a PNG.
SOURCE, CHECKSUM, TITLE = "Source", "Source SHA-256", "Title"
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Pixels of the page, and of the picture for each of these.
WIDTH, HEIGHT, SCALE = 960, 900, 1.5

# Where a part of a page is; a title and smaller words are put above it.
_PLACE = """
const part = document.getElementById(arguments[0]);
const heading = document.createElement('div'), title = document.createElement('p'), words = document.createElement('p');
heading.style = 'padding: 8px';
title.textContent = arguments[1];
title.style = 'margin: 0; font-size: 18px; font-weight: 600';
words.textContent = arguments[2];
words.style = 'margin: 0; font-size: 13px';
heading.append(title, words);
part.before(heading);
const above = heading.getBoundingClientRect(), below = part.getBoundingClientRect();
return {x: above.x + scrollX, y: above.y + scrollY, width: below.width, height: below.bottom - above.top,
        scale: arguments[3]};
"""


class Heading(t.NamedTuple):
    """What stands above a picture: its message, and what was measured, if it was."""

    title: str
    words: str = ""


class Picture(t.NamedTuple):
    """A picture of a part of a page.

    Attributes:
        source: what the page is made from, relative to the root of the repository.
        kept: whether that is a kept result, whose change makes the picture stale.
        page: a function that returns the page as HTML, from its source.
        part: the HTML identifier of the part.
        heading: a function that returns the text above it, from its source.
    """

    source: str
    kept: bool
    page: t.Callable[[Path], str]
    part: str
    heading: t.Callable[[Path], Heading]


def _synthetic_comparison(_source: Path) -> str:
    from synthetic_fleets import fleet_run

    with tempfile.TemporaryDirectory() as directory:
        arms = [
            [fleet_run(Path(directory), hosts=4, profile=profile, name=f"{profile}-{number}") for number in (1, 2, 3)]
            for profile in ("dram", "swap", "zram")
        ]
        document, details = compare([ArmRuns(None, runs) for runs in arms])
        return comparison_page(json.loads(json.dumps(document)), details)


def _synthetic(_source: Path) -> Heading:
    return Heading("Synthetic example: none of these figures was measured")


def _answer(source: Path) -> dict[str, t.Any]:
    return json.loads(source.read_text(encoding="utf-8"))["density"]


def _density(source: Path) -> str:
    return page(_answer(source))


def _densities(source: Path) -> Heading:
    """Return how many times as many servers each other profile carries, and under which load and objective."""
    answer = _answer(source)
    first, best, *others = answer["arms"]
    definition = answer["definition"]
    more = "".join(f", {sentence.name(arm)} {arm['ratio']['ratio']:.1f} times" for arm in others)
    return Heading(
        f"{sentence.name(best)} carries {best['ratio']['ratio']:.1f} times as many Redis servers as "
        f"{sentence.name(first)}{more}",
        f"{size_text(definition['budget_bytes'])} of DRAM. Values compress 3:1. Each server answers "
        f"{definition['load']['rate']:g} GETs a second. Objective: at most {definition['objective']['factor']:g} times "
        "as slow as a server in DRAM. Crosses: a fleet did not fit.",
    )


PICTURES = {
    "density.png": Picture(
        "docs/bench/headline/3to1-influence25.json",
        True,
        _density,
        "chart-ramps",
        _densities,
    ),
    "comparison.png": Picture(
        "tests/synthetic_fleets.py",
        False,
        _synthetic_comparison,
        "chart-ratios",
        _synthetic,
    ),
}


def checksum(source: str) -> str:
    """Return the checksum of a file of the repository."""
    return hashlib.sha256((ROOT / source).read_bytes()).hexdigest()


def texts(path: Path) -> dict[str, str]:
    """Return the texts in a PNG, by their keys."""
    found = {}
    for kind, data in _chunks(path.read_bytes()):
        if kind == b"tEXt":
            key, _null, text = data.partition(b"\0")
            found[key.decode("latin-1")] = text.decode("latin-1")
    return found


def with_texts(png: bytes, added: t.Mapping[str, str]) -> bytes:
    """Return a PNG with more texts."""
    first, *others = _chunks(png)
    new = [(b"tEXt", f"{key}\0{text}".encode("latin-1")) for key, text in added.items()]
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in (first, *new, *others)
    )


def _chunks(png: bytes) -> list[tuple[bytes, bytes]]:
    """Return the kinds of the parts of a PNG, and their data."""
    if not png.startswith(_SIGNATURE):
        raise ValueError("not a PNG")
    at, found = len(_SIGNATURE), []
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        found.append((kind, png[at + 8 : at + 8 + length]))
        at += length + 12
    return found


def main() -> None:
    from browser import Browser

    for name, diagram in DIAGRAMS.items():
        (IMAGES / name).write_text(svg(diagram), encoding="utf-8")
    browser = Browser()
    try:
        with tempfile.TemporaryDirectory() as directory:
            for name, picture in PICTURES.items():
                path = Path(directory, "page.html")
                path.write_text(picture.page(ROOT / picture.source), encoding="utf-8")
                browser.emulate(width=WIDTH, height=HEIGHT)
                browser.open(path)
                heading = picture.heading(ROOT / picture.source)
                clip = browser.driver.execute_script(_PLACE, picture.part, *heading, SCALE)
                shot = browser.driver.execute_cdp_cmd(
                    "Page.captureScreenshot", {"captureBeyondViewport": True, "format": "png", "clip": clip}
                )
                added = {SOURCE: picture.source, TITLE: " ".join(heading).strip()}
                if picture.kept:
                    added[CHECKSUM] = checksum(picture.source)
                (IMAGES / name).write_bytes(with_texts(base64.b64decode(shot["data"]), added))
                print(f"{name}, from {picture.source}")
    finally:
        browser.close()


if __name__ == "__main__":
    main()
