# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import time
import typing as t

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.options import number
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    Task,
    own_directory,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import SCHEMA
from ansible_collections.memstretch.density.plugins.plugin_utils.run.options import (
    RANGES,
    SLO_FACTOR,
)

NAME = "site_check"


def work(options: dict[str, t.Any], task: Task) -> dict[str, t.Any]:
    """Judge how steady hosts are, and write it below the results."""
    document = _document(options)
    directory = own_directory("results_dir", options["results_dir"], NAME)
    changed = False
    if not task.check_mode:
        directory.make()
        changed = directory.write_text(f"{NAME}.json", json.dumps(document, indent=1) + "\n")
    for line in site_check.lines([document]):
        Display().display(line)
    noisy = site_check.noisy(document)
    if noisy and options["enforce"]:
        raise AnsibleActionFail(
            f"the site is too noisy for a study: {'; '.join(noisy)}. Nothing was measured. To measure "
            f"anyway, raise site_check_max_stolen or site_check_max_gap"
        )
    return {"changed": changed, "site_check": document, "labels": site_check.labels([document])}


def _document(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    slo = {name: number(f"slo_{name}", options[f"slo_{name}"], RANGES[f"slo_{name}"]) for name in ("avg_us", "p99_us")}
    factor = options["slo_factor"] and number("slo_factor", options["slo_factor"], SLO_FACTOR)
    limits = site_check.Limits(
        *(number(name, options[name], site_check.RANGES[name]) for name in ("max_stolen", "max_gap"))
    )

    def slo_p99_us(noise: t.Mapping[str, t.Any]) -> float:
        return round(factor * site_check.median(noise, "p99_us"), 1) if factor else slo["p99_us"]

    found = options["hosts"].items()
    measured = {name: each["site_noise"] for name, each in found if "site_noise" in each}

    return {
        "schema": SCHEMA,
        "checked_at": time.time(),
        "slo": {"factor": factor} if factor else slo,
        "limits": limits._asdict(),
        "hosts": {name: site_check.judge(each, slo_p99_us(each), limits) for name, each in measured.items()},
        "unmeasured": {name: each["unmeasured"] for name, each in found if "unmeasured" in each},
        "measured": measured,
    }
