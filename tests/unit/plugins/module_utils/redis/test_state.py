# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules redis_daemon and redis_daemons refuse, and predict; tests/local starts real servers."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.redis.state import bring, check_options

OPTIONS = {
    "config": "/nowhere/redis.conf",
    "state": "started",
    "executable": "redis-server",
    "username": "default",
    "password": None,
    "timeout": 30,
    "cgroup": "",
}


class Module:
    """A module in check mode, on a host without Redis; it must not run anything."""

    check_mode = True

    def get_bin_path(self, arg):
        return None

    def run_command(self, *command, **options):
        raise AssertionError(f"{command} was run")


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"timeout": 0}, r"^timeout: 0 is out of range; it must be a whole number from 1 to 3,600 \(seconds\)$"),
        ({"timeout": 3601}, "^timeout: 3601 is out of range"),
        ({"config": "redis.conf"}, "^config: 'redis.conf' is not an absolute path"),
        ({"cgroup": "../fleet"}, "^cgroup: '../fleet' is not the path of a control group"),
        ({"cgroup": "fleet/"}, "^cgroup: 'fleet/' is not the path"),
        ({"cgroup": "a b"}, "^cgroup: 'a b' is not the path"),
    ],
)
def test_an_option_that_is_not_allowed_is_named(changes, text):
    with pytest.raises(SettingError, match=text):
        check_options({**OPTIONS, **changes})
    with pytest.raises(SettingError, match=text):
        raise SettingError(bring(Module(), {**OPTIONS, **changes})["msg"])


@pytest.mark.parametrize("changes", [{}, {"timeout": 1}, {"timeout": 3600}, {"cgroup": "a/b.slice"}, {"cgroup": "/a"}])
def test_options_that_are_allowed(changes):
    check_options({**OPTIONS, **changes})


def test_check_mode_predicts_a_start_before_the_configuration_is_written(tmp_path):
    result = bring(Module(), {**OPTIONS, "config": str(tmp_path / "redis.conf")})
    assert (result["changed"], result["state"], result["actions"]) == (True, "started", ["start"])
    assert result["diff"]["before"]["state"] == "stopped" and result["pid"] is None


def test_check_mode_has_nothing_to_stop_without_a_server(tmp_path):
    result = bring(Module(), {**OPTIONS, "config": str(tmp_path / "redis.conf"), "state": "stopped"})
    assert not result["changed"] and result["actions"] == [] and result["state"] == "stopped"


def test_a_configuration_that_cannot_be_used_fails_before_anything_runs(tmp_path):
    config = tmp_path / "redis.conf"
    config.write_text("port 0\n", encoding="ascii")
    result = bring(Module(), {**OPTIONS, "config": str(config)})
    assert result["failed"] and str(config) in result["msg"]
