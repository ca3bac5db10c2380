# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from types import SimpleNamespace

from ansible_collections.memstretch.density.plugins.plugin_utils.run import kernel_kills

# As Linux 6.18 printed them.
LOG = """\
[59609.290515] Memory cgroup out of memory: Killed process 24959 (redis-server) total-vm:100760kB, UID:0
[59617.369125] Out of memory: Killed process 25031 (redis-server) total-vm:100760kB, UID:0
[59618.000000] Out of memory: Killed process 25032 (python3) total-vm:100760kB, anon-rss:1664kB, UID:0
[59619.000000] Out of memory: Killed process 25033 (qemu-system-x86) total-vm:100760kB, anon-rss:1664kB, UID:0
[59620.000000] oom_reaper: reaped process 25033 (qemu-system-x86), now anon-rss:0kB
"""


def test_servers_and_vms_that_the_kernel_killed_are_counted_on_all_machines(tmp_path):
    assert kernel_kills.count(SimpleNamespace(path=str(tmp_path))) == 0
    for name, text in (("one", LOG), ("two", LOG), ("three", "(unknown: no permission)\n")):
        (tmp_path / "raw" / name).mkdir(parents=True)
        (tmp_path / "raw" / name / "dmesg.txt").write_text(text, encoding="utf-8")
    assert kernel_kills.count(SimpleNamespace(path=str(tmp_path))) == 6
