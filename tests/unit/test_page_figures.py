# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures that a page quotes from a bench stand in the page of that bench, or in what an experiment printed.

A paragraph that links to a bench quotes it, and only a section of it if the link has an anchor. So does a passage
between "<!-- figures -->" and "<!-- end of figures -->", which may have several paragraphs, and tables. In a table each
column whose heading has a link quotes that bench, and a link in the first heading stands for all columns; of other
columns nothing is checked. A figure may be rounded.
"""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest

from ansible_collections.memstretch.density.tests.unit.fixtures.pages import PAGES, ROOT, blocks, name

MARKED = re.compile(r"<!-- figures -->\n(.*?)<!-- end of figures -->", re.DOTALL)
BENCH = re.compile(r"\]\(([\w./-]*bench/(?:[\w-]+\.md|experiments/[\w-]+\.txt))(?:#([\w-]+))?\)")
REPOSITORY = "https://github.com/memstretch/density/blob/main/"
FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")


def figures(text: str) -> set[str]:
    """Return the numbers of a text without its links, pictures and code."""
    return {each.replace(",", "") for each in FIGURE.findall(re.sub(r"\]\([^)]*\)|`[^`]*`", " ", text))}


def passages(page: pathlib.Path) -> list[str]:
    """Return the marked passages of a page, and the paragraphs outside of these that quote a bench."""
    text = page.read_text(encoding="utf-8").replace(REPOSITORY, "")
    paragraphs = [each for each in MARKED.sub("", text).split("\n\n") if not each.startswith("|")]
    quoting = [each for each in paragraphs if BENCH.search(each) and figures(each)]
    return MARKED.findall(text) + (quoting if page.parent.name != "bench" else [])


PASSAGES = [
    pytest.param(page, passage, id=f"{name(page)}-{number}")
    for page in PAGES
    for number, passage in enumerate(passages(page))
]


class Bench(t.NamedTuple):
    """What is quoted: the page of a bench, or the section that begins with a heading."""

    page: pathlib.Path
    anchor: str = ""

    def text(self) -> str:
        """Return the text without its repetitions, among which any number can be found."""
        whole = self.page.read_text(encoding="utf-8")
        sections = re.split(r"^(?=#+ )", whole, flags=re.M) if self.anchor else [whole]
        quoted = "".join(each for each in sections if not self.anchor or anchor(each) == self.anchor)
        return re.sub(r"^## All repetitions$.*?(?=^## |\Z)", "", quoted, flags=re.M | re.S)


def anchor(section: str) -> str:
    """Return the anchor of the heading with which a section begins, as GitHub makes it."""
    heading = section.partition("\n")[0].lstrip("# ").lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def measured(benches: t.Iterable[Bench]) -> list[float]:
    """Return the numbers that benches have measured."""
    return [float(figure) for bench in benches for figure in figures(bench.text())]


def unproven(text: str, benches: list[Bench]) -> list[str]:
    """Return the figures of a text that no bench measured."""
    assert benches, f"no bench is linked: {text}"
    known = measured(benches)
    return [figure for figure in sorted(figures(text)) if not any(is_rounded(figure, each) for each in known)]


def is_rounded(figure: str, number: float) -> bool:
    """Check whether a figure is a number, rounded to the digits that it has. A half may be rounded up or down."""
    digits = len(figure.partition(".")[2])
    return abs(float(figure) - number) <= 0.5000001 * 10**-digits


def quoted(page: pathlib.Path, passage: str) -> t.Iterator[tuple[str, list[Bench]]]:
    """Return the texts of a passage that quote benches, each with these benches."""

    def linked(text: str) -> list[Bench]:
        return [Bench((page.parent / path).resolve(), name) for path, name in BENCH.findall(text)]

    rows = [line.strip("|").split("|") for line in passage.splitlines() if line.startswith("|")]
    columns = list(zip(*rows))
    for number, (heading, *cells) in enumerate(columns):
        if linked(heading):
            if number == 0:
                cells = ["|".join(row) for row in rows[1:]]
            yield "\n".join(cells), linked(heading)
    text = "\n".join(line for line in passage.splitlines() if not line.startswith("|"))
    if text.strip():
        yield text, linked(text)


@pytest.mark.parametrize(("page", "passage"), PASSAGES)
def test_quoted_figures_were_measured(page, passage):
    found = [(text, benches) for text, benches in quoted(page, passage) if figures(text)]
    assert found, "the passage quotes nothing"
    for text, benches in found:
        assert not unproven(text, benches), text


def test_the_pages_quote_benches():
    assert {page.values[0].name for page in PASSAGES} >= {
        "README.md",
        "evidence-measurement.md",
        "evidence-study.md",
        "experiments.md",
    }


def test_the_readme_shows_output_that_the_pages_have():
    pages = [block for page in ("tutorial", "selftest") for block in blocks(ROOT / f"docs/{page}.md", "")]
    kept = " ".join(line for block in pages for line in block.text.splitlines())
    kept = " ".join(kept.split())
    lines = [line for block in blocks(ROOT / "README.md", "") for line in block.text.splitlines() if line != "..."]
    assert len(lines) > 5
    for line in lines:
        assert " ".join(line.removesuffix(" ...").split()) in kept, line


def test_a_paragraph_that_quotes_a_bench_needs_no_mark(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "It took 5 s.\n\nThe median is 17 us ([bench](bench/a.md#b)).\n\n| 3 | [bench](bench/a.md) |\n",
        encoding="utf-8",
    )
    assert passages(page) == ["The median is 17 us ([bench](bench/a.md#b))."]


def test_a_figure_that_no_bench_has_is_noticed(tmp_path):
    bench = tmp_path / "bench.md"
    bench.write_text(
        "| ratio | 1,234.56 us |\n\n## All repetitions\n\n77.7\n\n## Since then\n\n0.98\n", encoding="utf-8"
    )
    assert unproven("1,234.6 us, 1235, 0.98, 1 and 77.7; `99`", [Bench(bench)]) == ["77.7"]
    assert unproven("0.98 and 77.7", [Bench(bench, "since-then")]) == ["77.7"]
    assert unproven("1,234.6 us", [Bench(bench, "since-then")]) == ["1234.6"]


def test_what_an_experiment_printed_is_quoted_like_a_bench(tmp_path):
    bench = tmp_path / "bench" / "experiments"
    bench.mkdir(parents=True)
    (bench / "a.txt").write_text("1 writer of 4 KiB  426.5, range 370.6 to 687.8\n", encoding="utf-8")
    page = tmp_path / "page.md"
    link = "[a](bench/experiments/a.txt)"
    page.write_text(f"It keeps 427 (371 to 688) IOPS ({link}).\n\nIt keeps 428 IOPS ({link}).\n", encoding="utf-8")

    assert [[unproven(text, each) for text, each in quoted(page, passage)] for passage in passages(page)] == [
        [[]],
        [["428"]],
    ]


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ("| [writers](bench/a.md) | idle | flood |\n| --- | --- | --- |\n| 1 of 4 | 5 | 6 |", ["6"]),
        ("| writers | [idle](bench/a.md) | flood |\n| --- | --- | --- |\n| 1 of 4 | 6 | 7 |", ["6"]),
    ],
)
def test_a_link_in_the_first_heading_stands_for_the_whole_table(tmp_path, table, wrong):
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "a.md").write_text("1 4 5\n", encoding="utf-8")
    ((text, benches),) = quoted(tmp_path / "page.md", table)

    assert unproven(text, benches) == wrong


@pytest.mark.parametrize(
    ("figure", "number", "proven"),
    [
        ("427", 426.5, True),
        ("426", 426.5, True),
        ("426", 426.6, False),
        ("0.71", 0.705, True),
        ("0.71", 0.7, False),
        ("0.7", 0.705, True),
    ],
)
def test_a_figure_may_be_rounded(figure, number, proven):
    assert is_rounded(figure, number) is proven
