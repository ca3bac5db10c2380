# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels of several hosts as labels of their run."""

from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.run.host_labels import host_labels


def test_a_label_of_all_hosts_stands_once_and_alone():
    assert host_labels({"a": ["not tuned", "a reboot is due"], "b": ["a reboot is due", "not tuned"]}) == [
        "not tuned",
        "a reboot is due",
    ]
    assert host_labels({"a": ["not tuned", "not tuned"]}) == ["not tuned"]


def test_a_label_of_some_hosts_names_them():
    assert host_labels({"a": ["tuned"], "b": ["tuned", "a reboot is due"], "c": ["tuned"]}) == [
        "tuned",
        "b: a reboot is due",
    ]
    assert host_labels({"a": [], "b": ["not tuned"], "c": ["not tuned"]}) == ["b, c: not tuned"]


def test_of_many_hosts_three_are_named():
    many = {f"kvm{number:02}": ["not tuned"] for number in range(1, 21)}
    assert host_labels({**many, "kvm21": []}) == ["kvm01, kvm02, kvm03 and 17 more: not tuned"]


def test_no_hosts_have_no_labels():
    assert host_labels({}) == []
