# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.run import reproduction


@pytest.mark.parametrize(
    "arguments, shown",
    [
        (["/usr/bin/ansible-playbook", "site.yml", "-e", "profile=swap"], "ansible-playbook site.yml -e profile=swap"),
        (
            ["ap", "x.yml", "-e", "latency_benchmark_key_count=5 latency_benchmark_password=hunter2"],
            "ap x.yml -e 'latency_benchmark_key_count=5 latency_benchmark_password=********'",
        ),
        (["ap", "-eredis_password=hunter2"], "ap '-eredis_password=********'"),
        (["ap", "--extra-vars=api_key=hunter2"], "ap '--extra-vars=api_key=********'"),
        (["ap", "--extra-vars", "profile=swap my_token=hunter2"], "ap --extra-vars 'profile=swap my_token=********'"),
        (
            ["ap", "-e", '{"a": 1, "vault": {"x": "hunter2"}, "list": [{"secret": "hunter2"}]}'],
            """ap -e '{"a": 1, "vault": "********", "list": [{"secret": "********"}]}'""",
        ),
        (["ap", "-e", "hunter2"], "ap -e '********'"),
        (["ap", "-e", "{hunter2"], "ap -e '********'"),
        (["ap", "-e", "@secrets.yml", "-i", "hosts.yml"], "ap -e @secrets.yml -i hosts.yml"),
        (["ap", "-e", "proxy=http://me:hunter2@proxy:3128/"], "ap -e 'proxy=http://********@proxy:3128/'"),
        (["ap", "-i", "http://me:hunter2@inventory/"], "ap -i 'http://********@inventory/'"),
        ([], ""),
    ],
)
def test_the_command_has_no_secrets(arguments, shown):
    assert reproduction.command(arguments) == shown
    assert "hunter2" not in reproduction.command(arguments)


def test_the_inventory_has_only_groups_and_addresses():
    task_vars = {
        "groups": {"all": ["a", "b"], "ungrouped": [], "fleet": ["a", "b"], "empty": []},
        "hostvars": {
            "a": {"ansible_host": "192.0.2.1", "ansible_password": "hunter2", "latency_benchmark_password": "hunter2"},
            "b": {"ansible_host": "b"},
        },
        "ansible_inventory_sources": ["/etc/hosts.yml"],
    }
    found = reproduction.record(task_vars, ["ansible-playbook", "site.yml"])
    assert found["inventory"] == {
        "sources": ["/etc/hosts.yml"],
        "groups": {"fleet": ["a", "b"]},
        "addresses": {"a": "192.0.2.1"},
    }
    assert found["versions"]["memstretch.density"] == "0.1.0" and found["versions"]["ansible-core"].startswith("2.")
    assert "hunter2" not in json.dumps(found)
