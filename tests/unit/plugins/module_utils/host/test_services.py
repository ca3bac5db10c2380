# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services, with a model of systemctl, so that no service here is stopped. The scenario host has the real one."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.services import STOPPED, Services, describe
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import SettingsError
from ansible_collections.memstretch.density.tests.unit.fixtures.systemctl import Systemctl

RUNNING = {"active": True, "enabled": True}


@pytest.mark.parametrize(
    ("unit", "state", "text"),
    [
        (("loaded", "active", "enabled"), RUNNING, "running and enabled"),
        (("loaded", "activating", "static"), {"active": True, "enabled": False}, "running"),
        (("loaded", "failed", "enabled-runtime"), {"active": False, "enabled": True}, "enabled"),
        (("loaded", "inactive", "disabled"), STOPPED, "stopped"),
        (("masked", "inactive", "masked"), STOPPED, "stopped"),
        (("not-found", "inactive", ""), None, "absent"),
    ],
)
def test_states(unit, state, text):
    services = Services(Systemctl(tuned=unit), systemd=True)

    assert services.state("tuned") == state
    assert describe(services.state("tuned")) == text


def test_a_service_is_stopped_and_restored():
    systemctl = Systemctl(tuned=("loaded", "active", "enabled"))
    services = Services(systemctl, systemd=True)

    services.set_state("tuned", STOPPED)
    assert services.state("tuned") == STOPPED and systemctl.commands == ["disable tuned", "stop tuned"]
    services.set_state("tuned", RUNNING)
    assert services.state("tuned") == RUNNING


def test_a_service_in_the_wanted_state_is_left_alone():
    systemctl = Systemctl(tuned=("loaded", "inactive", "disabled"))

    Services(systemctl, systemd=True).set_state("tuned", STOPPED)

    assert systemctl.commands == []


def test_what_starts_a_service_again_is_found():
    units = {"oomd.socket": "active", "oomd.timer": "inactive", "oomd.target": "active"}
    systemctl = Systemctl(
        oomd=("loaded", "active", "enabled"), **{name: ("loaded", state, "") for name, state in units.items()}
    )
    systemctl.triggers["oomd"] = list(units)
    services = Services(systemctl, systemd=True)

    assert services.triggers("oomd") == ["oomd.socket"]
    services.set_state("oomd.socket", STOPPED)
    assert services.triggers("oomd") == [] and systemctl.commands == ["stop oomd.socket"]
    assert services.triggers("there-is-none") == [] and Services(systemctl, systemd=False).triggers("oomd") == []


def test_a_service_without_a_unit_cannot_be_restored():
    with pytest.raises(SettingsError, match="tuned cannot be restored: this host no longer has its unit"):
        Services(Systemctl(), systemd=True).set_state("tuned", RUNNING)


def test_a_failed_systemctl_is_raised():
    with pytest.raises(SettingsError, match="systemctl show .*tuned.service ended with status 1: Access denied"):
        Services(lambda command, **_options: (1, "", "Access denied"), systemd=True).state("tuned")


def test_a_host_without_systemd_has_no_services():
    systemctl = Systemctl(tuned=("loaded", "active", "enabled"))

    assert Services(systemctl, systemd=False).state("tuned") is None
