# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils import known_variables
from ansible_collections.memstretch.density.tests.unit.fixtures.pages import ROOT

# A word of YAML or of an expression that may be the name of a variable: no module, path, key or private name.
WORD = re.compile(r"(?<![\w.$/'-])[a-z]\w*(?![\w(/'-])")
PROSE = {"redis_t"}  # a type of SELinux, in a message
PREFIXES = (*known_variables.role_prefixes(), *known_variables.SHARED_PREFIXES)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("latency_benchmark_rat", "latency_benchmark_rate"),
        ("latency_benchmark_slo_p99", "latency_benchmark_slo_p99_us"),
        ("swap_space_kin", "swap_space_kind"),
        ("redis_prt", "redis_port"),
        ("study_round", "study_rounds"),
        ("host_tuning_xyzzy", ""),
    ],
)
def test_a_misspelt_variable_is_noticed(name, nearest):
    assert known_variables.misspelt([name, "latency_benchmark_rate"]) == {name: nearest}


def test_variables_of_others_are_not_ours():
    """Other roles have these; private names, and facts that our roles export, are not misspelt."""
    others = ["redis_version", "redis_exporter_listen", "study", "my_var", "__redis_prt", "image_registry", "demo_user"]
    exported = ["host_tuning_reboot_required", "client_program_result", "vm_fleet_labels", "swap_space_would_change"]
    assert known_variables.misspelt(others + exported) == {}


def test_a_variable_of_the_command_line_may_be_nearly_one_of_a_playbook():
    given = {"profil": "zram", "result_dir": "x", "density_rounds": 3, "ansible_user": "me", "release": "2026"}
    assert known_variables.nearly_of_playbooks(given) == {"profil": "profile", "result_dir": "results_dir"}


def test_the_message_names_hosts_and_what_was_meant():
    found = {"latency_benchmark_rat": "latency_benchmark_rate", "host_tuning_xyzzy": ""}
    text = known_variables.message(
        found, {"latency_benchmark_rat": ["a", "b", "c", "d", "e"], "host_tuning_xyzzy": ["a"]}
    )
    assert text == (
        "latency_benchmark_rat (set for a, b, c and 2 more hosts) is not a variable of memstretch.density; "
        "did you mean latency_benchmark_rate? host_tuning_xyzzy (set for a) is not a variable of memstretch.density; "
        "roles/host_tuning/README.md lists those that there are."
    )


@pytest.mark.parametrize(
    "path",
    [each for place in ("playbooks", "inventories", "roles") for each in sorted(ROOT.glob(f"{place}/**/*.yml"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_variable_that_the_collection_uses_is_known(path):
    """A variable that is missing in an argument specification or in PLAYBOOK_VARIABLES would be refused."""
    code = "\n".join(
        line.partition(" # ")[0] for line in path.read_text(encoding="utf-8").splitlines() if line.strip()[:1] != "#"
    )
    words = {word for word in WORD.findall(code) if word.startswith(PREFIXES) and not word.endswith("_")}
    assert known_variables.misspelt(words - PROSE) == {}


def test_no_variable_is_known_that_nothing_uses():
    used = "\n".join(
        path.read_text(encoding="utf-8")
        for place in ("playbooks", "inventories", "roles")
        for path in ROOT.glob(f"{place}/**/*.yml")
    )
    assert known_variables.PLAYBOOK_VARIABLES - set(re.findall(r"\w+", used)) == set()


def reached(path):
    """Yield the texts of a playbook and of all that it imports, or of the tasks of a role."""
    text = path.read_text(encoding="utf-8")
    yield text
    for name in re.findall(r"import_playbook: (\S+\.yml)", text):
        yield from reached(path.parent / name)


@pytest.mark.parametrize(
    "paths",
    [
        *([path] for path in sorted(ROOT.glob("playbooks/*.yml"))),
        *(sorted(role.glob("tasks/*.yml")) for role in sorted(ROOT.glob("roles/*"))),
    ],
    ids=lambda paths: str(paths[0].relative_to(ROOT)),
)
def test_every_playbook_and_every_role_refuses_misspelt_variables(paths):
    assert any("memstretch.density.check_play:" in text for path in paths for text in reached(path))
