# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import json
import pathlib

import pytest
import yaml

from ansible_collections.memstretch.density.plugins.module_utils.host.memory import gather
from ansible_collections.memstretch.density.plugins.modules import selftest as selftest_module
from ansible_collections.memstretch.density.plugins.modules import selftest_record as record_module
from ansible_collections.memstretch.density.plugins.plugin_utils import selftest
from ansible_collections.memstretch.density.plugins.plugin_utils.controller import selftest_record as controller_module
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError

ALL = list(selftest.CHECKS)
ROLE = pathlib.Path(__file__).resolve().parents[4] / "roles" / "selftest"


def finding(result, reason="a reason", advice="", **found):
    return {"result": result, "reason": reason, "advice": advice, "found": found, "seconds": 0.0}


@pytest.fixture(scope="module")
def memory():
    """The real record of this machine."""
    return gather(lambda command, **_options: (1, "", ""))


@pytest.fixture
def host(memory):
    """A host whose checks have all passed."""
    os = {"id": "debian", "version": "12", "proxmox": "", "systemd": True}
    known = {"names": ["kvm01.example.com", "192.0.2.7"], "system": "Debian 12", "os": os, "programs": ["QEMU 7.2"]}
    return {
        "about": known,
        "before": copy.deepcopy(memory),
        "after": copy.deepcopy(memory),
        **{name: finding("passed") for name in ALL},
        "page_in": finding("passed", swap=None, drives=[]),
    }


def results(found, checks=tuple(ALL)):
    return {name: each["result"] for name, each in selftest.judge(found, checks).items()}


def test_findings_come_back_as_they_were_recorded(tmp_path):
    directory = RunDirectory.at(str(tmp_path))
    selftest.record(directory, "a/../b", "clock", finding("passed", offset_s=0.5))
    selftest.record(directory, "a", "clock", finding("failed"))
    selftest.record(directory, "a", "clock", finding("skipped"))
    assert len(list(tmp_path.iterdir())) == 2
    assert selftest.recorded(directory, "a/../b")["clock"]["found"] == {"offset_s": 0.5}
    assert selftest.recorded(directory, "a")["clock"]["result"] == "skipped"
    assert selftest.recorded(directory, "c") == {}
    with pytest.raises(RunError, match="about.*too large"):
        selftest.record(directory, "a", "about", {"programs": [0] * 200_000})


def keep(directory, result, **options):
    given = {"reason": "", "failure": None, "advice": "", "found": {}, **options}
    controller_module.work({"directory": str(directory), "host": "a", "name": "clock", "result": result, **given}, None)
    return selftest.recorded(RunDirectory.at(str(directory)), "a").get("clock")


def test_a_failure_replaces_the_result_and_keeps_the_figures_of_the_same_check(tmp_path, monkeypatch):
    clock = iter([100.0, 102.5, 103.0, 200.0, 201.0])
    monkeypatch.setattr(controller_module.time, "time", lambda: next(clock))
    assert keep(tmp_path, "begun") is None, "it has not ended"
    assert keep(tmp_path, "passed", reason="near", found={"offset_s": 9})["seconds"] == 2.5
    failed = keep(tmp_path, "failed", failure={"msg": "too far"}, found={"task": "Refuse"})
    assert (failed["result"], failed["reason"], failed["seconds"]) == ("failed", "too far", 3.0)
    assert failed["found"] == {"offset_s": 9, "task": "Refuse"}
    assert keep(tmp_path, "begun") is None
    again = keep(tmp_path, "failed", failure={"msg": "no answer"}, found={"task": "Compare"})
    assert again["found"] == {"task": "Compare"} and again["seconds"] == 1.0


def test_the_checks_of_a_host_are_judged_in_their_order(host):
    assert list(results(host)) == [*ALL, "put_back"]
    assert set(results(host).values()) == {"passed"}
    assert list(results(host, ["budget", "clock"])) == ["clock", "budget", "put_back"]


