# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer for hosts: the sentence, the verdict with its reason, other words for it, and N+1."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import answer
from ansible_collections.memstretch.density.tests.unit.fixtures.looks import GIB, unit, window

WISHES = answer.Wishes(like="", compression=None, page_in_us=None, waiting=1, reserve=5)
DRIVE = [{"kind": "drive", "name": "/dev/nvme0n1", "size_bytes": 500 * GIB, "used_bytes": 0, "priority": -2}]
ZRAM = [{"kind": "zram", "name": "/dev/zram0", "size_bytes": 64 * GIB, "used_bytes": 0, "priority": 100}]


def of(look, wishes=WISHES, **others):
    return answer.document({"kv1": look, **others}, wishes, {"id": "x", "made_at": 1})["hosts"]["kv1"]


def test_the_sentence_has_the_answer(look):
    found = of(look())

    assert found["sentence"].startswith(
        "kv1 runs 10 VMs in 64 GiB; 87% (86% to 88%) of their memory was not touched for 5 minutes; "
    )
    assert "with a compression of 2:1 about" in found["sentence"] and "more like vm04 fit, at" in found["sentence"]
    assert found["sentence"].endswith("page-ins/s; near its limit: no")
    assert found["verdict"] == "safe"


def test_a_longer_age_has_no_less_active_memory_than_a_shorter_one(look):
    """The samples of ten pages say 16 %, 0 % and 20 %, so the first two differ by chance alone."""
    few = [unit(shares={1: 0.16, 3: 0.0, 10: 0.2})]
    for age, low, high in zip(few[0]["ages"], (0.0, 0.0, 0.05), (0.4, 0.28, 0.5)):
        age.update(low_bytes=round(low * 4 * GIB), high_bytes=round(high * 4 * GIB))
    assert of(look(units=few))["cold"] == {"seconds": 10, "share": 0.8, "low": 0.5, "high": 0.95}
    few[0]["ages"].pop()
    found = of(look(units=few))
    assert found["cold"] == {"seconds": 3, "share": 0.92, "low": 0.72, "high": 1.0}
    assert "; 92% (72% to 100%) of its memory was not touched for 3 seconds; " in found["sentence"]


def test_the_shares_of_many_units_are_known_better_than_that_of_one(look):
    """Their errors cancel each other out: by a tenth over a hundred units."""

    def width(count):
        cold = of(look(count))["cold"]
        return cold["high"] - cold["low"]

    assert width(100) == pytest.approx(width(1) / 10, rel=0.05)


def test_what_is_assumed_is_said_until_the_host_shows_it(look):
    assert of(look())["assumed"] == [
        "there is no tier yet: zram is assumed",
        "a compression of 2:1 is assumed",
        "30 us for a page-in are assumed",
    ]
    zram = {"tiers": ZRAM, "zram": {"stored_bytes": 3 * GIB, "used_bytes": GIB}}
    found = of(look(**zram), WISHES.__class__(**{**vars(WISHES), "page_in_us": 20.0}))
    assert found["assumed"] == [] and found["compression"] == 3 and found["page_in_us"] == 20


def test_a_drive_takes_no_dram_and_shows_its_latency(look):
    seen = look(tiers=DRIVE)
    seen["host"]["rates"]["drive_page_in_us"] = 80.0
    found = of(seen)

    assert found["compression"] is None and found["page_in_us"] == 80 and found["assumed"] == []
    assert found["more"]["count"] > of(look())["more"]["count"]


def test_the_interval_contains_the_number(look):
    more = of(look(tiers=DRIVE))["more"]
    assert more["low"] <= more["count"] <= more["high"] and more["low"] < more["high"]


def test_the_same_in_the_words_of_others(look):
    """10 VMs of 4 GiB and k more are given (10 + k) x 4 GiB of 64 GiB, of which the host itself takes 2."""
    more = of(look())["more"]
    given = (10 + more["count"]) * 4

    assert more["ram_allocation_ratio"] == pytest.approx(given / 64, abs=0.01)
    assert more["memoryOvercommitPercentage"] == pytest.approx(100 * given / (64 * 0.95 - 2), abs=1)


@pytest.mark.parametrize("own", [64 * 0.95, 63])
def test_a_host_that_leaves_nothing_for_units_is_over_its_limit(look, own):
    found = of(look(in_use_bytes=round((40 + own) * GIB)))
    assert found["verdict"] == "over" and found["more"]["memoryOvercommitPercentage"] == 0


