# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference of playbooks is that of their comments, their expressions, and the options that they fill."""

from __future__ import annotations

import re
import sys

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.known_variables import USER_VARIABLES
from ansible_collections.memstretch.density.tests.unit.fixtures.pages import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import playbook_reference

BOOKS = {book.name: book for book in playbook_reference.playbooks()}
PAGE = playbook_reference.PAGE.read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*?) \|", re.MULTILINE)


def test_the_page_is_up_to_date():
    text = playbook_reference.reference(list(BOOKS.values()))
    assert playbook_reference.written(PAGE, text) == PAGE, "run: python tools/playbook_reference.py"


def test_every_playbook_and_every_variable_of_users_is_on_the_page():
    assert re.findall(r"^## ([a-z_]+)$", PAGE, re.MULTILINE) == sorted(BOOKS)
    assert USER_VARIABLES - {name for name, _default, _meaning in ROW.findall(PAGE)} == set()


def test_every_variable_has_a_meaning_of_its_own():
    """What is said of an option of a module must be true for the variable: it names no option that users cannot set."""
    rows = ROW.findall(PAGE)
    assert len(rows) > 80 and [name for name, _default, meaning in rows if not meaning.strip()] == []
    known = set(USER_VARIABLES) | playbook_reference.of_roles().keys() | playbook_reference.described().keys()
    named = {word for _name, _default, meaning in rows for word in re.findall(r"`([a-z_]+)=\w+`", meaning)}
    assert named - known == set()


def test_nothing_is_described_twice_or_for_no_playbook():
    read = set().union(*(book.read for book in BOOKS.values()))
    assert playbook_reference.described().keys() - read == set()
    for name, each in playbook_reference.described().items():
        assert each.keys() <= {"meaning", "default"}, name


@pytest.mark.parametrize(
    ("book", "variable", "default", "meaning"),
    [
        ("density", "density_rounds", "`3`", "Ramps of each profile, 1 to 100."),
        ("density", "density_factor", "", "Only for `slo=relative`"),
        ("study", "kind", "`profiles`", "`ablation` leaves out the settings of `profile` one at a time"),
        ("fleet", "image_suite", "`bookworm`", "The release of Debian"),
        ("throughput", "throughput_port", "`17301`", ""),
        ("report", "latency_benchmark_slo_p99_us", "", "SLO for the 99th percentile of the latency"),
        ("plan", "density_plan_host_reserve", "`vm_fleet_reserve`", "DRAM of each host that VMs do not get."),
    ],
)
def test_a_variable_is_described_by_the_option_that_takes_it(book, variable, default, meaning):
    taken = BOOKS[book].taken[variable]
    option = taken[0] if taken else None
    assert default in playbook_reference.default(variable, option)
    assert meaning in playbook_reference.meaning(variable, option)


def test_a_variable_that_the_playbook_sets_itself_is_not_its_users():
    assert "site_check" in BOOKS["study"].read
    assert not {"site_check", "site_check_required"} & BOOKS["selftest"].read
    assert not {"fleet_size", "profiles"} & BOOKS["restore"].read


def test_the_head_of_a_playbook_must_say_what_it_changes(tmp_path):
    path = tmp_path / "play.yml"
    path.write_text(
        "---\n# Does\n# this. It reads x_y.\n# Example: -e a=1\n# Changes: no\n# host.\n- hosts: a\n# no more\n"
    )
    head = playbook_reference.head(path)
    assert (head.does, head.changes) == ("Does this. It reads `x_y`.", "no host.")
    assert head.example == "ansible-playbook -i hosts.yml memstretch.density.play -e a=1"
    path.write_text("---\n# Does this.\n- hosts: a\n")
    with pytest.raises(ValueError, match="what it changes"):
        playbook_reference.head(path)


def test_a_page_without_a_place_for_the_reference_is_refused():
    with pytest.raises(ValueError, match="<!-- playbooks -->"):
        playbook_reference.written("# Playbooks\n", "")
