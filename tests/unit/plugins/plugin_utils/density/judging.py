# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges ramps, and checks each answer against its schema."""

from __future__ import annotations

import json
import pathlib

import jsonschema
from synthetic_ramps import definition

from ansible_collections.memstretch.density.plugins.plugin_utils.density.answer import answer

ROUNDS = (1, 2, 3)
SCHEMA = json.loads((pathlib.Path(__file__).parents[5] / "docs" / "schemas" / "density.json").read_text("utf-8"))


def judged(ramps, arms=("dram", "zram"), **changes):
    found = answer(definition(arms, **changes), ramps)
    jsonschema.validate(json.loads(json.dumps(found)), SCHEMA)
    return found