def test_idle_vms_leave_more_room_than_busy_ones(look):
    idle = [unit(f"vm{number}", shares={1: 0.01, 10: 0.02, 300: 0.03}) for number in range(10)]
    assert of(look(units=idle))["more"]["count"] > of(look())["more"]["count"]


def test_the_named_vm_is_the_one_that_is_copied(look):
    units = [unit("small", size=GIB), *(unit(f"vm{number}") for number in range(8))]
    wishes = WISHES.__class__(**{**vars(WISHES), "like": "small"})
    found = of(look(units=units), wishes)

    assert found["more"]["like"] == "small" and found["more"]["count"] > of(look(units=units))["more"]["count"]
    unknown = WISHES.__class__(**{**vars(WISHES), "like": "none"})
    assert of(look(), unknown)["reason"] == "headroom_like: there is no 'none' on this host"


@pytest.mark.parametrize(
    ("count", "pressure", "verdict", "reason"),
    [
        (10, 0.0, "safe", "would fit"),
        (10, 2.0, "near", "some task waited for memory in 2 % of the last minute"),
        (10, 12.0, "over", "some task waited for memory in 12 % of the last minute"),
        (60, 0.0, "over", "not even what the units use all the time fits"),
    ],
)
def test_verdicts(look, count, pressure, verdict, reason):
    found = of(look(count, psi={"memory": {"some_avg60": pressure}, "io": None}))
    assert found["verdict"] == verdict and reason in found["reason"]


def test_a_host_on_which_not_one_more_fits_is_near_its_limit(look):
    found = next(each for each in (of(look(count)) for count in range(22, 34)) if each["more"]["count"] == 0)
    assert found["verdict"] == "near" and found["sentence"].endswith("near its limit: yes, because not one more fits")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"units": []}, "no VM runs there, and headroom_units names nothing that does"),
        ({"in_use_bytes": None}, "the kernel does not say how much memory is in use"),
        ({"units": [unit("a", shares={})]}, "the active memory of a is not known"),
    ],
)
def test_what_is_not_known_is_never_zero(look, changes, reason):
    found = of(look(**changes))

    assert (found["verdict"], found["reason"]) == ("unknown", reason)
    assert found["now"] is None and found["more"] is None
    assert f"the headroom is unknown: {reason}" in found["sentence"]


def test_a_host_without_damon_says_why_it_is_unknown(look):
    seen = look(units=[unit("a", shares={})])
    seen.update(method=None, reason="this kernel has no DAMON (CONFIG_DAMON_SYSFS)")
    assert of(seen)["reason"] == "this kernel has no DAMON (CONFIG_DAMON_SYSFS)"


def test_pinned_memory_is_not_stretched(look):
    pinned = [unit(f"vm{number}", pinned_bytes=4 * GIB, stretchable_bytes=0, shares={}) for number in range(14)]
    found = of(look(units=pinned))
    assert found["more"]["count"] == 0 and found["pinned_bytes"] == 56 * GIB


def test_the_vms_of_the_largest_other_host_come_here(look):
    small, large = look(2), look(10)
    found = of(look(), kv2=small, kv3=large)["n_plus_1"]

    assert found["failed"] == "kv3" and found["fits"] is True
    assert of(look(30), kv2=large)["n_plus_1"]["fits"] is False
    assert of(look())["n_plus_1"] is None


def test_the_other_host_may_have_been_looked_at_otherwise(look):
    """Its ages are other ones, and coarse timers watched them longer: the curves of each host are its own."""
    other = look(14)
    for seen in other["units"]:
        seen["ages"] = [{**age, "watched_s": 1.1 * age["watched_s"]} for age in seen["ages"] if age["seconds"] > 1]
    same, found = (of(look(13), kv2=each)["n_plus_1"]["forecast"] for each in (look(14), other))

    assert not same["thrashes"] and same["page_ins_per_second"] > 0
    assert found["page_ins_per_second"] == pytest.approx(same["page_ins_per_second"], rel=0.1)


def test_a_spare_host_can_take_the_vms_of_another(look):
    found = of(look(0), kv2=look(10))
    assert found["verdict"] == "unknown" and found["n_plus_1"]["fits"] is True


def test_what_nobody_knows_of_the_other_host_is_said(look):
    other = look()
    other.update(method=None, reason="DAMON is in use")
    found = of(look(), kv2=other)["n_plus_1"]
    assert found["fits"] is None and found["reason"] == "DAMON is in use"


