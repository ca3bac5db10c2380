# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files of this host the headers of images name, also headers that a guest or a neighbour has forged."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.image_names import paths_of_image_name


@pytest.mark.parametrize(
    "name, paths",
    [
        ("/images/base.qcow2", ["/images/base.qcow2"]),
        ("base.qcow2", ["base.qcow2"]),
        ("file:/images/base.raw", ["/images/base.raw"]),
        ("nbd://server/export", []),
        ('json:{"driver":"qcow2","file":{"driver":"file","filename":"/a"}}', ["/a"]),
        ('json:{"driver":"qcow2","file.filename":"/b"}', ["/b"]),
        ('json:{"driver":"nbd","server":{"host":"h"}}', []),
        ('json:{"driver":"quorum","children":[{"filename":"/c"},{"file.filename":"/d"}]}', ["/c", "/d"]),
        ("host_device:/dev/sdb", ["/dev/sdb"]),
        ("file:///images/base.raw", ["/images/base.raw"]),
        ('json:{"file.filename":"/e",}', ["/e"]),
        ("json:" + "[" * 1018, []),
    ],
)
def test_names_of_backing_files(name, paths):
    assert paths_of_image_name(name) == paths
