# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module refuses. tests/fleet boots guests with its disks."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.modules import nocloud_seed
from ansible_collections.memstretch.density.tests.unit.fixtures.module_runner import run_module

FILES = {"meta-data": "{}", "user-data": "#cloud-config"}


@pytest.mark.parametrize(
    ("content", "kind"), [({"users": 1234}, "dict"), (["a secret"], "list"), (7, "int"), (None, "NoneType")]
)
def test_a_content_that_is_no_text_is_refused_by_its_name_and_type(tmp_path, content, kind):
    result = run_module(nocloud_seed, tmp_path, directory=str(tmp_path), files={**FILES, "user-data": content})
    assert result["failed"]
    assert result["msg"] == (
        f"files: each content must be text (a quoted string), but that of 'user-data' is of type {kind}"
    )


def test_a_directory_that_does_not_exist_is_refused_unless_check_mode_would_have_made_it(tmp_path, monkeypatch):
    monkeypatch.setattr(nocloud_seed.AnsibleModule, "get_bin_path", lambda _module, name: f"/usr/bin/{name}")
    missing = str(tmp_path / "missing")
    result = run_module(nocloud_seed, tmp_path, directory=missing, files=FILES)
    assert result["failed"] and result["msg"] == (
        f"directory: '{missing}' is not an existing directory; create it first"
    )
    assert run_module(nocloud_seed, tmp_path, True, directory=missing, files=FILES)["changed"]
