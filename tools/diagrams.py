# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The diagrams of README and docs/architecture.md, as SVG: neither Galaxy nor the documentation site draws Mermaid."""

from __future__ import annotations

import typing as t
from html import escape

# Pixels between the lines of a box.
LINE = 19
STYLE = (
    "text{font:14px 'DejaVu Sans',Verdana,sans-serif;fill:#1b1f24;text-anchor:middle}"
    ".soft{fill:#57606a;font-size:13px}"
    ".group{fill:#f6f8fa;stroke:#d0d7de}.box{fill:#fff;stroke:#0969da;stroke-width:1.5}"
    ".data{fill:#fff8e6;stroke:#9a6700;stroke-width:1.5}.arrow{fill:none;stroke:#57606a;stroke-width:1.5}"
)


class Box(t.NamedTuple):
    """A box with lines of text, the first of which is what it is.

    Attributes:
        x: of its left side, in pixels.
        y: of its top.
        width: in pixels.
        height: in pixels.
        text: its lines.
        style: C(box), C(data) or C(group), whose text is at its top.
    """

    x: int
    y: int
    width: int
    height: int
    text: tuple[str, ...]
    style: str = "box"


class Arrow(t.NamedTuple):
    """An arrow.

    Attributes:
        points: its corners.
        label: the text next to it.
        at: where the middle of that text is.
    """

    points: tuple[tuple[int, int], ...]
    label: str = ""
    at: tuple[int, int] = (0, 0)


class Diagram(t.NamedTuple):
    """A diagram; the title is for those who cannot see it."""

    width: int
    height: int
    title: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def _box(box: Box) -> str:
    shape = f'<rect class="{box.style}" x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6"/>'
    middle = box.x + box.width // 2
    first = box.y + box.height // 2 - (len(box.text) - 1) * LINE // 2 + 5
    if box.style == "group":
        first, middle = box.y + 22, box.x + min(box.width // 2, 235)
    texts = []
    for number, line in enumerate(box.text):
        style = ' class="soft"' if number or box.style == "group" else ""
        texts.append(f'<text x="{middle}" y="{first + number * LINE}"{style}>{escape(line)}</text>')
    return shape + "".join(texts)


def _arrow(arrow: Arrow) -> str:
    path = " L".join(f"{x} {y}" for x, y in arrow.points)
    line = f'<path class="arrow" d="M{path}" marker-end="url(#end)"/>'
    if not arrow.label:
        return line
    return f'{line}<text class="soft" x="{arrow.at[0]}" y="{arrow.at[1]}">{escape(arrow.label)}</text>'


def svg(diagram: Diagram) -> str:
    """Return a diagram as SVG. It has a background of its own, so that a dark page does not hide its text."""
    width, height = diagram.width, diagram.height
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-labelledby="title">',
        "<!-- Written by tools/diagrams.py: make pictures. -->",
        f'<title id="title">{escape(diagram.title)}</title>',
        f"<style>{STYLE}</style>",
        '<defs><marker id="end" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L10 5L0 10z" fill="#57606a"/></marker></defs>',
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        *map(_box, diagram.boxes),
        *map(_arrow, diagram.arrows),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


HOW_IT_WORKS = Diagram(
    1000,
    225,
    "The host is tuned, VMs and Redis are set up, one client next to each Redis loads all at one start time, and the "
    "merged histograms give a verdict; a study then begins the next run",
    (
        Box(15, 60, 105, 70, ("inventory", "and profile"), "data"),
        Box(155, 60, 155, 70, ("tune the host", "recorded, reversible")),
        Box(345, 60, 125, 70, ("VMs and Redis",)),
        Box(505, 60, 145, 70, ("load the fleet", "one client a Redis,", "one start time")),
        Box(685, 60, 130, 70, ("merge, check", "judge each host")),
        Box(850, 60, 135, 70, ("verdict", "pages, JSON, CSV"), "data"),
    ),
    (
        Arrow(((120, 95), (153, 95))),
        Arrow(((310, 95), (343, 95))),
        Arrow(((470, 95), (503, 95))),
        Arrow(((650, 95), (683, 95)), "histograms of every request", (667, 45)),
        Arrow(((815, 95), (848, 95))),
        Arrow(((917, 130), (917, 190), (232, 190), (232, 132)), "study, density: the next run", (575, 180)),
    ),
)

DATA_FLOW = Diagram(
    1000,
    590,
    "How data flows: from the inventory through the roles on the hypervisors and the fleet to the files of a run and "
    "the report; studies and searches start the next run",
    (
        Box(15, 15, 970, 150, ("hypervisors",), "group"),
        Box(15, 210, 470, 150, ("fleet: VMs, containers, or any Redis hosts",), "group"),
        Box(15, 405, 970, 170, ("controller",), "group"),
        Box(35, 65, 150, 80, ("inventory, profile",), "data"),
        Box(220, 65, 200, 80, ("role host_tuning", "record, apply,", "verify, restore")),
        Box(455, 65, 150, 80, ("role swap_space", "drives, files,", "zram, zswap")),
        Box(630, 65, 170, 80, ("role kernel_cmdline",)),
        Box(825, 65, 145, 80, ("role vm_fleet", "linked clones")),
        Box(35, 255, 150, 85, ("role redis",)),
        Box(240, 255, 225, 85, ("files/solotest.c", "one client", "next to each Redis")),
        Box(620, 255, 260, 85, ("role latency_benchmark", "one start time for all")),
        Box(35, 455, 220, 90, ("callback fleet_latency", "merges, writes", "the files of the run")),
        Box(290, 465, 130, 70, ("results/RUN/",), "data"),
        Box(455, 455, 230, 90, ("module report", "verdict, text,", "JSON, HTML")),
        Box(720, 455, 250, 90, ("study, density:", "many runs")),
    ),
    (
        Arrow(((185, 105), (218, 105))),
        Arrow(((420, 105), (453, 105))),
        Arrow(((320, 65), (320, 50), (715, 50), (715, 63))),
        Arrow(((320, 65), (320, 50), (897, 50), (897, 63))),
        Arrow(((897, 145), (897, 190), (110, 190), (110, 253)), "adds its VMs to the group fleet", (690, 183)),
        Arrow(((185, 297), (238, 297))),
        Arrow(((620, 297), (467, 297)), "phase by phase", (550, 287)),
        Arrow(((350, 340), (350, 385), (145, 385), (145, 453)), "histograms of each host", (440, 385)),
        Arrow(((255, 500), (288, 500))),
        Arrow(((420, 500), (453, 500))),
        Arrow(((685, 500), (718, 500))),
        Arrow(((845, 455), (845, 385), (750, 385), (750, 342)), "the next run", (905, 380)),
    ),
)

DIAGRAMS = {"how-it-works.svg": HOW_IT_WORKS, "data-flow.svg": DATA_FLOW}
