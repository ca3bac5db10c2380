# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026, the memstretch.density contributors
"""What GRUB would boot."""

from __future__ import annotations

import pytest

testinfra_hosts = ["local://"]


@pytest.fixture(name="lines")
def _lines(host, root):
    """Return the words of each kernel command line of the menu, in its order."""
    menu = host.file(f"{root}/boot/grub/grub.cfg").content_string
    return [line.split() for line in menu.splitlines() if line.strip().startswith("linux\t")]


def test_grub_can_read_the_menu(host, root):
    assert host.run("grub-script-check %s", f"{root}/boot/grub/grub.cfg").rc == 0


def test_every_entry_has_the_arguments(lines):
    """Two kernels, the newer one first as the default."""
    kernels = [words[1].rpartition("/")[2] for words in lines]
    assert kernels[0] == "vmlinuz-6.1.0-56-amd64" and set(kernels) == {kernels[0], "vmlinuz-6.1.0-55-amd64"}
    for words in lines:
        assert {"rcu_nocbs=all", "nvme.io_queue_depth=64", "console=ttyS0"} <= set(words) and "quiet" not in words


def test_every_entry_boots_the_same_root_file_system(host, lines):
    uuid = host.check_output("blkid --probe --match-tag UUID --output value /dev/molecule-kernel-cmdline")
    assert all(f"root=UUID={uuid}" in words for words in lines)


def test_a_kernel_that_is_installed_later_gets_the_arguments(host, root):
    """As update-grub does it, but with the menu on standard output."""
    kernel = root / "boot" / "vmlinuz-6.1.0-57-amd64"
    kernel.touch()
    try:
        menu = host.check_output("chroot %s grub-mkconfig 2>/dev/null", str(root))
    finally:
        kernel.unlink()
    lines = [line for line in menu.splitlines() if line.strip().startswith("linux\t") and kernel.name in line]
    assert lines and all("rcu_nocbs=all" in line for line in lines)
