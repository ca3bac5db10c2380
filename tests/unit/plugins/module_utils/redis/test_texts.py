# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.redis import texts
from ansible_collections.memstretch.density.plugins.module_utils.redis.instances import OPTIONS, Host, expand

DEFAULTS = {name: each.get("default") for name, each in OPTIONS.items()}


def make(root=True, **options):
    host = Host(root=root, home="/home/bench", systemd=True, first_process="systemd", enforcing=False)
    return expand({"inventory_host": "vm1", **options}, DEFAULTS, host)


def test_the_configuration_of_a_unit():
    extra = {"io-threads": 2, "save": ["900 1", "300 10"], "appendonly": True, "requirepass-hint": ""}
    instance = make(
        port=6401, persistence=True, socket="auto", socket_mode="0077", password="pw", extra_config=extra, owner="me"
    )
    assert texts.configuration(instance) == (
        f"{texts.MARK}\n"
        "# Instance 6401 of inventory host vm1, set up by me\n\n"
        "port 6401\nbind 127.0.0.1\nprotected-mode yes\n"
        "unixsocket /run/memstretch-redis/6401/redis.sock\nunixsocketperm 077\n\n"
        "dir /var/lib/memstretch-redis/6401\n"
        '# systemd keeps the log and tracks the process.\ndaemonize no\nsupervised systemd\nlogfile ""\n'
        "aclfile /etc/memstretch-redis/6401/users.acl\n\n"
        "maxmemory 0\nmaxmemory-policy noeviction\n"
        'appendonly yes\nio-threads 2\nrequirepass-hint ""\nsave 900 1\nsave 300 10\n'
    )


def test_the_configuration_of_a_daemon_without_tcp_and_data():
    text = texts.configuration(make(root=False, port=0, socket="/x/s"))
    home = "/home/bench/.local/state/memstretch/redis/vm1"
    assert f"dir {home}\npidfile {home}/redis.pid\nlogfile {home}/redis.log\n" in text
    assert "port 0\nprotected-mode yes\nunixsocket /x/s\n" in text and text.endswith('save ""\nappendonly no\n')


def test_the_owner_is_read_from_its_own_line_only():
    assert texts.owner_of(texts.configuration(make(owner="inventory-12ab"))) == "inventory-12ab"
    assert texts.owner_of(texts.configuration(make())) == ""
    assert texts.owner_of("logfile x, set up by them\n# Instances, set up by them\n") == ""


def test_users():
    hashed = hashlib.sha256(b"pw").hexdigest()
    assert texts.users(make(password="pw"), (7, 0)) == f"user default reset on #{hashed} ~* &* +@all\n"
    assert texts.users(make(password="pw"), (6, 0)) == f"user default reset on #{hashed} ~* +@all -module -debug\n"
    assert texts.users(make(password="pw", username="bench"), (6, 2)) == (
        f"user default reset off\nuser bench reset on #{hashed} ~* &* +@all -module -debug\n"
    )


@pytest.mark.parametrize("password", ["MyPass'word", "with blanks in it", 'a"b#c$d\\n', "größe", "a\nb"])
def test_a_password_is_never_in_the_syntax_of_redis(password):
    """As in geerlingguy/ansible-role-redis#38 and bitnami/bitnami-docker-redis#194, where Redis does not start."""
    text = texts.users(make(password=password), (7, 0))
    hashed = hashlib.sha256(password.encode()).hexdigest()
    assert text == f"user default reset on #{hashed} ~* &* +@all\n"
    assert password not in texts.configuration(make(password=password))


def test_the_settings_of_a_unit():
    text = texts.dropin(make(port=80, socket="/srv/s/x.sock", slice="fleet.slice"), "/usr/bin/redis-server")
    assert "ExecStart=/usr/bin/redis-server /etc/memstretch-redis/80/redis.conf\nUser=redis\nGroup=redis\n" in text
    assert "ReadWritePaths=/var/lib/memstretch-redis/80\nReadWritePaths=/srv/s\nOOMScoreAdjust=200\n" in text
    assert text.endswith(
        "Slice=fleet.slice\nAmbientCapabilities=CAP_NET_BIND_SERVICE\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\n"
    )
    assert "Slice" not in texts.dropin(make(socket="auto"), "x") and texts.UNIT_TEXT.startswith(texts.MARK)
