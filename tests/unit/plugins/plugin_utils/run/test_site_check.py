# SPDX-License-Identifier: GPL-3.0-or-later
"""Sites that are quiet, busy, or robbed of CPU time."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError

SLO_P99_US = 300


def site(gap=10.0, stolen=0.0, awake=None):
    """Return the blocks that the module site_noise measures on a host."""
    blocks = [{"avg_us": 40, "p99_us": 100, "lower_p99_us": 100 - gap} for _block in range(10)]
    return {"blocks": blocks, "stolen": stolen, "awake": awake}


def check(unmeasured=(), **hosts):
    """Return a check of hosts that were judged."""
    return {"hosts": hosts, "unmeasured": dict(unmeasured)}


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({}, None),
        ({"stolen": 0.01}, None),
        ({"stolen": None}, None),
        ({"stolen": 0.034}, "3.4% of its CPU time was stolen"),
        ({"gap": 60}, None),
        ({"gap": 61}, "the bounds of p99 are 61 us apart, more than 20% of the SLO's 300 us"),
    ],
)
def test_what_makes_a_host_too_noisy(changes, reason):
    reasons = site_check.judge(site(**changes), SLO_P99_US)["reasons"]
    assert len(reasons) == bool(reason) and (not reason or reasons[0].startswith(reason))


@pytest.mark.parametrize("trouble", [{"stolen": 0.034}, {"gap": 61}])
@pytest.mark.parametrize(
    "awake, shown", [(True, "CPUs awake when idle."), (False, "CPUs asleep when idle."), (None, "")]
)
def test_a_noisy_host_whose_cpus_sleep_could_keep_them_awake(trouble, awake, shown):
    found = site_check.judge(site(awake=awake, **trouble), SLO_P99_US)
    assert ("host_tuning_cpu_idle: awake" in found["reasons"][0]) == (awake is False)
    (line,) = (line for line in site_check.lines([check(a=found)]) if line.startswith("Site check"))
    assert shown in line and ("when idle" in line) == bool(shown)


def test_a_host_without_time_stamps_has_no_gap():
    measured = site()
    measured["blocks"][3]["lower_p99_us"] = None
    found = site_check.judge(measured, SLO_P99_US)
    assert found["gap_us"] is None and found["reasons"] == []
    assert "bounds of p99 unknown" in site_check.lines([check(a=found)])[0]


def test_only_figures_are_accepted_of_a_host():
    accepted = site_check.result({"changed": True, "add_host": {}, "site_noise": {**site(), "more": 1}})
    assert set(accepted) == {"changed", "site_noise"} and set(accepted["site_noise"]) == {"blocks", "stolen", "awake"}
    assert not accepted["changed"]
    refused = site_check.result({"failed": True, "msg": "no Redis", "changed": True})
    assert refused == {"changed": False, "failed": True, "msg": "no Redis"}
    short = site()["blocks"][:2]
    for wrong in ({"blocks": short}, {"stolen": 2}, {"blocks": None}, {"awake": "yes"}):
        with pytest.raises(MeasurementError, match="site_noise"):
            site_check.result({"site_noise": {**site(), **wrong}})
    with pytest.raises(MeasurementError, match="blocks is missing"):
        site_check.result({"site_noise": {"stolen": 0}})
    assert site_check.result({"unmeasured": "no Redis", "more": 1}) == {"changed": False, "unmeasured": "no Redis"}


def test_a_user_may_allow_a_noisier_site():
    measured = site(stolen=0.034, gap=61)
    assert len(site_check.judge(measured, SLO_P99_US)["reasons"]) == 2
    assert len(site_check.judge(measured, SLO_P99_US, site_check.Limits(stolen=0.05))["reasons"]) == 1
    allowed = site_check.judge(measured, SLO_P99_US, site_check.Limits(stolen=0.05, gap=0.3))
    assert allowed["reasons"] == [] and len(allowed["doubts"]) == 2
    assert sum("DOUBTFUL: " in line for line in site_check.lines([check(a=allowed)])) == 2
    (stolen, gap) = site_check.labels([check(a=allowed)])
    assert stolen.startswith(
        "the site was doubtful: a: 3.4% of its CPU time was stolen by other machines, more than 1%"
    )
    assert gap.startswith(
        "the site was doubtful: a: the bounds of p99 are 61 us apart, more than 20% of the SLO's 300 us"
    )
    assert site_check.judge(site(), SLO_P99_US, site_check.Limits(stolen=0.05, gap=0.3))["doubts"] == []
    assert site_check.judge(measured, SLO_P99_US)["doubts"] == [], "they are reasons"


def test_a_study_keeps_the_check_of_each_session_and_says_where_a_site_was_too_noisy():
    noisy = check(b=site_check.judge(site(stolen=0.034), SLO_P99_US))
    quiet = check({"c": "redis: this host has no redis-server"}, b=site_check.judge(site(), SLO_P99_US))
    document = {}
    assert site_check.added(document, {}) == [] and document["site_checks"] == [], "it was turned off"
    assert site_check.added(document, quiet) == []
    (warning,) = site_check.added(document, noisy)
    assert warning.startswith("WARNING: this site is too noisy") and "b: 3.4% of its CPU time was stolen" in warning
    site_check.added(document, noisy)
    assert document["site_checks"] == [quiet, noisy, noisy]
    (label,) = site_check.labels(document["site_checks"])
    assert label.startswith("the site was too noisy: b: 3.4%")
    text = "\n".join(site_check.lines(document["site_checks"]))
    assert "Site check of c: not measured. redis: this host has no redis-server" in text
    assert text.count("TOO NOISY") == 2
