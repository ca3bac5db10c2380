# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet in which one Redis speaks nothing but TLS and demands a certificate, and another does not speak it."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from .conftest import ROOT, RedisServer


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    directory = tmp_path_factory.mktemp("keys")
    program = ROOT / "tests" / "programs" / "solotest" / "certificates.py"
    subprocess.run([sys.executable, program, directory], check=True)
    return directory


class SecretRedis(RedisServer):
    """A server without a port for plain connections."""

    keys: pathlib.Path

    def settings(self) -> list[str]:
        files = {"ca-cert": "ca.pem", "cert": "server.pem", "key": "server.key"}
        tls = [f"tls-{name}-file {self.keys / file}" for name, file in files.items()]
        return [*super().settings(), "port 0", f"tls-port {self.port}", *tls]


@pytest.mark.long
def test_a_fleet_with_and_without_tls(fleet, tmp_path, keys):
    SecretRedis.keys = keys
    fleet.servers["a"] = SecretRedis(tmp_path / "redis-a")
    fleet.add("b")
    of_a = {
        "tls": True,
        "ca_certs": str(keys / "ca.pem"),
        "client_cert_file": str(keys / "client.pem"),
        "client_key_file": str(keys / "client.key"),
        "tls_server_name": "redis.example",
    }
    for name, value in of_a.items():
        fleet.variables[f"latency_benchmark_{name}"] = f"{{{{ inventory_hostname == 'a' and '{value}' or '' }}}}"
    fleet.variables["latency_benchmark_tls"] = "{{ inventory_hostname == 'a' }}"
    # Directories of its own, so that both programs are built.
    fleet.variables["latency_benchmark_cache_directory"] = str(tmp_path / "cache")
    fleet.variables["latency_benchmark_client_directory"] = str(tmp_path / "client")

    refused = fleet.run_playbook("-e", f"latency_benchmark_ca_certs={keys / 'stranger.pem'}", "--limit", "a,localhost")
    assert refused.status != 0 and "the certificate of the server is not accepted" in refused.output, refused.output
    assert "are ca_certs, client_cert_file and tls_server_name right?" in refused.output and not fleet.results.exists()

    outcome = fleet.run_playbook()

    assert outcome.status == 0, outcome.output
    programs = sorted(path.name for path in (tmp_path / "cache" / "controller").iterdir())
    assert len(programs) == 2 and [name.startswith("solotest-tls-") for name in programs] == [True, False]
    run = fleet.document(outcome.run.name, "run")
    a, b = (f"127.0.0.1:{fleet.servers[name].port}" for name in "ab")
    assert run["hashed"]["fleet"] == {"a": f"rediss://{a}", "b": b}  # so a run without TLS has another hash
    hosts = outcome.phase(outcome.phase_files[-1])["hosts"]
    assert {name: host["settings"]["tls"] for name, host in hosts.items()} == {"a": True, "b": False}
