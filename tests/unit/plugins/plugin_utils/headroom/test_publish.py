# SPDX-License-Identifier: GPL-3.0-or-later
"""Headroom as text, as a page and as JSON with a schema."""

from __future__ import annotations

import json
import pathlib

import jsonschema
import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import answer, publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.tests.unit.fixtures.looks import GIB, window

from .test_answer import WISHES, ZRAM

SCHEMA = json.loads((pathlib.Path(__file__).parents[5] / "docs" / "schemas" / "headroom.json").read_text("utf-8"))


@pytest.fixture
def document(look):
    unknown = look()
    unknown.update(method=None, reason="DAMON is in use")
    for unit in unknown["units"]:
        unit.update(ages=[], reason="DAMON is in use")
    watched = {**look(tiers=ZRAM), "watch": {"since": 1_799_980_000.0, "half_hour": window(), "worst_hour": window()}}
    looks = {"kv1": watched, "kv2": look(40), "kv3": look(0), "kv4": unknown}
    return answer.document(looks, WISHES, {"id": "headroom-1", "made_at": 1_800_000_000})


def test_the_document_has_its_schema(document):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(json.loads(json.dumps(document)), SCHEMA, jsonschema.Draft202012Validator)


def test_the_schema_names_every_key(document):
    """A key without a description in the schema would be a figure that nobody explains."""
    host = SCHEMA["$defs"]["host"]["properties"]
    assert set(document["hosts"]["kv1"]) == set(host) and all(each.get("description") for each in host.values())


def test_the_sentences_come_first(document):
    lines = publish.lines(document)
    assert lines[:4] == [host["sentence"] for host in document["hosts"].values()]
    text = "\n".join(lines)
    assert "ram_allocation_ratio" in text and "memoryOvercommitPercentage" in text
    assert "Verdict: unknown, because DAMON is in use." in text and "unknown" in text


def test_the_files_are_written_once(document, tmp_path):
    directory = RunDirectory(str(tmp_path), "headroom-1")
    assert publish.write(directory, document, publish.lines(document))
    assert not publish.write(directory, document, publish.lines(document))

    assert json.loads((tmp_path / "headroom-1" / "headroom.json").read_text("utf-8")) == document
    page = (tmp_path / "headroom-1" / "report.html").read_text("utf-8")
    assert document["hosts"]["kv1"]["sentence"] in page and "headroom-0-ages" in page


def test_the_worst_host_stands_first_on_the_page_and_in_the_index(document, tmp_path):
    publish.write(RunDirectory(str(tmp_path), "headroom-1"), document, [])
    worst = document["hosts"]["kv2"]
    assert worst["verdict"] == "over"
    page = (tmp_path / "headroom-1" / "report.html").read_text("utf-8")
    assert f"<h1>{worst['sentence']}</h1>" in page and '<p class="word">OVER</p>' in page
    assert page.index(">kv2: over</h2>") < page.index(">kv3: unknown</h2>") < page.index(">kv1: safe</h2>")
    assert "4 hosts: 1 over, 2 unknown, 1 safe." in page and '<div class="verdict fail" role="status">' in page
    assert worst["sentence"] in (tmp_path / "index.html").read_text("utf-8")


def test_one_host_has_its_verdict_and_the_reason_first(look, tmp_path):
    found = answer.document({"kv1": look(tiers=ZRAM)}, WISHES, {"id": "headroom-1", "made_at": 1})
    publish.write(RunDirectory(str(tmp_path), "headroom-1"), found, [])
    page = (tmp_path / "headroom-1" / "report.html").read_text("utf-8")
    reason = found["hosts"]["kv1"]["reason"]
    assert '<p class="word">SAFE</p>' in page and f"<p>{reason[0].upper()}{reason[1:]}.</p>" in page
    assert "<nav" not in page, "there is only one section"


def test_a_worn_drive_is_named(look):
    drives = [{"name": "nvme0n1", "worn_percent": 85}, {"name": "nvme1n1", "worn_percent": 3}]
    drives.append({"name": "sda", "worn_percent": None})
    text = "\n".join(publish.lines(answer.document({"kv1": look(drives=drives)}, WISHES, {"id": "x", "made_at": 1})))

    assert "the drive nvme0n1 says that 85 % of its endurance is used, and swap writes to it" in text
    assert "nvme1n1 says" not in text and "3 %" in text and "sda" not in text


def test_what_changed_meanwhile_and_how_exact_it_is_are_said(look):
    seen = look()
    seen["units"][0].update(ages=[], reason=answer.ENDED)
    seen["started"] = ["new"]
    seen["cost"].update(pages=40, wanted_cpu_percent=9.4)
    text = "\n".join(publish.lines(answer.document({"kv1": seen}, WISHES, {"id": "x", "made_at": 1})))

    assert "vm00 has ended during the look, and is left out" in text
    assert "new has started during the look: its memory counts as the host's own" in text
    assert "known within 2 % of its memory, at 95 %. For about 5 % a look would take 9.4 % of a CPU" in text
    exact = "\n".join(publish.lines(answer.document({"kv1": look()}, WISHES, {"id": "x", "made_at": 1})))
    assert "known within 2 % of its memory" in exact and "headroom_cpu_percent" not in exact


def text_of(seen):
    return "\n".join(publish.lines(answer.document({"kv1": seen}, WISHES, {"id": "x", "made_at": 1})))


def test_what_the_watch_knows_of_other_hours_is_said(look):
    seen = look()
    assert "no watch runs there: nothing is known of other hours" in text_of(seen)

    seen["watch"] = {"since": 1_799_980_000.0, "half_hour": None, "worst_hour": None}
    text = text_of(seen)
    assert "The watch runs only since 2027-01-15T02:26:40Z: the worst hour is not known yet." in text
    assert "half an hour" not in text and "no watch" not in text

    worst = window(memory_some_share=0.0031, page_ins=1234.5, refaults=None)
    seen["watch"].update(half_hour=window(), worst_hour=worst)
    for unit in seen["units"]:
        unit["swapped_bytes"] = GIB
    text = text_of(seen)
    assert "tasks waited for memory in 0.31 % of it, with 1.23e+03 page-ins/s and unknown refaults/s" in text
    assert (
        "Of 40 GiB, there were accessed within half an hour at least 4.4 GiB, which the look saw, and at most" in text
    )


def test_a_bound_that_says_nothing_is_not_shown(look):
    seen = {**look(), "method": "reclaim"}
    seen["watch"] = {"since": 1_799_980_000.0, "half_hour": window(), "worst_hour": None}
    assert "half an hour" not in text_of(seen)
    seen["method"] = "damon"
    assert "at least 4.4 GiB, which the look saw." in text_of(seen)
