# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot loaders with their files in a temporary directory."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.boot import loader as boot_loader
from ansible_collections.memstretch.density.tests.unit.fixtures.boot_loaders import MENU, GrubbyModel


@pytest.fixture
def grub(tmp_path):
    """Return a function that makes a GRUB in a temporary directory, with a given grub-mkconfig."""
    (tmp_path / "boot" / "grub").mkdir(parents=True)
    (tmp_path / "boot" / "grub" / "grub.cfg").write_text(MENU, encoding="utf-8")
    (tmp_path / "boot" / "grub" / "grub.cfg").chmod(0o600)

    def make(generator):
        return boot_loader.Grub(
            generator,
            lambda name: "/bin/true",
            boot=str(tmp_path / "boot" / "grub"),
            defaults=str(tmp_path / "default"),
        )

    return make


GRUBBIES = {
    "quoted": {},
    "bare": {"quoted": False},
    "no defaults": {"cmdline": False},
    "ids": {"ids": True},
}


@pytest.fixture(params=GRUBBIES)
def grubby(request, tmp_path, monkeypatch):
    """Return models of grubby: what --info=ALL quotes and lists differs, and whether /etc/kernel/cmdline exists."""
    monkeypatch.setattr(
        boot_loader.Grubby, "FILES", [str(tmp_path / name.lstrip("/")) for name in boot_loader.Grubby.FILES]
    )
    return GrubbyModel(tmp_path, **GRUBBIES[request.param])
