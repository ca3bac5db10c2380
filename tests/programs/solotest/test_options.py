# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: what is refused, before any connection is opened, and what is understood."""

from __future__ import annotations

import zlib

import lz4
import pytest
from servers import FakeServer, good_reply, requests, written

BAD = [
    (["wrong"], "MODE", "fill, test"),
    ([""], "MODE", "a text that is not empty"),
    (["test", "0"], "PORT", "1 to 65535"),
    (["test", "port"], "PORT", "1 to 65535"),
    (["test", "6379", "0"], "VALUE_SIZE", "1 to 536870912"),
    (["test", "6379", "1k"], "VALUE_SIZE", "1 to 536870912"),
    (["test", "6379", "1", "0"], "KEY_COUNT", "1 to 1000000000000"),
    (["test", "6379", "1", "1", "x"], "BIAS", "-1000000 to 1000000"),
    (["test", "6379", "1", "1", "nan"], "BIAS", "-1000000 to 1000000"),
    (["test", "6379", "1", "1", "0", "0"], "FREQUENCY", "0.001 to 1000000000"),
    (["test", "6379", "1", "1", "0", "inf"], "FREQUENCY", "0.001 to 1000000000"),
    (["test", "6379", "1", "1", "0", "1", "101"], "READ_MIX", "-1 to 100"),
    (["test", "6379", "1", "1", "0", "1", "100", "extra"], "extra", "too many"),
    (["--unheard-of"], "--unheard-of", "--help"),
    (["--host="], "--host", "a text that is not empty"),
    (["--socket", "x" * 200], "--socket", "107 bytes"),
    (["--user", "somebody"], "--user", "password"),
    (["--password-file", "/nonexistent"], "--password-file", "readable file"),
    (["--cacert", "ca.pem"], "--cacert", "--tls"),
    (["--cert", "client.pem"], "--cert", "--tls"),
    (["--key", "client.key"], "--key", "--tls"),
    (["--sni", "redis.example"], "--sni", "--tls"),
    (["--insecure"], "--insecure", "--tls"),
    (["--tls", "--socket", "/run/redis.sock"], "--tls", "Unix socket"),
    (["--tls", "--cert", "client.pem"], "--key", "need each other"),
    (["--tls", "--key", "client.key"], "--cert", "need each other"),
    (["--requests", "0"], "--requests", "1 to"),
    (["--requests", "1.5"], "--requests", "whole number"),
    (["--duration", "-1"], "--duration", "0.001 to"),
    (["--max-seconds", "0"], "--max-seconds", "0.001 to"),
    (["--connections", "513"], "--connections", "1 to 512"),
    (["--pipeline", "0"], "--pipeline", "1 to 4096"),
    (["--connections", "512", "--pipeline", "4096"], "--connections", "65536"),
    (["--pattern", "zipf"], "--pattern", "gaussian, uniform, sequential"),
    (["--pacing", "busy"], "--pacing", "hybrid, sleep, spin, none"),
    (["--arrivals", "regular"], "--arrivals", "periodic, jitter, poisson"),
    (["--spin-us", "1000001"], "--spin-us", "0 to 1000000"),
    (["--start-at", "soon"], "--start-at", "0 to"),
    (["--stagger", "1"], "--stagger", "0 to 0.999999999"),
    (["--seed", "-1"], "--seed", "0 to 9007199254740991"),
    (["--compressibility", "2"], "--compressibility", "0 to 1"),
    (["--cpu", "1024"], "--cpu", "0 to 1023"),
    (["--cpu", "1023"], "--cpu", "CPU of this machine"),
    (["--timeout", "0"], "--timeout", "0.001 to"),
    (["--connect-timeout", "3601"], "--connect-timeout", "0.001 to 3600"),
    (["--raw", "raw", "--pacing", "none", "--duration", "1"], "--raw", "--requests"),
    (["--raw"], "--raw", "needs a value"),
    (["--raw", "raw", "--requests", "20000001"], "--raw", "up to 20000000 requests"),
    (["--json=yes"], "--json", "no value"),
    (["test", "6379", "1", "1000000000000", "0", "0.001"], "FREQUENCY", "1e+09 seconds"),
]


@pytest.mark.parametrize("arguments, name, allowed", BAD, ids=[" ".join(case[0])[:30] for case in BAD])
def test_bad_values_are_named_and_nothing_is_connected(any_solotest, arguments, name, allowed):
    with FakeServer(lambda connection, number: None) as server:
        before = ["test", server.port] if arguments[0].startswith("--") else []
        result = any_solotest.run("--json", *before, *arguments)
        assert result.code == 2, result
        assert name in result.messages and allowed in result.messages
        assert result.output == ""
        assert not server.connections


def test_a_password_is_never_an_argument(solotest):
    result = solotest.run("--password", "secret", "test")
    assert result.code == 2


