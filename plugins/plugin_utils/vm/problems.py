# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the variables of the role vm_fleet, before any host is touched."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.vm.ssh import DIRECT, LOCAL

STATES = ("present", "started", "stopped", "absent")
REACHES = ("auto", "direct", "hypervisor")

Settings = t.Mapping[str, t.Any]


def problems(settings: Settings) -> list[str]:
    """Return one line for each invalid value: the variable, the value, what is allowed.

    Args:
        settings: C(__vm_fleet_settings) of the role.
    """
    found = [*_names(settings), *_hypervisors(settings)]
    if settings["state"] != "absent":
        found += [*_image(settings), *_reach(settings), *_keys(settings), *_network(settings)]
    return found


def _names(settings: Settings) -> t.Iterator[str]:
    if settings["state"] not in STATES:
        yield _refusal("state", settings["state"], "present, started, stopped or absent")
    if not re.fullmatch("[a-z][a-z0-9-]{0,31}", str(settings["name"])):
        yield _refusal("name", settings["name"], '1 to 32 lower-case letters, digits and "-", the first one a letter')


def _hypervisors(settings: Settings) -> t.Iterator[str]:
    """Check that the play has every host of the fleet: it would otherwise spread the VMs over some of them."""
    play, listed = settings["play"], [str(host) for host in settings["hypervisors"]]
    left_out = sorted(set(listed) - set(play["hosts"]))
    if left_out:
        limited = f"--limit {play['limit']}" if play["limit"] is not None else "this play"
        yield (
            f"{limited} leaves out {', '.join(left_out)}, but fleet {settings['name']} is spread over "
            f"{', '.join(listed)} (vm_fleet_hypervisors); the play must include all of them"
        )
    elif play["host"] not in listed:
        yield (
            f"vm_fleet_hypervisors: {json.dumps(listed)} lacks {play['host']}, a host of this play; it must list every "
            "host that carries the fleet"
        )
    elif play["limit"] is not None and play["host"] not in play["hypervisors"] and listed == list(play["hosts"]):
        yield (
            f"vm_fleet_hypervisors: is missing; with --limit {play['limit']} it must list every host that carries the "
            "fleet, such as \"{{ groups['kvm'] }}\""
        )


def _image(settings: Settings) -> t.Iterator[str]:
    image, checksum = settings["image"], settings["image_checksum"]
    if settings["count"] is None:
        yield "vm_fleet_count: is missing; it must be the number of VMs on all hypervisors together"
    if bool(image) == bool(settings["master"]):
        yield (
            "vm_fleet_image, vm_fleet_master: set exactly one of the two: the path or URL of a golden image, or the "
            "name of a VM that is shut off"
        )
    if re.match("https?://", image) and not checksum:
        yield "vm_fleet_image_checksum: is missing; an image that is downloaded needs one, such as sha256:0123..."
    if checksum and not re.fullmatch("(sha256|sha512):[0-9a-f]{64,128}", checksum):
        yield _refusal("image_checksum", checksum, "sha256: or sha512:, followed by the digits")
    if image and not settings["memory"]:
        yield "vm_fleet_memory: is missing; it must be the memory of one VM, such as 6G"


def _reach(settings: Settings) -> t.Iterator[str]:
    if settings["reach"] not in REACHES:
        yield _refusal("reach", settings["reach"], "auto, direct or hypervisor")
    user = settings["network"].get("type") == "user"
    if user and settings["reached"] == DIRECT and settings["connection"] not in LOCAL:
        yield (
            "vm_fleet_reach: direct is impossible with user networking: the forwarded ports are on the hypervisor's "
            "loopback interface"
        )


def _keys(settings: Settings) -> t.Iterator[str]:
    given, file = settings["has_private_key"], settings["private_key_file"]
    if not settings["seed"] and not settings["host_key"]:
        yield (
            "vm_fleet_host_key: is missing; without a seed (vm_fleet_seed: false) the VMs use the host key of the "
            "golden image. Set this to its public half: ssh-ed25519 AAAA..."
        )
    if given and file:
        yield "vm_fleet_private_key, vm_fleet_private_key_file: set at most one of the two"
    if settings["has_host_private_key"] and settings["host_key"]:
        yield (
            "vm_fleet_host_private_key, vm_fleet_host_key: set at most one of the two; vm_fleet_host_key is for images "
            "that bring their own host key"
        )
    if not settings["seed"] and not file and not given:
        yield (
            "vm_fleet_private_key_file: is missing; without a seed (vm_fleet_seed: false) the VMs accept only the keys "
            "of the golden image"
        )


def _network(settings: Settings) -> t.Iterator[str]:
    address = settings["network"].get("address")
    if address is not None and not re.fullmatch("[0-9.]+/[0-9]+", str(address)):
        yield _refusal(
            "network.address", address, "the address of the hypervisor in the new network, such as 10.77.0.1/22"
        )


def _refusal(name: str, value: t.Any, allowed: str) -> str:
    """Return the line for a value that is not allowed, with the value as a user would write it in YAML."""
    return f"vm_fleet_{name}: {json.dumps(value, default=str)} is not allowed; it must be {allowed}"
