# SPDX-License-Identifier: GPL-3.0-or-later
"""What is refused of a seed disk, and where it is. tests/fleet boots guests with such disks."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import VmHostError
from ansible_collections.memstretch.density.plugins.module_utils.vm.seed import (
    check_files,
    create,
    find_tool,
    seed_path,
)

FILES = {"meta-data": "{}", "user-data": "#cloud-config"}


@pytest.mark.parametrize(
    ("content", "kind"), [({"users": 1234}, "dict"), (["a secret"], "list"), (7, "int"), (None, "NoneType")]
)
def test_a_content_that_is_no_text_is_refused_by_its_name_and_type(content, kind):
    with pytest.raises(SettingError) as refused:
        check_files({**FILES, "user-data": content})
    assert str(refused.value) == (
        f"seed: each content must be text (a quoted string), but that of 'user-data' is of type {kind}"
    )


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_a_name_that_leads_out_of_the_disk_is_refused(name):
    with pytest.raises(SettingError, match="are not allowed"):
        check_files({**FILES, name: ""})


def test_the_path_follows_from_the_files_and_from_nothing_else():
    path = seed_path("/fleet", FILES)
    assert path == seed_path("/fleet", dict(reversed(FILES.items())))
    assert path != seed_path("/fleet", {**FILES, "user-data": "#cloud-config\n"})


def test_a_host_that_cannot_write_a_disk_is_refused():
    assert find_tool({"xorrisofs": "/usr/bin/xorrisofs"}.get) == "/usr/bin/xorrisofs"
    with pytest.raises(VmHostError, match="install the package genisoimage"):
        find_tool({}.get)


def test_a_program_that_fails_leaves_nothing(tmp_path):
    def failing(command, **_options):
        assert (tmp_path / command[-1] / "user-data").read_text(encoding="utf-8") == "#cloud-config"
        return 1, "", "no space left\n"

    with pytest.raises(VmHostError, match="ended with status 1: no space left"):
        create(failing, "/usr/bin/genisoimage", str(tmp_path / "seed.iso"), FILES)
    assert not list(tmp_path.iterdir())
