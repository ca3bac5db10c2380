# SPDX-License-Identifier: GPL-3.0-or-later
"""What a density refuses before anything is touched."""

from __future__ import annotations

import json

import pytest
from synthetic_ramps import dram, tier

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import checked
from ansible_collections.memstretch.density.plugins.plugin_utils.controller.density import (
    _definition,
    _opening,
    _published,
    _Ramps,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.ramp.machines import machines
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
NAMES = ("budget", "max", "references", "growth", "window", "settle", "wait", "max_stolen", "hold", "touch", "factor")
NAMES += ("written", "image")


def definition(profiles="dram,zram", hosts=HOSTS, **given):
    options = {**dict.fromkeys(NAMES), "rounds": 3, "slo": "relative", "scope": "every", "budget": "256M"}
    options = {**options, "once": [], **given}
    groups = {
        "hypervisors": [name for name in hosts if not name.startswith("redis")],
        "fleet": [name for name in hosts if name.startswith("redis")],
    }
    return _definition(profile_arms("profiles", profiles, at_least=1), options, {"groups": groups, "hostvars": hosts})


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
        self.densities = {"this_machine": 20.5, "kvm1": 20.5, "kvm2": 15.5}

    def ramps(self, arms):
        """Return the ramps of these machines."""
        hypervisors = self.document["definition"].get("plans", ["this_machine"])
        return _Ramps(self, arms, machines(self.directory, self.document, list(hypervisors)))

    def save(self):
        self.directory.write_json("density.json", self.document)

    def say(self, line):
        self.said.append(line)

    def announce(self, text):
        """Nobody looks."""

    def prepare(self, playbook, variables, failure):
        arm = variables["density_ramp"]["arm"]
        for machine, given in variables["density_ramp"]["of"].items():
            number = given["round"]
            name = f"{arm}-{number}" if machine == "this_machine" else f"{machine} {arm}-{number}"
            self.plans[name] = checked({**given["plan"], "client": "/solotest", "tier": []})
            (record,) = dram([number]) if arm == "dram" else tier("zram", [number], self.densities[machine])
            RunDirectory.at(given["directory"]).write_json(given["file"], record)


def test_ramps_follow_a_balanced_order_and_learn_from_earlier_ones(tmp_path):
    directory = RunDirectory(str(tmp_path), "d")
    directory.create()
    arms = profile_arms("profiles", "dram,zram")
    document = {"id": "d", "created_at": 1.8e9, "definition": {**definition(rounds=2), "scope": "fleet"}}
    first = Conducted(directory, document)
    first.ramps(arms).run()
    assert list(first.plans) == ["dram-1", "zram-1", "zram-2", "dram-2"]
    assert first.plans["dram-1"].sizes == () and first.plans["dram-1"].objective["plateau"] is None
    assert first.plans["zram-1"].sizes == (3,), "no more than the servers of the inventory"
    handed_on = first.plans["zram-2"].objective["plateau"]
    assert handed_on["p99_us"] == pytest.approx(document["plateau"]["p99_us"], rel=0.1)
    assert first.said[0] == "So far: DRAM alone 10" and first.said[1].startswith("So far: DRAM alone 10; zram 20, 1.9")
    (tmp_path / "d" / "ramps" / "zram-2.json").unlink()
    again = Conducted(directory, document)
    again.ramps(arms).run()
    assert list(again.plans) == ["zram-2"], "a finished ramp is not conducted again"


def test_a_profile_that_has_one_ramp_has_it_in_the_first_round(tmp_path):
    directory = RunDirectory(str(tmp_path), "d")
    directory.create()
    arms = profile_arms("profiles", "dram,zram")
    document = {"id": "d", "created_at": 1.8e9, "definition": definition(rounds=2, once="zram,")}
    conducted = Conducted(directory, document)
    conducted.ramps(arms).run()
    assert list(conducted.plans) == ["dram-1", "zram-1", "dram-2"]


KVM = {f"kvm{number}": {} for number in (1, 2)}
TWO = {
    **KVM,
    **{
        f"redis{machine}{number}": {**LOAD, "ansible_connection": "ssh", "ansible_host": machine}
        | {"latency_benchmark_port": port}
        for machine in KVM
        for number, port in enumerate((7001, 7002, 7003))
    },
}


def test_containers_are_named_as_such_and_density_without_them_is_the_same_as_ever():
    found = definition(image="docker.io/library/redis:7")
    assert found["machine"] == "Redis container" and found["plan"]["image"] == "docker.io/library/redis:7"
    assert definition()["machine"] == "Redis server" and "image" not in definition()["plan"]


def test_several_machines_have_a_plan_each():
    found = definition(hosts=TWO)
    assert "plan" not in found and list(found["plans"]) == ["kvm1", "kvm2"]
    assert [server["name"] for server in found["plans"]["kvm2"]["servers"]] == [
        "rediskvm20",
        "rediskvm21",
        "rediskvm22",
    ]
    assert [server["port"] for server in found["plans"]["kvm1"]["servers"]] == [7001, 7002, 7003]


def test_several_machines_have_one_load():
    other = {**TWO, "rediskvm20": {**TWO["rediskvm20"], "latency_benchmark_rate": 60}}
    with pytest.raises(
        SettingError, match="fleet: the load of the servers on kvm2 is not that of those on kvm1 .*rate"
    ):
        definition(hosts=other)


def test_machines_conduct_their_ramps_at_the_same_time_and_each_is_judged_alone(tmp_path):
    directory = RunDirectory(str(tmp_path), "d")
    directory.create()
    arms = profile_arms("profiles", "dram,zram")
    document = {
        "schema": 1,
        "kind": "density",
        "id": "d",
        "created_at": 1.8e9,
        "definition": definition(rounds=1, hosts=TWO),
    }
    conducted = Conducted(directory, document)
    conducted.ramps(arms).run()
    assert list(conducted.plans) == ["kvm1 dram-1", "kvm2 dram-1", "kvm1 zram-1", "kvm2 zram-1"]
    first, second = (json.loads((tmp_path / "d" / name / "density.json").read_text("utf-8")) for name in KVM)
    densities = [[arm["density"] for arm in each["arms"]] for each in (first, second)]
    assert densities[0][0] == densities[1][0] == 10 and densities[0][1] in range(18, 22)
    assert densities[1][1] in range(13, 17)
    assert conducted.said[0] == "kvm1: So far: DRAM alone 10" and conducted.said[3].startswith("kvm2: So far: DRAM")
    assert (tmp_path / "d" / "kvm1" / "density.txt").read_text("utf-8").startswith("On kvm1, in 256 MiB of DRAM, zram ")
    (tmp_path / "d" / "kvm2" / "ramps" / "zram-1.json").unlink()
    again = Conducted(directory, document)
    again.ramps(arms).run()
    assert list(again.plans) == ["kvm2 zram-1"], "only the machine without it conducts a ramp again"


def conducted(tmp_path, **given):
    """Return the directory, the document and the machines of a density whose ramps are done."""
    directory = RunDirectory(str(tmp_path), "d")
    directory.create()
    document = {"schema": 1, "kind": "density", "id": "d", "created_at": 1.8e9, "definition": definition(**given)}
    hypervisors = document["definition"].get("plans", ["this_machine"])
    found = machines(directory, document, list(hypervisors))
    _Ramps(Conducted(directory, document), profile_arms("profiles", "dram,zram"), found).run()
    return directory, document, found


def test_the_only_machine_is_not_named(tmp_path, capsys):
    directory, document, only = conducted(tmp_path, rounds=1)
    assert _opening(directory, document, only)[1] == "  up to 3 Redis servers under each profile, in 1 round"
    found = _published(directory, document, only, None)
    assert found["dram"] == 10 and set(found) == {"dram", "zram"}
    assert "Together" not in capsys.readouterr().out and (tmp_path / "d" / "density.html").exists()


def test_several_machines_have_a_line_each_and_a_sum(tmp_path, capsys):
    directory, document, several = conducted(tmp_path, rounds=1, hosts=TWO)
    assert _opening(directory, document, several)[1:3] == [
        "  kvm1: up to 3 Redis servers under each profile, in 1 round",
        "  kvm2: up to 3 Redis servers under each profile, in 1 round",
    ]
    found = _published(directory, document, several, None)
    assert [found[name]["dram"] for name in KVM] == [10, 10]
    assert "Together, the 2 machines carry: DRAM alone 20 (one ramp); zram " in capsys.readouterr().out
    assert [each["density"] for each in document["together"]] == [20, sum(each["zram"] for each in found.values())]
