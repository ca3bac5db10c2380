# SPDX-License-Identifier: GPL-3.0-or-later
"""The role host_tuning on this machine, which it only reads."""

from __future__ import annotations

import pytest
import yaml


@pytest.fixture
def run_playbook(fleet, tmp_path):
    playbook = tmp_path / "record.yml"
    playbook.write_text(
        yaml.safe_dump(
            [
                {
                    "hosts": "localhost",
                    "connection": "local",
                    "gather_facts": False,
                    "roles": ["memstretch.density.host_tuning"],
                    "tasks": [
                        {
                            "name": "Show",
                            "ansible.builtin.debug": {
                                "msg": "{{ host_tuning_profile_name }}: {{ host_tuning_labels | join(' / ') }}; {{ host_tuning_record.kernel.release }}"
                            },
                        }
                    ],
                }
            ]
        ),
        encoding="utf-8",
    )
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("all: {}\n", encoding="utf-8")
    fleet.environment["ANSIBLE_DISPLAY_OK_HOSTS"] = "true"

    def run(*variables, check=False):
        variables = ("host_tuning_state=recorded", *variables)
        arguments = [word for each in variables for word in ("-e", each)] + (["--check"] if check else [])
        return fleet.run_playbook(*arguments, playbook=str(playbook), inventory=inventory)

    return run


@pytest.mark.parametrize("check", [False, True])
def test_it_records_and_changes_nothing(run_playbook, check):
    outcome = run_playbook("host_tuning_profile=zram", check=check)
    assert outcome.status == 0, outcome.output
    assert 'zram: host not tuned: no setting of profile \\"zram\\" was applied' in outcome.output
    assert "changed=0" in outcome.output


def test_imdt_is_looked_for(run_playbook):
    outcome = run_playbook("host_tuning_profile=imdt")
    assert outcome.status == 0, outcome.output
    assert "IMDT not detected" in outcome.output
    required = run_playbook("host_tuning_profile=imdt", "host_tuning_imdt_required=true")
    assert required.status != 0 and "host_tuning_imdt_required is true" in required.output


def test_a_profile_of_ones_own(run_playbook, tmp_path):
    mine = tmp_path / "mine.yml"
    mine.write_text("name: mine\ndescription: What I want.\n", encoding="utf-8")
    outcome = run_playbook(f"host_tuning_profile={mine}")
    assert outcome.status == 0, outcome.output
    assert "mine: host not tuned" in outcome.output
    mine.write_text("name: mine\ndescription: What I want.\nsysctls: {vm.swappiness: 1}\n", encoding="utf-8")
    unknown = run_playbook(f"host_tuning_profile={mine}")
    assert unknown.status != 0 and "'sysctls' is not a key" in unknown.output


@pytest.mark.parametrize(
    "variable, message",
    [
        ("host_tuning_profile=turbo", "Allowed: dram, imdt, swap, swap_2018, swap_2018_advice, tiering, zram, zswap"),
        ("host_tuning_profile=/nowhere/mine.yml", "there is no such file"),
        ("host_tuning_without=['vm.nothing']", "cannot be left out"),
        ("host_tuning_state=tuned", "value of host_tuning_state must be one of"),
    ],
)
def test_what_it_cannot_do_is_refused(run_playbook, variable, message):
    outcome = run_playbook(variable)
    assert outcome.status != 0
    assert message in outcome.output
