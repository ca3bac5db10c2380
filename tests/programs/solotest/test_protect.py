# SPDX-License-Identifier: GPL-3.0-or-later
"""A protected fill: replaces what fills and tests of ours wrote, and leaves a Redis with anything else as it is."""

from __future__ import annotations

import collections
import contextlib
import os
import signal
import time

import pytest
from servers import INFO, FakeServer, Redis, bulk, caught, good_reply, requests, written

NOTE = "memstretch:fill"
KEYS, SIZE = 1000, 100


def fill(client, server, *options, keys=KEYS, size=SIZE):
    return client.run(*options, "--json", "fill", server.port, size, keys)


def protected_fill(client, server, **how):
    return fill(client, server, "--protect", **how)


def test(client, server, *options, keys=KEYS, size=SIZE, read_mix=-1):
    arguments = ("--pacing", "none", *options, "test", server.port, size, keys, 0, 1, read_mix)
    result = client.run("--json", *arguments)
    assert result.code == 0, result
    return result


test.__test__ = False


def dump(server):
    """Return the data of all databases, without the access times that looking at a key changes."""
    listing = server.command("EVAL", _DUMP, 0)
    assert listing.startswith("$"), listing
    return listing


# One digest for each database: every key with its type, its time to live and its serialised value.
_DUMP = """
local found = {}
for database = 0, 15 do
    redis.call('SELECT', database)
    local keys = redis.call('KEYS', '*')
    table.sort(keys)
    local all = {}
    for i, key in ipairs(keys) do
        local value = redis.call('DUMP', key)
        all[i] = key .. redis.call('PEXPIRETIME', key) .. redis.sha1hex(value)
    end
    found[database + 1] = #keys .. ' ' .. redis.sha1hex(table.concat(all, ' '))
end
return table.concat(found, '\\n')
"""


def refused(client, server, *words, **how):
    """Check that a protected fill is refused with a message that contains words, and changes nothing."""
    before = dump(server)
    result = protected_fill(client, server, **how)
    assert result.code == 5 and result.json["error"]["kind"] == "refused_foreign_data", result
    assert result.json["fill"] is None
    for word in words:
        assert word in result.messages, result
    assert dump(server) == before
    return result


def replaced(client, server, keys=KEYS, size=SIZE):
    """Check that a protected fill replaces all keys."""
    result = protected_fill(client, server, keys=keys, size=size)
    assert result.code == 0, result
    assert result.json["fill"]["dbsize"] == result.json["server_after"]["dbsize"] == keys
    assert server.dbsize() == keys + 1
    assert server.command("STRLEN", keys - 1) == f":{size}\r\n" and server.command("EXISTS", keys) == ":0\r\n"
    return result


# ---- ours ----


def test_an_empty_redis_is_filled_and_gets_a_note(any_solotest, fresh):
    replaced(any_solotest, fresh)
    assert "keys 0 to 999" in fresh.command("GET", NOTE)


@pytest.mark.parametrize("keys, size", [(KEYS, SIZE), (3 * KEYS, SIZE), (10, SIZE), (KEYS, 3000), (1, 1)])
def test_a_fill_of_ours_is_replaced_by_any_other(any_solotest, fresh, keys, size):
    assert protected_fill(any_solotest, fresh).code == 0
    replaced(any_solotest, fresh, keys, size)
    replaced(any_solotest, fresh)


def test_a_fill_without_protection_is_ours_too(any_solotest, fresh):
    fresh.command("SET", "user:1", "gone")
    assert fill(any_solotest, fresh).code == 0 and fresh.dbsize() == KEYS + 1
    replaced(any_solotest, fresh)


def test_an_interrupted_fill_is_replaced(any_solotest, fresh):
    process = any_solotest.start("--protect", "fill", fresh.port, 10, 20_000_000)
    try:
        while fresh.dbsize() < 5000:
            assert process.poll() is None
    finally:
        process.kill()
        process.communicate()
    settle(fresh)
    assert 5000 < fresh.dbsize() < 20_000_000
    replaced(any_solotest, fresh)


def settle(server):
    """Wait until the server has executed what a killed client had sent."""
    count = None
    while count != (count := server.dbsize()) or " cmd=set " in server.command("CLIENT", "LIST"):
        pass


