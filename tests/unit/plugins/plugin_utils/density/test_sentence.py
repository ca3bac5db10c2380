# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from synthetic_ramps import SECONDS, dram, ramp, tier

from ansible_collections.memstretch.density.plugins.plugin_utils.density import live, sentence

from .judging import judged


def test_the_sentence_says_it_in_one_breath(decided):
    zram = decided["arms"][1]
    (low, high) = zram["ratio"]["interval"]
    assert sentence.sentence(decided) == (
        f"In 256 MiB of DRAM, zram carries {zram['density']} Redis servers, DRAM alone 10: "
        f"{zram['ratio']['ratio']:.1f} times (95 %: {low:.1f} to {high:.1f})."
    )


def test_the_details_have_the_objective_its_price_and_what_ends_it(decided):
    found, idle = decided["arms"][1]["latency"], decided["plateau"]
    assert sentence.details(decided) == (
        f"The fleet is at most twice as slow as servers in DRAM next to it: {found['avg_ratio']:.1f} times on average, "
        f"a p99 of {found['p99_us']:,.0f} us ({idle['p99_us']:,.0f} in idle DRAM). The page-ins end it."
    )


def test_the_details_say_how_fast_the_drive_is_and_how_much_is_written_to_it():
    drive = {"page_ins": 400, "drive_reads": 400, "drive_read_seconds": 0.04, "drive_written_bytes": 10**6}
    found = judged([*dram((1, 2)), *tier("swap", (1, 2), 20.5, tier=["/swap"], **drive)], ("dram", "swap"))
    daily = 1e6 / SECONDS * 86_400 / 1e9
    assert sentence.details(found).endswith(
        f"The drive ends it. A read of its drive takes 100 us, and {daily:.0f} GB a day are written to it."
    )


@pytest.mark.parametrize(
    "reads, area", [pytest.param(SECONDS - 1, "/swap", id="hardly read"), pytest.param(400, "/dev/zram0", id="zram")]
)
def test_nothing_is_said_about_a_drive_that_the_fleet_does_not_read(reads, area):
    drive = {"page_ins": 4000, "drive_reads": reads, "drive_read_seconds": 0.0001, "tier": [area]}
    found = judged([*dram((1, 2)), *tier("zram", (1, 2), 20.5, **drive)])
    assert "drive" not in sentence.details(found)


def test_servers_that_were_not_judged_alone_are_not_said_to_meet_the_objective(decided):
    def starts(scope, judged_hosts):
        zram = {**decided["arms"][1], "hosts": {**decided["arms"][1]["hosts"], "judged": judged_hosts}}
        changed = {**decided, "definition": {**decided["definition"], "scope": scope}}
        return sentence.details({**changed, "arms": [decided["arms"][0], zram]}).partition(" at most twice")[0]

    assert [starts("every", 20), starts("every", 0), starts("fleet", 20)] == ["Each is", "The fleet is", "The fleet is"]


def test_without_a_density_there_are_no_details():
    assert sentence.details(judged([ramp("dram", 1, [2, 3], wall=4)], ("dram",))) == ""


def test_without_a_quiet_window_the_sentence_says_what_the_machine_did():
    sizes, limits = [8, 9, 10], {"kind": "absolute", "avg_us": 120.0, "p99_us": 1e6}
    found = judged([ramp("dram", 1, sizes, stolen=dict.fromkeys(sizes, 0.05))], ("dram",), objective=limits)
    reason = (
        "each of the 3 windows was disturbed (the last: 5.00 % of a CPU of this_machine was stolen); measure again "
        "when the machine is quiet"
    )
    assert sentence.sentence(found) == f"No density: {reason}."
    assert f"DRAM alone: {reason}" in sentence.notes(found)
    assert live.known(found) == f"So far: no density, since {reason}"


def test_ramps_that_ended_at_once_have_no_density():
    assert "the ramps ended before they had a window" in sentence.no_clean_window([{"rounds": []}])


def test_a_table_has_a_row_for_each_profile(decided):
    first, zram = sentence.table(decided)
    assert (first["name"], first["density"], first["cause"]) == ("dram", "10", "capacity ends it")
    assert zram["density"] == str(decided["arms"][1]["density"]) and "windows within" in zram["latency"]


def test_an_absolute_interval_says_what_it_does_not_cover():
    limits = {"kind": "absolute", "avg_us": 120.0, "p99_us": 1e6}
    found = judged([*dram((1, 2, 3)), *tier("zram", (1, 2, 3), 20.5)], objective=limits)
    assert any("at another hour" in note for note in sentence.notes(found))


def test_every_other_profile_has_a_sentence_of_its_own(decided):
    assert sentence.others(decided) == []
    ramps = [*dram((1, 2, 3)), *tier("zram", (1, 2, 3), 28.5), *tier("swap", (1, 2, 3), 20.5)]
    found = judged(ramps, ("dram", "zram", "swap"))
    ((other, details),) = sentence.others(found)
    assert other.startswith("In 256 MiB of DRAM, a swap drive carries 20 ") and details.endswith("The page-ins end it.")
    assert "zram carries" in sentence.sentence(found)


def test_a_machine_that_was_not_quiet_in_dram_gets_an_answer():
    def moods(size):
        return 1.0 if size % 2 else 1.8

    noisy = [ramp("dram", number, range(5, 11), moods, moods, wall=11) for number in (1, 2)]
    found = judged([*noisy, *tier("zram", (1, 2), 20.5)])
    assert "zram carries 20 Redis servers, DRAM alone 10: 2.0 times" in sentence.sentence(found)
