# SPDX-License-Identifier: GPL-3.0-or-later
"""The site check on this machine."""

from __future__ import annotations

import pathlib

import yaml

from .conftest import ON_THIS_MACHINE

QUICK = {
    "site_check_blocks": 3,
    "site_check_block_seconds": 0.3,
    "site_check_rate": 2000,
    "site_check_slo_p99_us": 1e8,
}


def redis_servers():
    found = set()
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if "redis-server" in path.read_text(encoding="utf-8", errors="replace"):
                found.add(path.parent.name)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def inventory(fleet, **variables):
    path = fleet.path / "site.yml"
    hosts = {"this_machine": {**ON_THIS_MACHINE, **QUICK, **variables}}
    path.write_text(yaml.safe_dump({"hypervisors": {"hosts": hosts}}), encoding="utf-8")
    return path


def test_a_site_is_measured_and_judged_and_nothing_stays(fleet):
    before = redis_servers()
    outcome = fleet.run_playbook(playbook="site_check", inventory=inventory(fleet))
    assert outcome.status == 0, outcome.output
    assert "Site check of this_machine: avg " in outcome.output and "a study can see a factor of " in outcome.output
    document = fleet.document("site_check", "site_check")
    assert len(document["measured"]["this_machine"]["blocks"]) == 3
    assert set(document["hosts"]["this_machine"]["noise"]) == {"avg_us", "p99_us"}
    assert not [pid for pid in redis_servers() - before if "site-" in _arguments(pid)]


def _arguments(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_a_site_that_is_too_noisy_is_refused_if_asked_for(fleet):
    noisy = inventory(fleet, site_check_slo_p99_us=0.001, site_check_enforce=True)
    outcome = fleet.run_playbook(playbook="site_check", inventory=noisy)
    assert outcome.status and "the site is too noisy for a study: this_machine: " in outcome.output
    assert "this_machine: the bounds of p99 are" in outcome.output
    assert "TOO NOISY" in outcome.output


def test_mistakes_are_named(fleet):
    fleet.add("a")
    cases = [
        ({"site_check_blocks": 2}, "blocks: 2 is out of range; it must be a whole number from 3 to 1,000"),
        ({"site_check_redis": "/nonexistent/redis"}, "/nonexistent/redis"),
        ({"site_check_rounds": 1}, "rounds: 1 is out of range; it must be a whole number from 2 to 1,000"),
    ]
    assert fleet.not_refused("site_check", [({**QUICK, **each}, text) for each, text in cases]) == []
