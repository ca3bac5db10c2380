# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.redis.config import Config, ConfigError, address_text


@pytest.mark.parametrize(
    "directives, words",
    [
        ({"pidfile": "redis.pid"}, ["pidfile", "absolute", "redis.pid"]),
        ({"dir": "."}, ["dir", "absolute"]),
        ({"port": 0}, ["port 0", "unixsocket"]),
        ({"port": 65536}, ["65536", "65,535"]),
        ({"bind": '"127.0.0.1'}, ["quote", "bind"]),
        ({"aclfile": "/nonexistent/users.acl"}, ["/nonexistent/users.acl"]),
    ],
)
def test_bad_configuration_files(write_config, directives, words):
    with pytest.raises(ConfigError) as error:
        config = write_config(**directives)
        config.require()
        config.checksum()
    assert all(word in str(error.value) for word in words), error.value


def test_a_missing_file_is_refused_only_when_required(tmp_path):
    config = Config(str(tmp_path / "redis.conf"))
    assert not config.exists
    with pytest.raises(ConfigError, match="does not exist"):
        config.require()


def test_a_valid_file_is_accepted(write_config):
    write_config().require()


@pytest.mark.parametrize(
    "directives, address, text",
    [
        ({}, ("127.0.0.1", 6401), "127.0.0.1:6401"),
        ({"bind": "-10.0.0.1 127.0.0.1"}, ("10.0.0.1", 6401), "10.0.0.1:6401"),
        ({"bind": "0.0.0.0"}, ("127.0.0.1", 6401), "127.0.0.1:6401"),
        ({"bind": "*"}, ("127.0.0.1", 6401), "127.0.0.1:6401"),
        ({"bind": "::"}, ("::1", 6401), "::1:6401"),
        ({"port": 0, "unixsocket": '"/run/my redis.sock"'}, "/run/my redis.sock", "unix socket /run/my redis.sock"),
    ],
)
def test_address(write_config, directives, address, text):
    config = write_config(**directives)
    assert config.address == address and address_text(config.address) == text


def test_names_of_directives_are_case_insensitive_and_the_last_one_counts(tmp_path):
    path = tmp_path / "redis.conf"
    path.write_text("# port 1\n\nport 2\nPORT 3\nmaxmemory 4\n", encoding="utf-8")
    assert Config(str(path)).values == {"port": ["3"]}


def test_checksum_covers_the_acl_file(write_config, tmp_path):
    users = tmp_path / "users.acl"
    users.write_text("user default on", encoding="utf-8")
    config = write_config(aclfile=users)
    before = config.checksum()
    assert config.checksum() == before
    users.write_text("user default off", encoding="utf-8")
    assert config.checksum() != before
