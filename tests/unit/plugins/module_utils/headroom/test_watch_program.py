# SPDX-License-Identifier: GPL-3.0-or-later
"""What the installed program writes and says, from recorded files and with a clock of the test."""

from __future__ import annotations

import json
import pathlib
import re

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from ansible_collections.memstretch.density.plugins.module_utils.headroom import watch_program as program
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import answer

DOCS = pathlib.Path(__file__).parents[5] / "docs"
NOW = 1_800_000_000.0


class Host:
    """A recorded tree of files."""

    def __init__(self, path):
        self.path, self.prom, self.state = path, path / "x.prom", path / "state.json"

    def set(self, some=0.0, page_ins=0, refaults=0):
        files = {
            "proc/pressure/memory": f"some avg10=9 avg60={some:.2f} total=1\nfull avg10=0 avg60=0 total=1\n",
            "proc/vmstat": f"pswpin {page_ins}\npgmajfault 3\nworkingset_refault_anon {refaults}\n",
            "proc/meminfo": "MemTotal: 1024 kB\nMemAvailable: 512 kB\n",
            "proc/swaps": "Filename Type Size Used Priority\n/dev/zram0 partition 100 50 5\n",
            "sys/block/zram0/mm_stat": "3000 900 1000 0\n",
        }
        for name, text in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def write(self, now=NOW):
        program.write(str(self.prom), str(self.path), str(self.state), now)
        return self.prom.read_text(encoding="utf-8")

    def check(self, now=NOW):
        return program.check(str(self.path), str(self.state), now)


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path)
    host.set()
    return host


def values(text):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_families(text)
        for sample in family.samples
    }


def test_the_metrics_are_those_of_the_host(host):
    host.write(NOW - 60)
    host.set(some=2.5, page_ins=600, refaults=120)
    logs = host.path / "sys/block/zram1/mm_stat"  # of a file system, which is no tier
    logs.parent.mkdir(parents=True)
    logs.write_text("90000 900 9000 0\n", encoding="utf-8")
    found = values(host.write())

    assert found["memstretch_headroom_page_ins_per_second",] == 10
    assert found["memstretch_headroom_refaults_per_second", "anon"] == 2
    assert found["memstretch_headroom_memory_waiting_ratio", "some"] == 0.025
    assert found["memstretch_headroom_verdict", "near"] == 1 and found["memstretch_headroom_verdict", "safe"] == 0
    assert found["memstretch_headroom_tier_used_bytes", "/dev/zram0"] == 51200
    assert found["memstretch_headroom_compression_ratio",] == 3
    assert found["memstretch_headroom_written_timestamp_seconds",] == NOW


def test_prometheus_reads_both_formats(host):
    text = host.write()
    assert text.endswith("# EOF\n")
    assert {family.name for family in open_metrics_families(text)} == {family.name for family in text_families(text)}


@pytest.mark.parametrize("later", [600, -5], ids=["after a pause", "after the clock was set back"])
def test_no_rate_is_made_up(host, later):
    host.write(NOW)
    assert ("memstretch_headroom_page_ins_per_second",) not in values(host.write(NOW + later))


def test_a_boot_is_no_negative_rate(host):
    host.set(page_ins=1000)
    host.write(NOW - 60)
    host.set(page_ins=10)
    assert ("memstretch_headroom_page_ins_per_second",) not in values(host.write())


def test_half_a_state_file_is_none(host):
    host.state.write_text('{"at": 1', encoding="utf-8")
    assert ("memstretch_headroom_page_ins_per_second",) not in values(host.write())


@pytest.mark.parametrize(
    ("some", "page_ins", "status", "words"),
    [
        (0, 0, 0, "MEMORY SAFE: some task waited for memory in 0 % of the last minute, 0 page-ins/s"),
        (1, 0, 1, "MEMORY NEAR: "),
        (0, 60_000, 1, "1,000 page-ins/s"),
        (10, 0, 2, "MEMORY OVER: some task waited for memory in 10 % of the last minute"),
    ],
)
def test_the_check_ends_with_the_status_of_nagios(host, capsys, some, page_ins, status, words):
    host.write(NOW - 60)
    host.set(some=some, page_ins=page_ins)
    host.write()

    assert host.check(NOW + 5) == status and words in capsys.readouterr().out


def test_a_link_of_the_exporters_user_leads_to_no_other_file(host):
    """The directory of the textfile collector belongs to the exporter's user, and the program is root's."""
    victim = host.path / "shadow"
    victim.write_text("root:secret", encoding="utf-8")
    victim.chmod(0o600)
    (host.path / "memstretch.prom.new").symlink_to(victim)
    program.replace(str(host.path / "memstretch.prom"), "metrics")
    assert victim.read_text(encoding="utf-8") == "root:secret" and victim.stat().st_mode & 0o777 == 0o600
    metrics = host.path / "memstretch.prom"
    assert metrics.read_text(encoding="utf-8") == "metrics" and not metrics.is_symlink()
    assert metrics.stat().st_mode & 0o777 == 0o644


def test_what_is_not_measured_is_unknown(host, capsys):
    assert host.check() == 3 and "memstretch-headroom.timer has not run" in capsys.readouterr().out
    host.write()
    (host.path / "proc/pressure/memory").unlink()
    assert host.check() == 3 and "does not measure memory pressure" in capsys.readouterr().out


def test_full_swap_is_no_reason(host):
    """Others alert on swap that is used; zram is meant to be."""
    (host.path / "proc/swaps").write_text("Filename\n/dev/zram0 partition 100 100 5\n", encoding="utf-8")
    host.write(NOW - 60)
    assert values(host.write())["memstretch_headroom_verdict", "safe"] == 1


def test_the_playbook_and_the_watch_have_the_same_limits():
    assert (program.NEAR_PRESSURE, program.OVER_PRESSURE) == (answer.NEAR_PRESSURE, answer.OVER_PRESSURE)


def expressions():
    rules = yaml.safe_load((DOCS / "headroom-alerts.yml").read_text(encoding="utf-8"))
    dashboard = json.loads((DOCS / "headroom-dashboard.json").read_text(encoding="utf-8"))
    found = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    return found + [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("expression", expressions())
def test_alerts_and_the_dashboard_use_existing_metrics(host, expression):
    host.write(NOW - 60)
    labels = {}
    for family in text_families(host.write()):
        for sample in family.samples:
            labels.setdefault(sample.name, {"instance"}).update(sample.labels)
    used = re.findall(r"(memstretch_\w+)\{([^}]*)\}", expression)
    assert len(used) == expression.count("memstretch_") > 0
    for name, selectors in used:
        assert set(re.findall(r"(\w+)=", selectors)) <= labels[name]


def test_no_alert_is_about_used_swap():
    rules = yaml.safe_load((DOCS / "headroom-alerts.yml").read_text(encoding="utf-8"))
    assert not any("tier" in rule["expr"] for group in rules["groups"] for rule in group["rules"])
