# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which variables belong to this collection, and which of a user's are misspelt.

A role's variables and facts are the names in its meta/argument_specs.yml. PLAYBOOK_VARIABLES has the others.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.collection import ROOT

# What users set for playbooks. A result names those that a run was made with.
USER_VARIABLES = frozenset(
    (
        "comparison",
        "density_budget",
        "density_factor",
        "density_growth",
        "density_id",
        "density_hold",
        "density_image",
        "density_max",
        "density_max_stolen",
        "density_once",
        "density_plan_baseline_run",
        "density_plan_density",
        "density_plan_headroom",
        "density_plan_host_reserve",
        "density_plan_name",
        "density_plan_overhead",
        "density_plan_overhead_used",
        "density_plan_phase_overhead_seconds",
        "density_plan_rounds",
        "density_plan_run_overhead_seconds",
        "density_plan_vm_memory",
        "density_references",
        "density_rounds",
        "density_settle",
        "density_touch",
        "density_wait",
        "density_window",
        "density_written",
        "fleet_group",
        "fleet_size",
        "fleet_sizes",
        "headroom_ages",
        "headroom_compression",
        "headroom_cpu_percent",
        "headroom_like",
        "headroom_page_in_us",
        "headroom_pages",
        "headroom_probe",
        "headroom_reserve",
        "headroom_units",
        "headroom_waiting",
        "headroom_watch",
        "headroom_watch_directory",
        "hypervisors_group",
        "image_build",
        "image_cloud_init",
        "image_suite",
        "kind",
        "profile",
        "profiles",
        "report_cost_example",
        "report_prices",
        "results_dir",
        "resume",
        "run_id",
        "runs",
        "selftest_host_names",
        "site_check",
        "site_check_block_seconds",
        "site_check_blocks",
        "site_check_cpu_idle",
        "site_check_enforce",
        "site_check_max_gap",
        "site_check_max_stolen",
        "site_check_pacing",
        "site_check_rate",
        "site_check_redis",
        "site_check_required",
        "site_check_slo_avg_us",
        "site_check_slo_factor",
        "site_check_slo_p99_us",
        "slo",
        "slo_enforce",
        "slo_scope",
        "study_attempts",
        "study_figure",
        "study_id",
        "study_minutes",
        "study_order",
        "study_put_back",
        "study_rounds",
        "study_screening_rounds",
        "study_settings",
        "teardown",
        "throughput_port",
        "throughput_rounds",
    )
)
# With what playbooks set for one another. tests/unit compares this with the playbooks.
PLAYBOOK_VARIABLES = (
    frozenset(
        (
            "demo_host",
            "demo_mark",
            "demo_page_in",
            "demo_profiles",
            "demo_refused",
            "demo_tier",
            "demo_tiers",
            "demo_unfinished",
            "density_ramp",
            "density_settings",
            "fleet_labels",
            "fleet_profile",
            "fleet_vms",
            "headroom_all",
            "headroom_first",
            "host_tuning_profile_data",
            "host_tuning_profile_name",
            "latency_benchmark_measured_run",
            "selftest_after",
            "selftest_hosts",
            "selftest_vms",
            "study_checked",
            "study_kind",
            "study_of_one_profile",
            "study_profile",
            "throughput_definition",
            "throughput_dram_budget",
            "throughput_found",
            "throughput_is_tuned",
            "throughput_kept",
            "throughput_part",
            "throughput_profile",
            "throughput_schedule",
            "vm_fleet_guest_memory",
            "vm_fleet_hypervisor",
            "vm_fleet_kernel_arguments",
        )
    )
    | USER_VARIABLES
)
# Other roles and inventories have variables with these words, too: such a name is refused only if it is nearly one of
# ours.
SHARED_PREFIXES = (
    *("demo_", "density_", "fleet_", "headroom_", "image_", "redis_", "report_", "selftest_", "site_check_", "slo_"),
    *("study_", "throughput_"),
)
_NEARLY = 0.8
_HOSTS_IN_A_MESSAGE = 3
_WORD = re.compile(r"[a-z]\w*")


@functools.lru_cache(maxsize=None)
def role_prefixes() -> tuple[str, ...]:
    """Return the prefixes of the variables of all roles."""
    return tuple(f"{name}_" for name in sorted(os.listdir(os.path.join(ROOT, "roles"))))


@functools.lru_cache(maxsize=None)
def known_variables() -> frozenset[str]:
    """Return the names of all variables and facts of this collection."""
    found = set(PLAYBOOK_VARIABLES)
    for prefix in role_prefixes():
        path = os.path.join(ROOT, "roles", prefix[:-1], "meta", "argument_specs.yml")
        with open(path, encoding="utf-8") as stream:
            words = _WORD.findall(stream.read())
        found.update(word for word in words if word.startswith(role_prefixes()) and word not in role_prefixes())
    return frozenset(found)


def misspelt(names: t.Iterable[str]) -> dict[str, str]:
    """Return the names that look like variables of this collection and are not, each with the nearest known name.

    Args:
        names: names of variables, wherever they are set.

    Returns:
        The nearest name is empty if none is near.
    """
    known, own = known_variables(), tuple(each for each in role_prefixes() if each not in SHARED_PREFIXES)
    found = {}
    for name in sorted(set(names)):
        if name in known or f"{name}_" in role_prefixes() or not name.startswith((*own, *SHARED_PREFIXES)):
            continue
        nearest = _nearest(name, known)
        if nearest or name.startswith(own):
            found[name] = nearest
    return found


def nearly_of_playbooks(names: t.Iterable[str]) -> dict[str, str]:
    """Return the names of the command line that are nearly a variable of a playbook, each with that variable.

    Args:
        names: names of extra variables, such as C(profil). They may be for roles of others, too.
    """
    near = {name: _nearest(name, USER_VARIABLES) for name in sorted(set(names) - known_variables())}
    return {name: variable for name, variable in near.items() if variable}


def _nearest(name: str, known: t.Iterable[str]) -> str:
    """Return the known name that is nearest to a name; empty if none is near."""
    return "".join(difflib.get_close_matches(name, sorted(known), n=1, cutoff=_NEARLY))


def message(found: t.Mapping[str, str], hosts: t.Mapping[str, t.Sequence[str]]) -> str:
    """Compose what to tell the user about misspelt variables.

    Args:
        found: from misspelt().
        hosts: the hosts for which each of them is set.
    """
    sentences = []
    for name, nearest in found.items():
        where = ", ".join(hosts[name][:_HOSTS_IN_A_MESSAGE])
        more = len(hosts[name]) - _HOSTS_IN_A_MESSAGE
        where += f" and {more} more hosts" if more > 0 else ""
        advice = f"did you mean {nearest}?" if nearest else f"{_page(name)} lists those that there are."
        sentences.append(f"{name} (set for {where}) is not a variable of memstretch.density; {advice}")
    return " ".join(sentences)


def _page(name: str) -> str:
    """Return the page that lists the variables with the prefix of this name."""
    (role,) = (each[:-1] for each in role_prefixes() if name.startswith(each))
    return f"roles/{role}/README.md"
