# SPDX-License-Identifier: GPL-3.0-or-later
"""Each picture of the pages names its source and shows what that has now."""

from __future__ import annotations

import json
import pathlib
import re
import sys
from xml.etree import ElementTree

import pytest

from ansible_collections.memstretch.density.tests.unit.fixtures.pages import PAGES

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import pictures

ROOT = pathlib.Path(__file__).resolve().parents[2]

SHOWN = re.compile(r"!\[([^]]*)\]\(([^)]*docs/images/|images/|\.\./images/)([\w.-]+)\)")


def test_no_picture_is_without_a_source():
    assert {path.name for path in pictures.IMAGES.iterdir()} == {*pictures.PICTURES, *pictures.DIAGRAMS}


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_a_picture_is_drawn_from_the_source_that_it_names(name):
    picture, texts = pictures.PICTURES[name], pictures.texts(pictures.IMAGES / name)
    assert texts[pictures.SOURCE] == picture.source and (ROOT / picture.source).exists()
    heading = picture.heading(ROOT / picture.source)
    assert texts[pictures.TITLE] == " ".join(heading).strip(), "draw it again with make pictures"
    if picture.kept:
        assert texts[pictures.CHECKSUM] == pictures.checksum(picture.source), "draw it again with make pictures"
    else:
        assert heading.title.startswith("Synthetic example"), "only figures of a kept result were measured"


def test_the_picture_of_the_density_says_its_message_load_and_objective():
    picture = pictures.PICTURES["density.png"]
    zram = json.loads((ROOT / picture.source).read_text(encoding="utf-8"))["density"]["arms"][1]
    title, words = picture.heading(ROOT / picture.source)
    assert title.startswith(f"zram carries {zram['ratio']['ratio']:.1f} times as many Redis servers as DRAM alone, ")
    assert "50 GETs a second" in words and "Objective: at most 2 times as slow as a server in DRAM" in words


@pytest.mark.parametrize("name", pictures.DIAGRAMS)
def test_a_diagram_is_that_of_the_tool(name):
    text = (pictures.IMAGES / name).read_text(encoding="utf-8")
    assert text == pictures.svg(pictures.DIAGRAMS[name]), "draw it again with make pictures"
    ElementTree.fromstring(text)


def test_each_picture_is_shown_with_words_for_those_who_cannot_see_it():
    shown = [found for page in PAGES for found in SHOWN.findall(page.read_text(encoding="utf-8"))]
    assert {name for _words, _place, name in shown} == {*pictures.PICTURES, *pictures.DIAGRAMS}
    assert all(len(words) > 20 for words, _place, _name in shown)


def test_a_text_in_a_picture_is_read_back(tmp_path):
    path = tmp_path / "picture.png"
    old = (pictures.IMAGES / "comparison.png").read_bytes()
    path.write_bytes(pictures.with_texts(old, {"Comment": "new"}))
    assert pictures.texts(path) == {**pictures.texts(pictures.IMAGES / "comparison.png"), "Comment": "new"}
    # A reader of pictures checks the checksums of the parts.
    assert path.read_bytes().endswith(old[-12:]) and len(path.read_bytes()) == len(old) + 12 + len("Comment\0new")


def test_the_page_of_each_picture_has_the_part_that_is_shown():
    for name, picture in pictures.PICTURES.items():
        assert f'id="{picture.part}"' in picture.page(ROOT / picture.source), name
