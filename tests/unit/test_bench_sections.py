# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages with several benches: each bench writes its own section and nothing else."""

from __future__ import annotations

import re
import shutil
import sys

import pytest

from ansible_collections.memstretch.density.tests.unit.fixtures.pages import ROOT

sys.path.append(str(ROOT / "tests" / "bench"))

from machine import CLIENT, CLIENT_SECTIONS, HEADROOM, SHORT, write_section

WRITTEN_BY = re.compile(r'write_section\(\s*"(\w+)",\s*"([^"]+)"')
BENCHES = [
    (HEADROOM if path.stem == HEADROOM.stem else SHORT, *found.groups())
    for path in sorted((ROOT / "tests" / "bench").glob("*.py"))
    for found in WRITTEN_BY.finditer(path.read_text(encoding="utf-8"))
]
BENCHES += [(CLIENT, bench, heading) for bench, heading in CLIENT_SECTIONS.items()]


@pytest.mark.parametrize(("kept", "bench", "heading"), BENCHES)
def test_a_bench_finds_its_section(tmp_path, kept, bench, heading):
    page = tmp_path / "page.md"
    shutil.copy(kept, page)
    write_section(bench, heading, "New figures.", page)
    before, after = (path.read_text(encoding="utf-8") for path in (kept, page))
    section = re.compile(f"<!-- {bench} -->\n## ([^\n]+)\n\n(.+?)\n<!-- end of {bench} -->\n", re.DOTALL)
    old, new = section.search(before), section.search(after)
    assert old and new and new.groups() == (heading, "New figures.")
    assert old[1] == heading, "links lead to this heading"
    assert section.sub("", before) == section.sub("", after)


def test_benches_write_sections():
    assert len(BENCHES) > 5


def test_a_section_that_is_not_there_is_named(tmp_path):
    page = tmp_path / "short.md"
    page.write_text("# Short benches\n", encoding="utf-8")
    with pytest.raises(ValueError, match="<!-- nothing -->"):
        write_section("nothing", "Nothing", "", page)