def test_a_failed_check_has_advice_and_leaves_the_others(host):
    host["budget"] = finding("failed", "no control group")
    host["kvm"] = finding("failed", "it hangs", "buy another")
    judged = selftest.judge(host, ALL)
    assert [name for name, each in judged.items() if each["result"] == "failed"] == ["kvm", "budget"]
    assert "hugepages" in judged["budget"]["advice"] and judged["kvm"]["advice"] == "buy another"
    assert selftest.failures({"kvm01": judged}) == ["kvm on kvm01", "budget on kvm01"]


def test_a_check_that_did_not_end_has_failed(host):
    del host["pressure"]
    judged = selftest.judge(host, ALL)
    assert judged["pressure"]["result"] == "failed" and "did not end" in judged["pressure"]["reason"]


@pytest.mark.parametrize("vm, expected", [("failed", "skipped"), ("skipped", "skipped"), ("passed", "failed")])
def test_guest_arguments_need_a_vm(host, vm, expected):
    host["vm"] = finding(vm)
    del host["guest_arguments"]
    assert results(host)["guest_arguments"] == expected


def test_a_host_that_never_answered_fails_once():
    judged = selftest.judge({}, ALL)
    (failure,) = selftest.failures({"kvm01": judged})
    assert failure.startswith("begin on kvm01 (the host did not answer; check that") and "builtin.ping" in failure
    assert {judged[name]["result"] for name in (*ALL, "put_back")} == {"skipped"}
    judged = selftest.judge({"begin": finding("failed", "no root", "become")}, ALL)
    assert judged["begin"]["reason"] == "no root" and judged["begin"]["advice"] == "become"


def test_a_host_that_answered_and_then_could_not_begin_fails_once(host):
    found = {name: host[name] for name in ("about", "before", "after")}
    judged = selftest.judge({**found, "begin": finding("failed", "/var/lib cannot be written")}, ALL)
    assert selftest.failures({"kvm01": judged}) == ["begin on kvm01 (/var/lib cannot be written)"]
    assert judged["clock"]["result"] == "skipped" and judged["put_back"]["result"] == "passed"


def test_settings_that_changed_are_named(host):
    host["after"]["sysctl"]["vm.swappiness"] = 7
    host["after"]["memory"]["available_bytes"] -= 1  # changes all the time
    before = host["before"]["sysctl"]["vm.swappiness"]
    judged = selftest.judge(host, ALL)["put_back"]
    assert judged["result"] == "failed" and judged["reason"] == f"sysctl.vm.swappiness was {before} and is 7"


def test_a_host_that_is_not_known_to_be_put_back_has_failed(host):
    del host["after"]
    assert results(host)["put_back"] == "failed"
    host["put_back"] = finding("failed", "the VM is still there")
    assert selftest.judge(host, ALL)["put_back"]["reason"] == "the VM is still there"
    host.update(after={}, before={})
    del host["put_back"]
    assert "cannot be compared" in selftest.judge(host, ALL)["put_back"]["reason"]


def test_check_mode_has_nothing_to_put_back(host):
    assert "put_back" not in selftest.judge(host, ALL, check_mode=True)


@pytest.fixture
def named(host):
    """Two hosts whose findings have names, addresses and serial numbers in them."""
    drive = {"path": "/dev/disk/by-id/nvme-X_S123", "serial": "S123", "model": "X", "against": ["is S123, in use"]}
    host["drives"] = finding("passed", drives=[drive], serials=["S123"])
    group = {"names": ["web-of-acme"], "kinds": ["UEFI"], "against": "", "summary": "web-of-acme | UEFI"}
    host["masters"] = finding("passed", masters=[group])
    host["clock"] = finding("failed", "kvm01 (192.0.2.7) is not kvm010; ask kvm01.example.com or 192.0.2.70, not kvm02")
    host["vm"] = finding("passed", "kvm01: 5 of 12", number=12)
    return {"kvm01": host, "kvm02": {}}


