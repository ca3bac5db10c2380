# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
import re

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.solotest.options import (
    FLAGS,
    OPTIONS,
    POSITIONAL,
    cpu_choice,
)

CLIENT = (pathlib.Path(__file__).resolve().parents[5] / "files" / "solotest" / "options.c").read_text(encoding="utf-8")
# Long options of the client that no option of the module becomes one to one.
OTHERS = {
    "--password-file",  # the module passes the password in the environment
    "--tls",
    "--insecure",
    "--cpu",
    "--realtime",  # the client takes it by itself where it may, and the module does not offer to refuse it
    "--protect",
    "--json",
    "--connect-timeout",
    "--schedule",
    "--windows",
    "--lease",
    "--progress",
    "--help",
    "--version",
}
KINDS = {"TEXT": ("str", "path"), "CHOICE": ("str",), "INTEGER": ("int",), "REAL": ("float",)}
# The client gives up sooner, since a person waits for it.
OTHER_DEFAULTS = {"reply_timeout"}


def client_options():
    """Return the client's macro and field of each of its options: its long options, and the positional ones."""
    found = re.findall(r'^ +(FLAG|TEXT|CHOICE|INTEGER|REAL)\("([^"]+)", (\w+)', CLIENT, re.MULTILINE)
    return {name: (macro, field) for macro, name, field in found}


def client_defaults():
    """Return the client's numbers that are used without an option; -1 marks those that have none."""
    table = CLIENT[CLIENT.index("default_settings = {") : CLIENT.index("};")]
    return {name: float(value) for name, value in re.findall(r"\.(\w+) = (-?[\d.]+),", table)}


def test_each_long_option_of_the_client_is_in_the_table_or_known_to_be_left_out():
    named = {name for name in client_options() if name.startswith("--")}

    assert named == set(FLAGS.values()) | OTHERS
    assert len(set(FLAGS.values())) == len(FLAGS)


def test_positional_options_are_in_the_clients_order():
    fields = [field for name, (_macro, field) in client_options().items() if not name.startswith("--")]

    assert fields == ["mode", *POSITIONAL]


@pytest.mark.parametrize("name", FLAGS)
def test_an_option_has_the_clients_type(name):
    macro, _field = client_options()[FLAGS[name]]

    assert OPTIONS[name].kind in KINDS[macro]


@pytest.mark.parametrize("name", ["arrivals", "pacing", "pattern"])
def test_an_option_has_the_clients_choices_and_the_first_as_default(name):
    (words,) = re.findall(rf"{name}_names\[\] = {{(.*), NULL}}", CLIENT)

    assert OPTIONS[name].choices == tuple(word.strip('" ') for word in words.split(","))
    assert OPTIONS[name].default == OPTIONS[name].choices[0]


@pytest.mark.parametrize(
    "name", [name for name, option in OPTIONS.items() if option.allowed and name not in OTHER_DEFAULTS]
)
def test_an_option_has_the_clients_default(name):
    field = name if name in POSITIONAL else client_options()[FLAGS[name]][1]
    # What the client's table leaves out is 0 in C.
    theirs = client_defaults().get(field, 0)
    ours = OPTIONS[name].default

    assert theirs == (-1 if ours is None else ours)


@pytest.mark.parametrize(
    "value, expected", [(None, "any"), ("", "any"), ("any", "any"), ("own", "own"), ("3", 3), (3, 3), (1023, 1023)]
)
def test_cpu_choices(value, expected):
    assert cpu_choice("cpu", value) == expected


@pytest.mark.parametrize("value", ["beside", -1, 1024, "0-3", True, 1.5, []])
def test_cpu_choices_that_are_refused(value):
    with pytest.raises(
        SettingError,
        match="latency_benchmark_cpu: .* it must be any, beside_redis, own or a whole number from 0 to 1,023",
    ):
        cpu_choice("latency_benchmark_cpu", value)
