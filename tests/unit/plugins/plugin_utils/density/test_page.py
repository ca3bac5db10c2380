# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

from ansible_collections.memstretch.density.plugins.plugin_utils.density import sentence
from ansible_collections.memstretch.density.plugins.plugin_utils.density.page import page


def test_the_page_has_the_sentence_first(decided):
    text = page(json.loads(json.dumps(decided)))
    assert f"<h1>{sentence.sentence(decided)}</h1>" in text