@pytest.mark.long
def test_an_interrupted_replacement_is_replaced(any_solotest, fresh):
    """Killed while it deletes a larger fill, and again while it writes the next one."""
    keys = 1_000_000
    assert protected_fill(any_solotest, fresh, keys=keys, size=10).code == 0
    process = any_solotest.start("--protect", "fill", fresh.port, 10, keys)
    try:
        while fresh.dbsize() > keys * 0.9:
            assert process.poll() is None
    finally:
        process.kill()
        process.communicate()
    settle(fresh)
    assert fresh.dbsize() != keys + 1
    replaced(any_solotest, fresh)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_check_changes_nothing(solotest, fresh, number):
    assert protected_fill(solotest, fresh).code == 0
    before = dump(fresh)
    os.kill(fresh.process.pid, signal.SIGSTOP)  # or the fill could be faster than the signal
    process = solotest.start("--json", "--protect", "fill", fresh.port, SIZE, KEYS)
    while not caught(process, number):  # before, the signal would end it at once
        assert process.poll() is None
    process.send_signal(number)
    os.kill(fresh.process.pid, signal.SIGCONT)
    result = solotest.finish(process, timeout=20)
    assert result.code in (128 + number, -number)
    settle(fresh)
    assert dump(fresh) == before
    replaced(solotest, fresh)


@pytest.mark.parametrize("keys, size", [(KEYS, SIZE), (5 * KEYS, SIZE), (KEYS, 5000), (100, 20)])
def test_what_a_test_writes_is_ours_too(any_solotest, fresh, keys, size):
    """More keys than the fill had, and values of another size."""
    assert protected_fill(any_solotest, fresh).code == 0
    test(any_solotest, fresh, "--pattern", "sequential", keys=keys, size=size)
    replaced(any_solotest, fresh)


def test_a_test_that_only_reads_leaves_the_note_alone(any_solotest, fresh):
    assert protected_fill(any_solotest, fresh).code == 0
    before = dump(fresh)
    test(any_solotest, fresh, "--requests", 100, size=50, read_mix=100)
    assert dump(fresh) == before


def test_a_test_writes_no_note_where_there_was_no_fill(any_solotest, fresh):
    test(any_solotest, fresh, "--pattern", "sequential")
    assert fresh.dbsize() == KEYS
    refused(any_solotest, fresh, "no note")


def test_a_fill_with_evicted_keys_is_replaced(any_solotest):
    with Redis("--maxmemory", "0", "--maxmemory-policy", "allkeys-random") as server:
        assert protected_fill(any_solotest, server, keys=5000).code == 0
        server.command("CONFIG", "SET", "maxmemory", "1500000")  # evicts at once
        server.command("CONFIG", "SET", "maxmemory", "0")
        assert 0 < server.dbsize() < 5000
        if server.command("EXISTS", NOTE) == ":1\r\n":
            replaced(any_solotest, server)
        else:
            refused(any_solotest, server, "no note")


def keeps(data, before_deleting=lambda: None, after=lambda name, count: None):
    """Return the script of a Redis that keeps these values, and does something before it deletes keys.

    It also does something after each command: C(after) gets its name, and how often it was sent.
    """

    def delete(names):
        before_deleting()
        return b":%d\r\n" % sum(data.pop(key, None) is not None for key in names)

    def script(connection, _number):
        watched, queued, sent = {}, None, collections.Counter()
        for words in requests(connection):
            name, *rest = words
            answer = good_reply(words)
            if name == b"INFO":
                answer = bulk(INFO + b"role:master\r\nconnected_slaves:0\r\n")
            elif name == b"DBSIZE":
                answer = b":%d\r\n" % len(data)
            elif name == b"EXISTS":
                answer = b":%d\r\n" % sum(key in data for key in rest)
            elif name == b"STRLEN":
                answer = b":%d\r\n" % len(data.get(rest[0], b""))
            elif name == b"GETRANGE":
                answer = bulk(data[rest[0]])
            elif name == b"WATCH":
                watched = {key: data.get(key) for key in rest}
            elif name == b"MULTI":
                queued = []
            elif name == b"DEL" and queued is not None:
                queued, answer = rest, b"+QUEUED\r\n"
            elif name == b"DEL":
                answer = delete(rest)
            elif name == b"EXEC":
                same = all(data.get(key) == value for key, value in watched.items())
                answer = b"*1\r\n" + delete(queued) if same else b"*-1\r\n"
                queued = None
            elif name in (b"FLUSHALL", b"FLUSHDB"):
                delete(list(data))
            data.update(written(words))
            sent[name] += 1
            after(name, sent[name])
            connection.sendall(answer)

    return script


def ours():
    return {NOTE.encode(): b"solotest 1: keys 0 to 1, values of 10 to 10 bytes", b"0": b"x" * 10, b"1": b"x" * 10}


