# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory of the demo makes of the profiles."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROFILE = """\
{{ lookup("memstretch.density.host_profile", profile, directory=profiles_directory, swap=host_tuning_swap,
          without=host_tuning_without | default([]), settings=host_tuning_settings) }}
"""


def changed_profile(name, **variables):
    """Return a profile as the role host_tuning gets it in a demo."""
    variables = {"profile": name, "profiles_directory": str(ROOT / "roles/host_tuning/profiles"), **variables}
    ansible = pathlib.Path(sys.executable).with_name("ansible")
    command = [ansible, "-i", ROOT / "inventories/demo", "this_machine", "-e", json.dumps(variables)]
    command += ["-m", "ansible.builtin.debug", "-a", json.dumps({"msg": PROFILE})]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    return json.loads(printed[printed.index("{") :])["msg"]


@pytest.mark.parametrize("name", ["dram", "swap", "zswap", "zram"])
def test_the_demo_leaves_the_boot_loader_and_foreign_swap_alone(name):
    found = changed_profile(name)
    assert found["kernel_cmdline"] == {} and found["swap"]["others"] == "keep"


def test_the_profile_of_a_tier_alone_has_an_argument_of_the_kernel():
    assert changed_profile("zram", host_tuning_without=[])["kernel_cmdline"]