def wire(client, *arguments):
    """The GETs and SETs that reach a server."""
    seen = []

    def script(connection, _number):
        for words in requests(connection):
            if words[0] in (b"GET", b"SET"):
                seen.append(words)
            connection.sendall(good_reply(words))

    with FakeServer(script) as server:
        result = client.run("--pacing", "none", "--pipeline", 64, *arguments[:-1], "test", server.port, *arguments[-1])
        assert result.code == 0, result
    return seen


def test_the_wire_shows_what_the_options_ask_for(solotest):
    seen = wire(solotest, "--seed", 1, [10, 20000, 0, 1, 70])
    sets = [words for words in seen if words[0] == b"SET"]
    assert len(seen) == 20000
    assert abs(len(sets) / len(seen) - 0.29) < 0.01  # 29 %, not 30 %
    assert all(0 <= int(words[1]) < 20000 and words[1] == b"%d" % int(words[1]) for words in seen)
    assert all(len(words[2]) == 10 and 0 not in words[2] for words in sets)
    assert len({words[2] for words in sets}) == len(sets)  # fresh each time


def test_a_seed_repeats_keys_and_values(solotest):
    first = wire(solotest, "--seed", 42, [50, 500, 10, 1, 70])
    assert first == wire(solotest, "--seed", 42, [50, 500, 10, 1, 70])
    assert first == wire(solotest, "--seed", 42, "--pipeline", 1, [50, 500, 10, 1, 70])  # no value is made ahead
    other_size = wire(solotest, "--seed", 42, [60, 500, 10, 1, 70])
    assert [words[:2] for words in first] == [words[:2] for words in other_size]
    assert first != wire(solotest, "--seed", 43, [50, 500, 10, 1, 70])
    assert wire(solotest, [50, 500, 10, 1, 70]) != wire(solotest, [50, 500, 10, 1, 70])


def test_sequential_keys(solotest):
    seen = wire(solotest, "--pattern", "sequential", "--requests", 25, [10, 10, 0, 1])
    assert [int(words[1]) for words in seen] == [i % 10 for i in range(25)]


@pytest.mark.parametrize("size", [1, 10, 1000, 4096, 8193, 16384, 20000])
@pytest.mark.parametrize("keys", [1, 9, 203])
def test_a_fill_writes_every_key_once(solotest, size, keys):
    """It writes several keys at once, but no more than Redis reads at once."""
    seen = []

    def script(connection, _number):
        for words in requests(connection):
            if words[0] == b"DBSIZE" and seen:
                connection.sendall(b":%d\r\n" % sum(len(written(each)) for each in seen))
                continue
            if written(words) and words[1] != b"memstretch:fill":
                seen.append(words)
            connection.sendall(good_reply(words))

    with FakeServer(script) as server:
        result = solotest.run("--json", "fill", server.port, size, keys)
    assert result.code == 0 and result.json["fill"]["keys"] == keys, result
    assert sorted(int(key) for words in seen for key in words[1::2]) == [*range(keys)]
    assert {len(value) for words in seen for value in words[2::2]} == {size}
    values = {value for words in seen for value in words[2::2]}
    assert size == 1 or len(values) == keys, "each is fresh"
    most = max(len(written(words)) for words in seen)
    assert most * size <= max(8192, size) and (most > 1) == (keys > 1 and size <= 4096)


# Sizes of the pages of six programs at work, in bytes of LZ4: the sample of files/solotest/values.c at these quantiles.
SAMPLE = {0.1: 558, 0.25: 952, 0.5: 1330, 0.75: 1620, 0.9: 2781}


def pages_of_values(solotest, compressibility):
    """Return 40 runs of values, two of each kind, as Redis lays them out: four of 1,024 bytes in a page."""
    words = wire(solotest, "--compressibility", str(compressibility), [1024, 1280, 0, 1, -1])
    return b"".join(each[2] for each in words if each[0] == b"SET")


@pytest.mark.parametrize("share", [0, 0.25, 0.5, 0.667, 0.8, 0.95])
def test_compressibility_is_the_share_that_lz4_saves(solotest, share):
    sizes = lz4.compressed_sizes(pages_of_values(solotest, share))
    assert len(sizes) == 320
    saved = 1 - sum(sizes) / (len(sizes) * lz4.PAGE)
    # LZ4 spends a few bytes on each value, whatever is in it.
    assert share - (0.02 if share < 0.8 else 0.04) < saved < share + 0.02


def test_pages_of_values_differ_as_those_of_programs_do(solotest):
    sizes = sorted(lz4.compressed_sizes(pages_of_values(solotest, 0.666)))
    found = {share: sizes[int(share * len(sizes))] for share in SAMPLE}
    assert found == {share: pytest.approx(size, rel=0.1) for share, size in SAMPLE.items()}


