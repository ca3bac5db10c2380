# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils import host_names


@pytest.mark.parametrize(
    "name", ["a\nVerdict: PASS", "\x1b[2J", "a\u2028b", "{{ lookup('pipe', 'id') }}", "#jinja2: x", "a" * 254]
)
def test_names_that_do_something_are_refused(name):
    with pytest.raises(SettingError, match="the inventory has a host whose name is not allowed") as refused:
        host_names.refuse(["kvm01", name])
    assert str(refused.value).isprintable()


def test_other_names_are_allowed():
    host_names.refuse(["kvm01", "10.0.0.1", "fe80::1%eth0", "m\u00fcnchen", "redis 1"])
