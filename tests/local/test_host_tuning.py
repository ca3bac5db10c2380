# SPDX-License-Identifier: GPL-3.0-or-later
"""The role host_tuning with state recorded, which only reads this machine."""

from __future__ import annotations

import json

import pytest

from .machine import IDLE_LIMITS

ROLE = "memstretch.density.host_tuning"
SHOW = (
    "{{ host_tuning_profile_name }}: {{ host_tuning_labels | join(' / ') }}; {{ host_tuning_record.kernel.release }} "
    "ksm {{ host_tuning_profile_data.sysfs['/sys/kernel/mm/ksm/run'].value | default('-') }} "
    f"idle {{{{ host_tuning_profile_data.sysfs['{IDLE_LIMITS}'].value | default('-') }}}}."
)


@pytest.fixture
def localhost(fleet):
    """Return the keys of a play on the controller, and an inventory without hosts."""
    fleet.environment["ANSIBLE_DISPLAY_OK_HOSTS"] = "true"
    inventory = fleet.path / "hosts.yml"
    inventory.write_text("all: {}\n", encoding="utf-8")
    return {"hosts": "localhost", "connection": "local"}, inventory


@pytest.fixture
def record(localhost, fleet):
    play, inventory = localhost
    playbook = fleet.custom_playbook([{"name": "Show", "ansible.builtin.debug": {"msg": SHOW}}], roles=[ROLE], **play)

    def run_playbook(*variables, check=False):
        variables = ("host_tuning_state=recorded", *variables)
        arguments = [word for each in variables for word in ("-e", each)] + (["--check"] if check else [])
        return fleet.run_playbook(*arguments, playbook=playbook, inventory=inventory)

    return run_playbook


@pytest.mark.parametrize("check", [False, True])
def test_the_host_is_recorded_and_not_changed(record, check):
    outcome = record("host_tuning_profile=zram", check=check)
    assert outcome.status == 0, outcome.output
    assert "ksm 0 idle -." in outcome.output
    assert 'zram: host not tuned: no setting of profile \\"zram\\" was applied' in outcome.output
    assert "changed=0" in outcome.output


def test_missing_imdt_is_reported(record):
    outcome = record("host_tuning_profile=imdt_2018")
    assert outcome.status == 0, outcome.output
    assert "IMDT not detected" in outcome.output


def test_settings_with_variables_of_their_own_are_added_to_every_profile(record):
    outcome = record("host_tuning_profile=imdt_2018", "host_tuning_ksm=on", "host_tuning_cpu_idle=awake")
    assert outcome.status == 0 and "ksm 1 idle n/a." in outcome.output, outcome.output
    as_yaml_reads_it = record("host_tuning_profile=imdt_2018", json.dumps({"host_tuning_ksm": True}))
    assert as_yaml_reads_it.status == 0 and "ksm 1 idle" in as_yaml_reads_it.output, as_yaml_reads_it.output
    own = {"sysfs": {IDLE_LIMITS: {"value": 5}}}
    outcome = record("host_tuning_cpu_idle=awake", json.dumps({"host_tuning_settings": own}))
    assert outcome.status == 0 and "ksm 0 idle 5." in outcome.output, outcome.output


def test_a_custom_profile(record, tmp_path):
    mine = tmp_path / "mine.yml"
    mine.write_text("name: mine\ndescription: My settings.\n", encoding="utf-8")
    outcome = record(f"host_tuning_profile={mine}")
    assert outcome.status == 0, outcome.output
    assert "mine: host not tuned" in outcome.output


def test_wrong_settings_are_refused(localhost, fleet):
    wrong_profile = fleet.path / "wrong.yml"
    wrong_profile.write_text("name: mine\ndescription: My settings.\nsysctls: {vm.swappiness: 1}\n", encoding="utf-8")
    cases = [
        (
            {"host_tuning_profile": "turbo"},
            "Allowed: dram, dram_2018, imdt, imdt_2018, swap, swap_2018, swap_2018_advice, tiering, zram, zram_swap, ",
        ),
        ({"host_tuning_profile": "/nowhere/mine.yml"}, "there is no such file"),
        ({"host_tuning_profile": str(wrong_profile)}, "'sysctls' is not a known key"),
        ({"host_tuning_without": ["vm.nothing"]}, "cannot be left out"),
        ({"host_tuning_profile": "imdt", "host_tuning_imdt_required": True}, "host_tuning_imdt_required is true"),
        ({"host_tuning_state": "tuned"}, "value of host_tuning_state must be one of"),
        ({"host_tuning_cpu_idle": "asleep"}, "value of host_tuning_cpu_idle must be one of: default, awake"),
    ]
    play, inventory = localhost
    cases = [({"host_tuning_state": "recorded", **case}, message) for case, message in cases]
    assert not fleet.not_refused("host_tuning", cases, inventory, **play)