def test_values_of_chance_do_not_compress(solotest):
    """Not one by one, and not several in a page, which is what a compressed tier of memory sees."""
    values = b"".join(words[2] for words in wire(solotest, [1000, 100, 0, 1, -1]))
    assert len(values) == 100_000
    assert len(zlib.compress(values, 9)) > 0.995 * len(values)


def check_rate(test, rate):
    """Check that a test took as long as its schedule, but for how late its requests were."""
    seconds, late = test["requests"]["ok"] / rate, test["latency"]["intended"]["max_ns"] / 1e9
    assert abs(test["seconds"] - seconds) <= 0.1 * seconds + late  # random arrivals vary by 2.2 %


def test_several_connections_and_a_pipeline(solotest, filled):
    report = solotest.run(
        "--json",
        "--connections",
        8,
        "--pipeline",
        16,
        "--pacing",
        "none",
        "--requests",
        50000,
        "test",
        filled.port,
        100,
        1000,
        10,
        1,
        70,
    ).json
    assert report["error"] is None
    assert report["test"]["requests"]["ok"] == report["test"]["requests"]["sent"] == 50000
    report = solotest.run(
        "--json", "--connections", 4, "--pipeline", 2, "--requests", 2000, "test", filled.port, 100, 1000, 10, 4000, 70
    ).json
    assert report["error"] is None and report["test"]["requests"]["ok"] == 2000
    check_rate(report["test"], 4000)


def test_a_unix_socket(solotest, filled):
    report = solotest.run(
        "--json", "--socket", filled.socket, "--requests", 1000, "test", 6379, 100, 1000, 0, 5000
    ).json
    assert report["error"] is None and report["test"]["requests"]["ok"] == 1000
    assert report["settings"]["socket"] == filled.socket and report["settings"]["port"] is None


@pytest.mark.parametrize("pacing", ["hybrid", "sleep", "spin"])
def test_pacing_keeps_the_rate(solotest, filled, pacing):
    report = solotest.run(
        "--json", "--pacing", pacing, "--requests", 2000, "test", filled.port, 100, 1000, 0, 2500.5
    ).json
    check_rate(report["test"], 2500.5)


@pytest.mark.parametrize("arrivals", ["periodic", "jitter", "poisson"])
def test_arrivals_keep_the_rate(solotest, filled, arrivals):
    report = solotest.run(
        "--json", "--arrivals", arrivals, "--requests", 2000, "test", filled.port, 100, 1000, 0, 2500.5
    ).json
    assert report["settings"]["arrivals"] == arrivals
    check_rate(report["test"], 2500.5)


def test_duration_is_a_number_of_requests_on_a_schedule(solotest, filled):
    report = solotest.run("--json", "--duration", 0.5, "test", filled.port, 100, 1000, 0, 1000).json
    assert report["test"]["requests"]["planned"] == report["test"]["requests"]["ok"] == 500


def test_max_seconds_ends_a_test_that_falls_behind(solotest, filled):
    report = solotest.run(
        "--json", "--max-seconds", 0.5, "--requests", 100000000, "test", filled.port, 100, 1000, 0, 1e6
    ).json
    assert report["error"] is None
    assert report["test"]["requests"]["sent"] < report["test"]["requests"]["planned"]
    assert 0.4 < report["test"]["seconds"] < 5
    assert report["test"]["cut_off"] is True


@pytest.mark.parametrize(
    "cut_off, extra",
    [
        (True, ["--max-seconds", 0.3, "--duration", 20]),
        (True, ["--max-seconds", 0.3, "--pacing", "none", "--duration", 20]),
        (True, ["--max-seconds", 0.3, "--pacing", "none", "--requests", 10**9]),
        (False, ["--max-seconds", 20, "--duration", 0.3]),
        (False, ["--max-seconds", 20, "--pacing", "none", "--duration", 0.3]),
        (False, ["--max-seconds", 20, "--pacing", "none", "--duration", 0.3, "--requests", 10**9]),
        (False, ["--max-seconds", 20, "--requests", 100]),
        (False, ["--requests", 100]),
    ],
)
def test_a_test_is_cut_off_only_by_max_seconds(solotest, filled, cut_off, extra):
    report = solotest.run("--json", *extra, "test", filled.port, 100, 1000, 0, 1000).json
    assert report["error"] is None and report["test"]["cut_off"] is cut_off


def test_ping_only_looks(solotest, filled):
    result = solotest.run("--json", "ping", filled.port)
    assert result.code == 0 and result.json["test"] is None and result.json["fill"] is None
    assert result.json["server_before"]["dbsize"] == 1000
    assert solotest.run("ping", filled.port).code == 0
    assert solotest.run("ping", 1).code == 3