def test_names_addresses_and_serial_numbers_are_not_in_the_file(named):
    before = copy.deepcopy(named)
    made = selftest.document(named, ALL, False, {"collection": "1"})
    assert list(made["hosts"]) == ["host-1", "host-2"] and made["checks"] == ALL
    first = made["hosts"]["host-1"]["results"]
    assert first["clock"]["reason"] == "host-1 (host-1) is not kvm010; ask host-1 or 192.0.2.70, not host-2"
    assert first["drives"]["found"] == {
        "drives": [{"path": None, "serial": None, "summary": None, "model": "X", "against": ["is SERIAL, in use"]}]
    }
    assert first["vm"]["found"] == {"number": 12}
    text = json.dumps(made)
    assert not any(word in text for word in ("S123", "acme", "192.0.2.7 ", "example.com"))
    assert named == before


def test_the_file_and_the_text_have_the_seconds_of_each_check_and_of_all(host):
    for number, name in enumerate(ALL):
        host[name]["seconds"] = 0.5 + number
    host["kvm"]["result"] = "skipped"
    made = selftest.document({"kvm01": host}, ALL, True, {}, seconds=61.26)
    results_of_host = made["hosts"]["kvm01"]["results"]
    assert results_of_host["transport"]["seconds"] == 1.5
    assert made["hosts"]["kvm01"]["seconds"] == sum(0.5 + number for number in range(len(ALL)))
    assert made["seconds"] == 61.3
    text = selftest.lines("kvm01", host, selftest.judge(host, ALL))
    assert text[2].endswith("a reason (1.5 s)") and text[3].endswith("a reason")


@pytest.mark.parametrize("host_names", [False, True])
def test_paths_of_drives_that_were_read_are_hidden(host, host_names):
    drive = {"path": "/dev/disk/by-id/nvme-X_S123", "latency": {"p50_us": 80.0, "p99_us": 90.0}}
    host["page_in"] = finding("passed", swap=None, drives=[drive])
    made = selftest.document({"kvm01": host}, ALL, host_names, {})
    assert ("S123" in json.dumps(made)) == host_names
    assert made["hosts"][list(made["hosts"])[0]]["results"]["page_in"]["found"]["drives"][0]["latency"] == {
        "p50_us": 80.0,
        "p99_us": 90.0,
    }


def test_a_drive_is_named_by_its_place_because_its_path_has_its_serial_number(host):
    drives = [{"path": f"/dev/S{number}", "latency": {"p50_us": number, "p99_us": 9.5}} for number in (1, 2)]
    host["page_in"] = finding("passed", "", swap={"tier": "zram", "p50_us": 3.0, "p99_us": 4.0}, drives=drives)

    assert selftest.judge(host, ["page_in"])["page_in"]["reason"] == (
        "from swap (zram) p50 3.0, p99 4.0 us; from drive 1 of 2 p50 1, p99 9.5 us; from drive 2 of 2 p50 2, p99 9.5 us"
    )


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (None, ""),
        ({"msg": "no room"}, "no room"),
        ({"msg": "non-zero return code", "stderr": "mkswap: no"}, "non-zero return code: mkswap: no"),
        ({"rc": 1, "msg": "", "stderr": None}, "it gave no reason"),
    ],
)
def test_a_task_says_why_it_failed(failure, text):
    assert selftest.reason(failure) == text


def test_a_path_in_a_reason_is_hidden_too(host):
    host["profiles"] = finding("passed", profiles={"swap": "/dev/disk/by-id/nvme-X_S123-part1: is mounted"})
    made = selftest.document({"kvm01": host}, ALL, False, {})["hosts"]["host-1"]
    why = {each["what"]: each["why"] for each in made["works"]}["swap of the profile swap"]
    assert why == made["results"]["profiles"]["found"]["profiles"]["swap"] == "DRIVE: is mounted"


