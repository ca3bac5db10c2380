# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernels of the fleet do to a measurement: coarse timers, and swap of their own."""

from __future__ import annotations

import typing as t

# A kernel with high-resolution timers reports 1 ns. Without them it reports its tick, 1 to 10 ms.
COARSE_NS = 100_000
_NAMES = 4


def coarse(fleet: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, float]:
    """Return the hosts on which sleeps end only at the kernel's ticks, with the length of a tick in milliseconds.

    Args:
        fleet: the state of each endpoint, with C(kernel).
    """
    ticks = {name: (each.get("kernel") or {}).get("timer_resolution_ns") or 0 for name, each in fleet.items()}
    return {name: tick / 1e6 for name, tick in sorted(ticks.items()) if tick > COARSE_NS}


def coarse_choices(ticks: t.Mapping[str, float], prefix: str = "") -> str:
    """Explain what can be done about coarse timers, and what each choice costs.

    Args:
        ticks: what coarse() returned, not empty.
        prefix: of the names of options.
    """
    return (
        f"sleeps end only every {max(ticks.values()):g} ms on {_listed(ticks)}, so a client that sleeps is that late: "
        f"high-resolution timers are off there, as with the kernel argument highres=off. Three ways: {prefix}pacing: "
        f"spin is on time, and takes a whole CPU of each guest; {prefix}coarse_timers: accept measures with late "
        f"clients, and a verdict may stay undecided between its two bounds; without highres=off "
        f"(vm_fleet_kernel_arguments: []) the guests are not those of 2018"
    )


def labels(fleet: t.Mapping[str, t.Mapping[str, t.Any]], pacing: str, guests: t.Collection[str]) -> list[str]:
    """Return the labels that a run on these hosts must carry.

    Args:
        fleet: the state of each endpoint, with C(kernel).
        pacing: of the clients.
        guests: the names of hosts that are VMs of a hypervisor in the inventory.
    """
    found = []
    ticks = coarse(fleet)
    if ticks and pacing in ("sleep", "hybrid"):
        found.append(
            f"coarse timers: sleeps end only every {max(ticks.values()):g} ms on {_listed(ticks)}, so the clients "
            f"there are late; what the host certainly caused (lower bound) and what a user may have waited (upper "
            f"bound) are far apart"
        )
    elif ticks and pacing == "spin":
        found.append(f"coarse timers on {_listed(ticks)}: each client spins, and takes a whole CPU of its guest")
    swapping = [name for name in sorted(guests) if ((fleet.get(name) or {}).get("kernel") or {}).get("swap_bytes")]
    if swapping:
        found.append(
            f"swap is on inside {_listed(swapping)}: their own page-ins are measured together with the hypervisor's"
        )
    return found


def command_lines(run: t.Mapping[str, t.Any]) -> str:
    """Return the kernel command lines of a run's guests, without the name of the image; empty if there are none.

    Hosts of the fleet that were tuned themselves are left out: their command line is a part of the profile.
    """
    tuned = {(record.get("kernel") or {}).get("boot_id") for record in run.get("hosts", {}).values()}
    lines = {
        " ".join(word for word in line.split() if not word.startswith(("BOOT_IMAGE=", "initrd=")))
        for each in run.get("fleet", {}).values()
        if (line := (each.get("kernel") or {}).get("cmdline")) and each.get("machine") not in tuned
    }
    return ", ".join(sorted(lines))


def _listed(names: t.Collection[str]) -> str:
    first = ", ".join(list(names)[:_NAMES])
    more = len(names) - _NAMES
    return f"{first} and {more} more hosts" if more > 0 else first