def test_deleting_may_take_longer_than_a_reply(any_solotest):
    """Large values, or swapped memory: freeing them has the time of FLUSHALL."""
    data = ours()
    with FakeServer(keeps(data, lambda: time.sleep(3))) as server:
        result = any_solotest.run("--json", "--timeout", 1.5, "--protect", "fill", server.port, 10, 2)
    assert result.code == 0, result
    assert len(data) == 3


def test_a_key_that_another_program_adds_after_the_proof_stays(any_solotest):
    data = ours()
    with FakeServer(keeps(data, lambda: data.update({b"user:1": b"precious"}))) as server:
        any_solotest.run("--json", "--protect", "fill", server.port, 10, 2)
    assert data.get(b"user:1") == b"precious"


@pytest.mark.parametrize("value", [b"precious", b"precious" * 9])
@pytest.mark.parametrize("when", ["DBSIZE", "MULTI"])
def test_a_value_that_another_program_writes_under_one_of_our_names_after_the_proof_stays(any_solotest, value, when):
    """The count of keys ends the proof; MULTI begins to delete what the fill has just looked at again."""
    data = ours()

    def write(name, count):
        if name == when.encode() and count == (2 if when == "DBSIZE" else 1):
            data[b"0"] = value

    with FakeServer(keeps(data, after=write)) as server:
        result = any_solotest.run("--json", "--protect", "fill", server.port, 10, 2)
    assert data == {**ours(), b"0": value}
    assert result.code == 5 and f"no fill wrote its key 0 (a value of {len(value)} bytes)" in result.messages


def test_who_writes_under_our_names_all_the_time_is_not_fought_with(any_solotest):
    """Values of our size cannot be told from ours, but they show that somebody else uses this Redis."""
    data = ours()

    def write(name, count):
        if name == b"MULTI":
            data[b"0"] = b"%010d" % count

    with FakeServer(keeps(data, after=write)) as server:
        result = any_solotest.run("--json", "--protect", "fill", server.port, 10, 2)
    assert result.code == 5 and "another client changes its keys 0 to 1" in result.messages
    assert data == {**ours(), b"0": b"%010d" % 3}


def test_an_application_that_uses_our_names_keeps_its_values(solotest, fresh):
    """A real Redis: it begins in the middle of the proof, or while the fill deletes."""
    keys = 200_000
    assert protected_fill(solotest, fresh, keys=keys, size=10).code == 0
    process = solotest.start("--json", "--protect", "fill", fresh.port, 10, keys)
    with contextlib.closing(fresh.connect()) as connection:
        while fresh.dbsize() > keys - 5000:
            assert process.poll() is None
        connection.send("SET", keys - 1, "precious")
    result = solotest.finish(process)
    assert result.code == 5 and f"no fill wrote its key {keys - 1} (a value of 8 bytes)" in result.messages, result
    assert fresh.command("GET", keys - 1) == "$8\r\nprecious\r\n"


# ---- not ours ----


def test_a_foreign_key(any_solotest, fresh):
    fresh.command("SET", "user:1", "precious")
    refused(any_solotest, fresh, "user:1", NOTE)


@pytest.mark.long
def test_a_hundred_foreign_keys_among_many_of_ours(solotest, fresh):
    """A sample of 1,000 keys misses them with a probability of 0.72."""
    assert protected_fill(solotest, fresh, keys=300_000, size=10).code == 0
    for number in range(100):
        fresh.command("SET", f"user:{number}", "precious")
    refused(solotest, fresh, "100 keys", keys=300_000, size=10)


@pytest.mark.parametrize("name", [KEYS, 10**9, "007", "-1", "1.0", "", " 1"])
def test_a_foreign_key_next_to_ours(any_solotest, fresh, name):
    assert protected_fill(any_solotest, fresh).code == 0
    fresh.command("SET", name, "x" * SIZE)
    refused(any_solotest, fresh, "1 key")


@pytest.mark.parametrize("keys", [10, KEYS, 5 * KEYS])
def test_numeric_keys_of_an_application(any_solotest, fresh, keys):
    """They look like a fill in every respect, but there is no note."""
    for number in range(20):
        fresh.command("SET", number, "x" * SIZE)
    refused(any_solotest, fresh, "no note", keys=keys)


def test_one_of_our_names_deleted_and_a_foreign_key_added(any_solotest, fresh):
    """The number of keys alone is right."""
    assert protected_fill(any_solotest, fresh).code == 0
    fresh.command("DEL", 500)
    fresh.command("SET", "user:1", "precious")
    assert fresh.dbsize() == KEYS + 1
    refused(any_solotest, fresh, "1 key")