def test_a_trial_gives_a_lower_bound(look):
    """What it could not evict may be cold, too: it proves that VMs fit, and never that they do not."""
    found = of({**look(), "method": "reclaim"})
    assert "; at least 87% of their memory was not touched for 5 minutes; " in found["sentence"]
    assert ":1 at least" in found["sentence"] and found["verdict"] == "safe"

    busy = [unit(f"vm{number:02}", shares={1: 0.99, 10: 0.99, 300: 1}) for number in range(16)]
    assert of(look(units=busy))["verdict"] == "over"
    found = of({**look(units=busy), "method": "reclaim"})
    assert (found["verdict"], found["reason"]) == ("near", "the trial did not show that one more fits")


def test_what_ended_during_the_look_is_left_out(look):
    """It was stopped or migrated: neither it nor its memory is part of the answer, which is that of the others."""
    seen = look(10)
    ended = unit("gone", shares={}, reason=answer.ENDED)
    seen["units"].append(ended)
    found, others = of({**seen, "started": ["new"]}), of(look(10))

    assert found["verdict"] == "safe" and (found["ended"], found["started"]) == (["gone"], ["new"])
    assert {**found, "ended": [], "started": []} == others


def test_ended_units_of_another_host_do_not_come_here(look):
    other = look(10)
    other["units"].append(unit("gone", shares={}, reason=answer.ENDED))
    assert of(look(), kv2=other)["n_plus_1"] == of(look(), kv2=look(10))["n_plus_1"]


def test_the_error_is_that_of_the_widest_interval(look):
    """In the fixture each end is 2 % of the memory from the estimate."""
    assert of(look())["error_percent"] == 2.0
    wide = look()
    age = wide["units"][3]["ages"][1]
    age["high_bytes"] = age["active_bytes"] + wide["units"][3]["stretchable_bytes"] // 8
    assert of(wide)["error_percent"] == 12.5
    assert of({**look(), "method": "mglru"})["error_percent"] is None
    assert of(look(units=[]))["error_percent"] is None


def half_hour(seen, **changes):
    return {**seen, "watch": {"since": 1.0, "half_hour": window(**changes), "worst_hour": None}}


def test_what_was_beyond_dram_all_the_time_was_not_accessed(look):
    units = [unit(f"vm{number}", swapped_bytes=3 * GIB, pinned_bytes=GIB) for number in range(2)]
    seen = look(units=units)
    assert of(seen)["active_half_hour"] is None, "no watch"
    within = 2 * round(0.11 * 4 * GIB) + 2 * GIB
    # Of 6 GiB beyond DRAM at the end, what was moved meanwhile may have been accessed.
    assert of(half_hour(seen))["active_half_hour"] == {"low_bytes": within, "high_bytes": 4 * GIB}
    assert of(half_hour(seen, moved_bytes=GIB))["active_half_hour"]["high_bytes"] == 5 * GIB
    for nothing_known in (7 * GIB, None):
        assert of(half_hour(seen, moved_bytes=nothing_known))["active_half_hour"]["high_bytes"] == 10 * GIB


def test_only_what_was_measured_is_a_lower_bound(look):
    seen = half_hour(look(units=[unit(), unit("vm02", shares={10: 0.1, 3600: 1.0})]))
    assert of(seen)["active_half_hour"]["low_bytes"] == sum(round(share * 4 * GIB) for share in (0.11, 0.08))
    seen["cost"]["seconds"] = 3600  # the short ages were watched in its first minutes
    assert of(seen)["active_half_hour"]["low_bytes"] is None
    for seen in (
        {**half_hour(look()), "method": "reclaim"},
        half_hour(look(units=[unit(), unit("vm02", shares={})])),
    ):
        assert of(seen)["active_half_hour"] == {"low_bytes": None, "high_bytes": of(seen)["used_bytes"]}


@pytest.mark.parametrize(("share", "verdict"), [(None, "safe"), (0.009, "safe"), (0.031, "near")])
def test_a_bad_hour_of_the_last_day_is_named(look, share, verdict):
    """The look may have been at a quiet time."""
    seen = {**look(), "watch": {"since": 1.0, "half_hour": None, "worst_hour": window(memory_some_share=share)}}
    found = of(seen)
    assert found["verdict"] == verdict
    assert ("3.1 % of the hour from 2027-01-15T05:13:20Z on" in found["reason"]) == (verdict == "near")
