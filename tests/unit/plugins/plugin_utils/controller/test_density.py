# SPDX-License-Identifier: GPL-3.0-or-later
"""What a density refuses before anything is touched."""

from __future__ import annotations

import pytest
from synthetic_ramps import dram, tier

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import checked
from ansible_collections.memstretch.density.plugins.plugin_utils.controller.density import _definition, _Ramps
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.study.arms import profile_arms

LOAD = {
    "ansible_connection": "local",
    "latency_benchmark_key_count": 9000,
    "latency_benchmark_value_size": 1000,
    "latency_benchmark_compressibility": 0.72,
    "latency_benchmark_rate": 50,
    "latency_benchmark_influences": [25],
    "latency_benchmark_read_mixes": [100],
}
HOSTS = {
    "this_machine": {"ansible_connection": "local"},
    **{f"redis{number}": {**LOAD, "latency_benchmark_port": 7000 + number} for number in (1, 2, 3)},
}
NAMES = ("budget", "max", "references", "growth", "window", "settle", "wait", "hold", "touch", "factor", "written")


def definition(profiles="dram,zram", **given):
    options = {**dict.fromkeys(NAMES), "rounds": 3, "slo": "relative", "scope": "every", "budget": "256M"}
    options = {**options, "once": [], **given}
    groups = {"hypervisors": ["this_machine"], "fleet": [name for name in HOSTS if name != "this_machine"]}
    return _definition(profile_arms("profiles", profiles, at_least=1), options, {"groups": groups, "hostvars": HOSTS})


def test_a_definition_has_what_the_answer_names():
    found = definition(rounds="2", factor="1.5", scope="fleet")
    assert (found["arms"], found["rounds"], found["scope"]) == (["dram", "zram"], 2, "fleet")
    assert found["objective"] == {"kind": "relative", "factor": 1.5} and found["budget_bytes"] == 2**28
    assert found["load"]["rate"] == 50 and found["plan"]["servers"][2] == {"name": "redis3", "port": 7003}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"rounds": 0}, "density_rounds: 0 is out of range; it must be a whole number from 1 to 100"),
        ({"scope": "host"}, "slo_scope: 'host' is not allowed; it must be one of every, fleet"),
        ({"profiles": "zram"}, "profiles: zram is not allowed; with slo=relative the first must be dram"),
        ({"profiles": "zram,dram"}, "with slo=relative the first must be dram"),
        ({"budget": None}, "density_budget: is missing"),
        ({"once": "swap"}, "density_once: swap is not allowed; it must be of the profiles dram, zram"),
        ({"factor": 1}, "density_factor: 1 is out of range; it must be a number from 1.01 to 100"),
    ],
)
def test_a_bad_setting_is_refused_by_name_and_range(given, named):
    with pytest.raises(SettingError, match=named):
        definition(**given)


def test_absolute_limits_need_no_dram():
    assert definition("zram", slo="absolute")["objective"] == {"kind": "absolute", "avg_us": 50, "p99_us": 300}


class Conducted:
    """Stands for the playbooks of the ramps, which tests/local plays: it checks each plan as the conductor does, and
    writes the record of a planted ramp.
    """

    def __init__(self, directory, document):
        self.directory, self.document = directory, document
        self.plans, self.said = {}, []

    def save(self):
        self.directory.write_json("density.json", self.document)

    def say(self, line):
        self.said.append(line)

    def announce(self, text):
        """Nobody looks."""

    def prepare(self, playbook, variables, failure):
        given = variables["density_ramp"]
        name = f"{given['arm']}-{given['round']}"
        self.plans[name] = checked({**given["plan"], "client": "/solotest", "tier": []})
        number = given["round"]
        (record,) = dram([number]) if given["arm"] == "dram" else tier("zram", [number], 20.5)
        self.directory.write_json(given["file"], record)


def test_ramps_follow_a_balanced_order_and_learn_from_earlier_ones(tmp_path):
    directory = RunDirectory(str(tmp_path), "d")
    directory.create()
    arms = profile_arms("profiles", "dram,zram")
    document = {"id": "d", "created_at": 1.8e9, "definition": {**definition(rounds=2), "scope": "fleet"}}
    first = Conducted(directory, document)
    _Ramps(first, arms).run()
    assert list(first.plans) == ["dram-1", "zram-1", "zram-2", "dram-2"]
    assert first.plans["dram-1"].sizes == () and first.plans["dram-1"].objective["plateau"] is None
    assert first.plans["zram-1"].sizes == (3,), "no more than the servers of the inventory"
    handed_on = first.plans["zram-2"].objective["plateau"]
    assert handed_on["p99_us"] == pytest.approx(document["plateau"]["p99_us"], rel=0.1)
    assert first.said[0] == "So far: DRAM alone 10" and first.said[1].startswith("So far: DRAM alone 10; zram 20, 1.9")
    (tmp_path / "d" / "ramps" / "zram-2.json").unlink()
    again = Conducted(directory, document)
    _Ramps(again, arms).run()
    assert list(again.plans) == ["zram-2"], "a finished ramp is not conducted again"


def test_a_profile_that_has_one_ramp_has_it_in_the_first_round(tmp_path):
    directory = RunDirectory(str(tmp_path), "d")
    directory.create()
    arms = profile_arms("profiles", "dram,zram")
    document = {"id": "d", "created_at": 1.8e9, "definition": definition(rounds=2, once="zram,")}
    conducted = Conducted(directory, document)
    _Ramps(conducted, arms).run()
    assert list(conducted.plans) == ["dram-1", "zram-1", "dram-2"]