def test_names_stay_if_they_are_wanted(named):
    made = selftest.document(named, ALL, True, {})
    assert list(made["hosts"]) == ["kvm01", "kvm02"] and "web-of-acme" in json.dumps(made)
    assert made["hosts"]["kvm01"]["results"]["drives"]["found"]["drives"][0]["serial"] == "S123"


def test_the_file_has_the_machine_but_not_what_identifies_it(host):
    host["before"]["kernel"]["cmdline"] = "root=UUID=1234 secret=5"
    made = selftest.document({"kvm01": host}, ALL, True, {})["hosts"]["kvm01"]
    assert made["kernel"]["release"] == host["before"]["kernel"]["release"]
    assert made["programs"] == ["QEMU 7.2"] and made["memory"]["total_bytes"] > 0 and made["cpu"]["online"] > 0
    assert not {"cmdline", "boot_id", "machine"} & set(made["kernel"]) and "block_queues" not in made
    assert made["results"]["put_back"]["reason"] == "kernel.cmdline has changed"
    assert "secret=5" not in json.dumps(made)


@pytest.mark.parametrize(("online", "words"), [(1, ", 1 CPU ("), (2, ", 2 CPUs (")])
def test_the_text_counts_the_cpus(host, online, words):
    host["before"]["cpu"]["online"] = online
    assert words in selftest.lines("kvm01", host, selftest.judge(host, ALL))[0]


def test_the_text_shows_results_and_what_to_do(host):
    host["kvm"] = finding("skipped", "no /dev/kvm", "load kvm_intel", present=False)
    host["drives"] = finding("passed", drives=[{"against": [], "summary": "a | b"}])
    host["budget"] = finding("failed", "no control group")
    text = selftest.lines("kvm01", host, selftest.judge(host, ALL))
    assert text[0].startswith("Self-test of kvm01: Debian 12, Linux ") and "CPU" in text[0] and "iB" in text[0]
    assert text[1].split() == ["passed", "clock", "a", "reason"]
    assert text[3].split(None, 2) == ["skipped", "kvm", "no /dev/kvm"] and text[4].strip() == "-> load kvm_intel"
    assert any(line.startswith("  FAILED   budget") for line in text)
    assert text[-5:] == [
        "  Would not work here:",
        "    VMs under KVM: no /dev/kvm",
        "      -> load kvm_intel",
        "    a DRAM budget by a control group: no control group",
        "      -> " + selftest.CHECKS["budget"],
    ]
    assert selftest.lines("kvm02", {}, {})[0] == "Self-test of kvm02: unknown"


def test_role_and_modules_name_the_same_checks():
    specs = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]["main"]
    assert specs["options"]["selftest_checks"]["choices"] == specs["options"]["selftest_checks"]["default"] == ALL
    assert yaml.safe_load((ROLE / "defaults" / "main.yml").read_text(encoding="utf-8"))["selftest_checks"] == ALL
    for module, option, extra in (
        (selftest_module, "checks", []),
        (record_module, "name", list(selftest.NAMES[len(ALL) :])),
    ):
        assert yaml.safe_load(module.DOCUMENTATION)["options"][option]["choices"] == ALL + extra
    assert {path.stem for path in (ROLE / "tasks").glob("check_*.yml")} == {f"check_{name}" for name in ALL}


def test_each_drive_has_a_line_of_its_own(host):
    host["drives"] = finding("passed", "1 of 2 drives could hold swap", drives=[{"summary": "a | b"}, {"summary": "c"}])
    text = selftest.lines("kvm01", host, selftest.judge(host, ["drives"]))
    assert [line.strip() for line in text[2:4]] == ["a | b", "c"], text


def test_vms_that_are_alike_have_a_line(host):
    host["masters"] = finding(
        "passed", "1 of 2", masters=[{"names": ["a", "b"], "kinds": [], "against": "", "summary": "a, b | could be"}]
    )
    text = selftest.lines("kvm01", host, selftest.judge(host, ["masters"]))
    assert text[2].strip() == "a, b | could be", text
