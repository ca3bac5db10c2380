# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
import re

import pytest
import yaml
from ansible.cli.playbook import PlaybookCLI

from ansible_collections.memstretch.density.plugins.plugin_utils.run import reproduction

ROOT = pathlib.Path(__file__).resolve().parents[5]


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
            """ap -e '{"a": "********", "vault": "********", "list": "********"}'""",
        ),
        (["ap", "-e", "hunter2"], "ap -e '********'"),
        (["ap", "-e", "{hunter2"], "ap -e '********'"),
        (["ap", "-e", "@secrets.yml", "-i", "hosts.yml"], "ap -e @secrets.yml -i hosts.yml"),
        (["ap", "-e", "proxy=http://me:hunter2@proxy:3128/"], "ap -e 'proxy=********'"),
        (["ap", "-i", "http://me:hunter2@inventory/"], "ap -i 'http://********@inventory/'"),
        (["ap", "-i", "https://inventory/?token=hunter2"], "ap -i 'https://inventory/?********'"),
        (["ap", "-i", "http://me:hunter2@1:hunter2@inventory/"], "ap -i 'http://********@inventory/'"),
        (["ap", "-e", "results_dir=http://me:hunter2@x/"], "ap -e 'results_dir=http://********@x/'"),
        (["ap", "-e", '{"results_dir": "http://x/?a=hunter2"}'], """ap -e '{"results_dir": "http://x/?********"}'"""),
        # What may be shown is listed, so no spelling of a secret matters.
        (["ap", "-e", "ansible_become_pass=hunter2"], "ap -e 'ansible_become_pass=********'"),
        (["ap", "-e", "ansible_ssh_pass=hunter2 profile=zram"], "ap -e 'ansible_ssh_pass=******** profile=zram'"),
        (["ap", "-e", "db_pwd=hunter2"], "ap -e 'db_pwd=********'"),
        (["ap", "-e", "redis_auth='hunter2 x'"], "ap -e 'redis_auth=********'"),
        (["ap", "-e", "pin=hunter2"], "ap -e 'pin=********'"),
        (["ap", "-eprofile=swap"], "ap -eprofile=swap"),
        (["ap", "-e", "fleet_size=10 study_rounds=2"], "ap -e 'fleet_size=10 study_rounds=2'"),
        (["ap", "-bve", "key=hunter2"], "ap -bve 'key=********'"),
        (["ap", "-Kepin=hunter2"], "ap '-Kepin=********'"),
        (["ap", "-e", '{"ansible_become_pass": "hunter2"}'], """ap -e '{"ansible_become_pass": "********"}'"""),
        (["ap", "-e", '["hunter2"]'], "ap -e '********'"),
        (
            ["ap", "-e", '{"redis_extra_config": {"requirepass": "hunter2"}, "redis_port": 7000}'],
            """ap -e '{"redis_extra_config": "********", "redis_port": 7000}'""",
        ),
        (["ap", "-e", 'redis_extra_config=\'{"requirepass":"hunter2"}\''], "ap -e 'redis_extra_config=********'"),
        (
            ["ap", "-e", '{"redis_instances": [{"name": "a", "password": "hunter2", "x": "hunter2"}]}'],
            """ap -e '{"redis_instances": [{"name": "a", "password": "********", "x": "********"}]}'""",
        ),
        (["ap", "--vault-password-file", "/hunter2", "x.yml"], "ap --vault-password-file '********' x.yml"),
        (["ap", "--vault-id=dev@/hunter2"], "ap '--vault-id=********'"),
        (["ap", "--ssh-common-args", "-o ProxyCommand=hunter2"], "ap --ssh-common-args '********'"),
        (["ap", "--ssh-extra-args=-o User=hunter2", "x.yml"], "ap '--ssh-extra-args=********' x.yml"),
        (["ap", "--private-key", "hunter2", "-u", "me"], "ap --private-key '********' -u me"),
        (["ap", "--extra-v", "a=hunter2", "x.yml"], "ap '********' x.yml"),
        (["ap", "--extra-v=a=hunter2", "x.yml"], "ap '********' x.yml"),
        (["ap", "--new-option", "hunter2"], "ap '********'"),
        (["ap", "--check=hunter2"], "ap '********'"),
        (["ap", "-Zhunter2"], "ap '********'"),
        (["ap", "hunter2"], "ap '********'"),
        (["ap", "--", "hunter2", "x.yml"], "ap -- '********' x.yml"),
        (["ap", "-e"], "ap -e"),
        (
            ["ap", "-vvv", "-CD", "-b", "-f", "5", "-lfleet", "--limit=fleet", "memstretch.density.site"],
            "ap -vvv -CD -b -f 5 -lfleet --limit=fleet memstretch.density.site",
        ),
        ([], ""),
    ],
)
def test_the_command_has_no_secrets(arguments, shown):
    assert reproduction.command(arguments) == shown
    assert "hunter2" not in reproduction.command(arguments)


def test_the_inventory_has_only_groups_and_addresses():
    task_vars = {
        "groups": {"all": ["a", "b"], "ungrouped": [], "fleet": ["a", "b"], "empty": [], "memstretch_recorded": ["a"]},
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
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    assert found["versions"]["memstretch.density"] == version and found["versions"]["ansible-core"].startswith("2.")
    assert "hunter2" not in json.dumps(found)


def test_every_documented_variable_of_a_role_is_known():
    known = reproduction._variables()
    assert {"latency_benchmark_key_count", "host_tuning_settings", "redis_port", "vm_fleet_count", "profile"} <= set(
        known
    )


def test_every_variable_that_the_playbooks_document_is_shown():
    text = "".join(
        (path).read_text(encoding="utf-8")
        for path in (
            ROOT / "README.md",
            *ROOT.glob("docs/*.md"),
            *ROOT.glob("playbooks/*.yml"),
            *ROOT.glob("roles/*/README.md"),
        )
        if path.name != "support.md"  # it also lists former names
    )
    of_a_playbook = "(?:density|fleet|hypervisors|report|slo|study)_[a-z_]+"
    names = set(re.findall(r"-e '?([a-z_]+)=", text)) | set(re.findall(rf"^\| `({of_a_playbook})`", text, re.MULTILINE))
    assert {"profile", "run_id", "image_suite", "hypervisors_group", "study_rounds", "study_attempts"} <= names
    assert names <= set(reproduction._variables())


def test_every_option_of_ansible_playbook_is_classified():
    """A new option is hidden until it is decided whether its value may be shown."""
    parser = PlaybookCLI(["ansible-playbook", "x.yml"])
    parser.init_parser()
    flags = reproduction._FLAGS | {f"-{letter}" for letter in reproduction._FLAG_LETTERS}
    valued = reproduction._SHOWN | reproduction._HIDDEN | {"--extra-vars", "-e"}
    valued |= {f"-{letter}" for letter in reproduction._SHOWN_LETTERS}
    for action in parser.parser._actions:
        for name in action.option_strings:
            assert (name in flags) == (action.nargs == 0), name
            assert (name in valued) == (action.nargs != 0), name
