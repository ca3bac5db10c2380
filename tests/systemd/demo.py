# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo of somebody who types the command of the README on a machine of Debian, with sudo and a password."""

from __future__ import annotations

import json
import pathlib
import typing as t

import memory_settings

from .conftest import Host
from .machine import SWAP

TIMEOUT_S = 1800
# A noisy machine must not fail a test: the site check has no bounds, no stolen time disturbs a window, and every
# machine meets the objective.
ANY_MACHINE: dict[str, t.Any] = {
    "site_check_max_stolen": 1,
    "site_check_max_gap": 1e6,
    "density_max_stolen": 1,
    "slo": "absolute",
    "latency_benchmark_slo_avg_us": 1e8,
    "latency_benchmark_slo_p99_us": 1e8,
}


def play(host: Host, place: pathlib.Path, **variables: t.Any) -> dict[str, t.Any]:
    """Play the demo in a checkout, check that it leaves nothing, and return its answer with its C(ramps)."""
    before = settings(host)
    demo = f"cd {place} && sudo -S -p '' make demo DEMO='-e {json.dumps(json.dumps({**ANY_MACHINE, **variables}))}'"
    done = host.machine.log_in(demo, TIMEOUT_S)
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout, done.stdout
    (path,) = (host.machine.tree / place.relative_to("/")).glob("results/density-*/density.json")
    document: dict[str, t.Any] = json.loads(path.read_text(encoding="utf-8"))
    document["ramps"] = [json.loads(ramp.read_text(encoding="utf-8")) for ramp in path.parent.glob("ramps/*.json")]
    assert document["restored"], done.stdout
    assert settings(host) == before
    assert host.machine.swap_files() == [SWAP]
    assert host.left_over() == ""
    assert host.machine.run("find", str(place), "-user", "root") == "", "it belongs to the user"
    return document


def settings(host: Host) -> list[str]:
    """Return the settings of memory, and the swap, as the machine sees them."""
    return memory_settings.settings(host.machine.run("sh", "-c", memory_settings.READ))