@pytest.mark.parametrize("type_of_key", ["hash", "list"])
def test_another_type_under_one_of_our_names(any_solotest, fresh, type_of_key):
    assert protected_fill(any_solotest, fresh).code == 0
    fresh.command("DEL", 700)
    fresh.command(*(("HSET", 700, "a", "b") if type_of_key == "hash" else ("LPUSH", 700, "a")))
    refused(any_solotest, fresh, "700", "WRONGTYPE")


@pytest.mark.parametrize("value", ["", "short", "x" * (SIZE + 1)])
def test_a_value_of_another_length_under_one_of_our_names(any_solotest, fresh, value):
    assert protected_fill(any_solotest, fresh).code == 0
    fresh.command("SET", 700, value)
    refused(any_solotest, fresh, f"700 (a value of {len(value)} bytes)" if value else "1 key")


def test_a_time_to_live(any_solotest, fresh):
    assert protected_fill(any_solotest, fresh).code == 0
    fresh.command("EXPIRE", 700, 10_000)
    refused(any_solotest, fresh, "expire", "db0:keys=1001,expires=1")


@pytest.mark.parametrize("filled_before", [False, True])
def test_another_database(any_solotest, fresh, filled_before):
    if filled_before:
        assert protected_fill(any_solotest, fresh).code == 0
    fresh.command("EVAL", "redis.call('SELECT', 3) return redis.call('SET', 1, 'precious')", 0)
    refused(any_solotest, fresh, "another database", "db3")


@pytest.mark.parametrize("filled_before", [False, True])
def test_a_replica_is_attached(any_solotest, fresh, filled_before):
    if filled_before:
        assert protected_fill(any_solotest, fresh).code == 0
    fresh.command("CONFIG", "SET", "repl-diskless-sync-delay", 0)
    with Redis("--replicaof", f"127.0.0.1 {fresh.port}") as replica:
        while "master_link_status:up" not in replica.command("INFO", "replication"):
            pass
        refused(any_solotest, fresh, "replicas")
        refused(any_solotest, replica, "slave")


@pytest.mark.parametrize(
    "value", ["", "precious", "solotest 1: keys 0 to 999, values of 100 to 100 bytes!", "x" * 100_000]
)
def test_a_foreign_value_in_place_of_the_note(any_solotest, fresh, value):
    assert protected_fill(any_solotest, fresh).code == 0
    fresh.command("SET", NOTE, value)
    refused(any_solotest, fresh, "no note")


def test_a_note_of_another_type(any_solotest, fresh):
    fresh.command("HSET", NOTE, "a", "b")
    refused(any_solotest, fresh, "no note")


def test_a_redis_that_may_not_be_looked_at(solotest):
    with Redis() as server:
        server.command("ACL", "SETUSER", "blind", "on", ">x", "~*", "+@all", "-info")
        result = solotest.run(
            "--protect", "--user", "blind", "fill", server.port, 10, 100, environment={"SOLOTEST_PASSWORD": "x"}
        )
        assert server.dbsize() == 0
    assert result.code == 5 and "cannot inspect" in result.messages


@pytest.mark.parametrize("command", ["strlen", "watch", "multi", "exec"])
def test_a_user_who_may_not_look_or_delete_in_a_transaction(solotest, command):
    with Redis() as server:
        assert protected_fill(solotest, server).code == 0
        server.command("ACL", "SETUSER", "blind", "on", ">x", "~*", "+@all", f"-{command}")
        before = dump(server)
        result = solotest.run(
            "--protect", "--user", "blind", "fill", server.port, 10, 100, environment={"SOLOTEST_PASSWORD": "x"}
        )
        assert dump(server) == before
    assert result.code == 5 and "NOPERM" in result.messages


def test_an_application_that_writes_all_the_time_keeps_its_keys(solotest, fresh):
    """It begins before, during or after the check; nothing that it wrote is lost."""
    assert protected_fill(solotest, fresh, keys=50_000, size=10).code == 0
    process = solotest.start("--json", "--protect", "fill", fresh.port, 10, 50_000)
    written = 0
    with contextlib.closing(fresh.connect()) as connection:
        while process.poll() is None:
            connection.send("SET", f"user:{written}", "precious")
            written += 1
    result = solotest.finish(process)
    assert result.code in (1, 5), result  # refused, or the final count is wrong
    assert fresh.command("EXISTS", *(f"user:{number}" for number in range(written))) == f":{written}\r\n"
