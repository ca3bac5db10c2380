# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import collections
import pathlib

import pytest
from ansible import context
from ansible.module_utils.common.collections import ImmutableDict

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils import profile as host_profile
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.study import (
    arms as study_arms,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study import (
    child_playbooks,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study import (
    sequence as run_sequence,
)

PROFILES = str(pathlib.Path(__file__).resolve().parents[5] / "roles" / "host_tuning" / "profiles")


def names(arms):
    return [arm.name for arm in arms]


def test_an_arm_for_each_profile():
    arms = study_arms.profile_arms("profiles", "dram, swap,/home/me/mine.yml")
    assert names(arms) == ["dram", "swap", "mine"]
    assert arms[2].variables == {"profile": "/home/me/mine.yml"}
    assert study_arms.profile_arms("profiles", ["dram", "zram"])[1].variables == {"profile": "zram"}


def test_a_profile_that_is_named_again_makes_an_aa_test():
    arms = study_arms.profile_arms("profiles", "dram,swap,dram,a/mine.yml,dram,a/mine.yml")
    assert names(arms) == ["dram", "swap", "dram#2", "mine", "dram#3", "mine#2"]
    assert arms[2].variables == arms[0].variables
    assert study_arms.repeated([(arm.name, arm.variables) for arm in arms]) == {
        "dram#2": "dram",
        "dram#3": "dram",
        "mine#2": "mine",
    }
    runs = study_arms.run_names("s", study_arms.schedule(arms, "interleaved", 2))
    assert len(set(runs)) == len(runs) == 12 and "s-dram.2-1" in runs and "s-dram-2" in runs


@pytest.mark.parametrize(
    "profiles, message",
    [
        ("", "no name is given"),
        (None, "no name is given"),
        ([], "no name is given"),
        ("dram", "at least 2"),
        ("a/mine.yml,b/mine.yml", "two profiles are called mine"),
    ],
)
def test_profiles_that_make_no_comparison(profiles, message):
    with pytest.raises(SettingError, match=message):
        study_arms.profile_arms("profiles", profiles)


def test_blocks_and_interleaved():
    arms = [study_arms.Arm(name, {}) for name in "abc"]

    def order(kind, rounds):
        return "".join(f"{arm.name}{number}" for arm, number in study_arms.schedule(arms, kind, rounds))

    assert order("blocks", 2) == "a1a2b1b2c1c2"
    assert order("interleaved", 1) == "a1b1c1"
    assert order("interleaved", 3) == "a1b1c1c2b2a2b3c3a3"


@pytest.mark.parametrize("size", range(2, 9))
def test_each_arm_follows_each_other_one_equally_often(size):
    arms = [study_arms.Arm(str(number), {}) for number in range(size)]
    rows = size if size % 2 == 0 else 2 * size
    rounds = [
        [arm.name for arm, number in study_arms.schedule(arms, "interleaved", rows) if number == wanted]
        for wanted in range(1, rows + 1)
    ]
    followers = collections.Counter(pair for names in rounds for pair in zip(names, names[1:]))
    places = collections.Counter((place, name) for names in rounds for place, name in enumerate(names))
    assert len(followers) == size * (size - 1) and set(followers.values()) == {rows // size}
    assert len(places) == size * size and set(places.values()) == {rows // size}


def test_each_setting_of_a_profile_is_left_out_once():
    data = host_profile.load("swap", PROFILES, [])
    arms = study_arms.ablation_arms("swap", data, [], False)
    assert arms[0].name == "swap" and arms[0].variables == {"profile": "swap", "host_tuning_without": []}
    assert arms[-1].name == "swap#2" and arms[-1].variables == arms[0].variables and arms[-1].setting is None
    left_out = [arm.variables["host_tuning_without"] for arm in arms[1:-1]]
    assert ["vm.page-cluster"] in left_out and ["cpu_governor"] in left_out and ["rcu_nocbs"] in left_out
    for arm in arms:  # what the loader accepts
        host_profile.changed(data, {}, arm.variables["host_tuning_without"], {})


def test_settings_are_added_one_at_a_time():
    data = host_profile.load("swap", PROFILES, [])
    arms = study_arms.ablation_arms("swap", data, ["vm.page-cluster", "vm.swappiness"], True)
    assert [arm.variables["host_tuning_without"] for arm in arms] == [
        ["vm.page-cluster", "vm.swappiness"],
        ["vm.swappiness"],
        ["vm.page-cluster"],
        ["vm.page-cluster", "vm.swappiness"],
    ]
    assert names(arms) == ["swap bare", "with vm.page-cluster", "with vm.swappiness", "swap bare#2"]
    assert study_arms.repeated([(arm.name, arm.variables) for arm in arms]) == {"swap bare#2": "swap bare"}
    with pytest.raises(
        SettingError,
        match="study_settings: vm.nothing is not a setting of profile swap; its settings are cpu_governor, ",
    ):
        study_arms.ablation_arms("swap", data, ["vm.nothing"], False)


def test_runs_have_names_that_are_directories_and_differ():
    data = host_profile.load("zswap", PROFILES, [])
    arms = study_arms.ablation_arms("zswap", data, [], False)
    runs = study_arms.schedule(arms, "interleaved", 2)
    found = study_arms.run_names("s", runs)
    assert len(set(found)) == len(runs) == 2 * len(arms)
    assert all("/" not in name and " " not in name and "*" not in name for name in found)
    assert found[0] == "s-zswap-1"
    assert study_arms.run_names("s", [(study_arms.Arm("a b", {}), 1), (study_arms.Arm("a/b", {}), 1)]) == [
        "s-a-b",
        "s-a-b-b",
    ]


def test_the_newest_unfinished_study_with_the_same_definition_is_continued(tmp_path):
    definition = {"arms": [], "order": "blocks", "rounds": 1}

    def choose(wanted=None, other=None, resume=True):
        return run_sequence.choose(str(tmp_path), "study.json", "study", wanted, other or definition, resume)

    directory, document = choose("mine")
    assert document["id"] == "mine" and not document["finished"]
    (tmp_path / "mine").mkdir()
    directory.write_json("study.json", {**document, "runs": ["kept"]})
    assert choose()[1]["runs"] == choose("mine")[1]["runs"] == ["kept"]
    assert choose(resume=False)[1]["runs"] == [] and choose(other={**definition, "rounds": 2})[1]["runs"] == []
    with pytest.raises(RunError, match="rounds: 1 -> 2"):
        choose("mine", {**definition, "rounds": 2})
    with pytest.raises(RunError, match="must not be resumed"):
        choose("mine", resume=False)
    directory.write_json("study.json", {**document, "finished": True})
    assert choose()[1]["id"] != "mine"
    with pytest.raises(RunError, match="is finished; choose another study_id"):
        choose("mine")
    late = {**document, "finished": True, "out_of_time": True, "restored": True, "runs": ["kept"]}
    directory.write_json("study.json", late)
    assert choose()[1]["id"] != "mine", "who does not name it begins a new one"
    continued = choose("mine")[1]
    assert continued["runs"] == ["kept"] and not (continued["finished"] or continued["out_of_time"])
    with pytest.raises(RunError, match="is finished; choose another study_id"):
        choose("mine", resume=False)
    directory.write_text("study.json", "{")
    with pytest.raises(RunError, match="study.json is damaged"):
        choose()


def test_the_load_and_the_fleet_belong_to_the_definition_and_the_profile_does_not():
    run = {
        "config": {"profile": "dram", "load": {"rate": 1000}, "slo": {"p99_us": 50}},
        "expected": ["a"],
        "changed": False,
    }
    assert run_sequence.common_settings(run) == {"load": {"rate": 1000}, "slo": {"p99_us": 50}, "fleet": ["a"]}
    with pytest.raises(SettingError, match="run: must be the result of benchmark_run"):
        run_sequence.common_settings({"config": {}})


@pytest.fixture
def arguments(monkeypatch):
    """Set the arguments that ansible-playbook was called with."""

    def given(**arguments):
        monkeypatch.setattr(
            context,
            "CLIARGS",
            ImmutableDict(
                {
                    "inventory": ("/etc/hosts.yml",),
                    "extra_vars": ("profiles=dram,swap", "@more.yml"),
                    "forks": 64,
                    "verbosity": 0,
                    **arguments,
                }
            ),
        )

    return given


def test_a_child_gets_what_its_parent_was_given(arguments):
    arguments(
        become=True,
        become_user="admin",
        vault_password_files=("/run/secret",),
        vault_ids=("dev@/run/dev",),
        subset="kvm01",
        verbosity=2,
        tags=("all",),
        check=True,
        ask_pass=False,
        become_password_file=None,
    )
    command = child_playbooks._command("site", "/tmp/own.yml")
    assert (
        command[1:4] == ["-m", "ansible", "playbook"]
        and command[4].endswith("/playbooks/site.yml")
        and pathlib.Path(command[4]).is_file()
    )
    pairs = list(zip(command, command[1:]))
    for pair in (
        ("--inventory", "/etc/hosts.yml"),
        ("--extra-vars", "@more.yml"),
        ("--become-user", "admin"),
        ("--forks", "64"),
        ("--limit", "kvm01"),
        ("--vault-password-file", "/run/secret"),
        ("--vault-id", "dev@/run/dev"),
    ):
        assert pair in pairs
    assert "--become" in command and "-vv" in command
    assert "--check" not in command and "--tags" not in command and "--become-password-file" not in command
    assert command[-2:] == ["--extra-vars", "@/tmp/own.yml"], "what is set here comes last, and wins"
    assert "--check" in child_playbooks._command("site", "/tmp/own.yml", True)
    assert "--limit" not in child_playbooks._command("site", "/tmp/own.yml", False, limited=False)


@pytest.mark.parametrize(
    "question, instead",
    [
        ("become_ask_pass", "--become-password-file"),
        ("ask_pass", "--connection-password-file"),
        ("ask_vault_pass", "--vault-password-file"),
    ],
)
def test_what_asks_on_the_terminal_is_refused(arguments, question, instead):
    arguments()
    child_playbooks.refuse_questions()
    arguments(**{question: True})
    with pytest.raises(RunError, match=instead):
        child_playbooks.refuse_questions()
