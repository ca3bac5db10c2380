# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

from synthetic_ramps import dram, ramp

from ansible_collections.memstretch.density.plugins.plugin_utils.density import sentence
from ansible_collections.memstretch.density.plugins.plugin_utils.density.page import page

from .judging import judged


def heading(found):
    """Return the sentence as the page has it; no line of it begins with a per cent sign."""
    return f"<h1>{sentence.sentence(found)}</h1>".replace(" %", "\N{NO-BREAK SPACE}%")


def test_the_page_has_the_sentence_first_and_its_details_next(decided):
    text = page(json.loads(json.dumps(decided)))
    assert f'{heading(decided)}\n<p class="details">{sentence.details(decided)}</p>' in text


def test_without_a_density_the_page_says_why():
    found = judged([ramp("dram", 1, [2, 3], wall=4)], ("dram",))
    text = page(json.loads(json.dumps(found)))
    assert "<h1>No density: the ramps in DRAM have 2 clean windows" in text


def test_before_its_first_ramp_a_profile_is_not_on_the_page():
    found = judged(dram((1,)), ("dram", "zram"))
    text = page(json.loads(json.dumps(found)))
    assert heading(found) in text and "zram" not in text.partition('id="windows"')[0]
