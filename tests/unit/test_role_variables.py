# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of variables in the roles' READMEs are those of their argument specifications."""

from __future__ import annotations

import sys

import pytest

from ansible_collections.memstretch.density.tests.unit.fixtures.pages import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import role_variables

SPECIFIED = sorted(path.parent.parent for path in ROOT.glob("roles/*/meta/argument_specs.yml"))


@pytest.mark.parametrize("role", SPECIFIED, ids=lambda path: path.name)
def test_the_table_of_a_role_is_up_to_date(role):
    page = (role / "README.md").read_text(encoding="utf-8")
    assert role_variables.written(page, role_variables.table(role)) == page, "run: python tools/role_variables.py"


def test_every_role_has_a_specification():
    assert sorted(ROOT.glob("roles/*")) == SPECIFIED


def test_a_row_has_type_default_choices_and_no_markup(tmp_path):
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta" / "argument_specs.yml").write_text(
        """
argument_specs:
  verify:
    options:
      x_only: {description: "Only here, with a | in it.", type: bool, default: true}
  main:
    options:
      x_state: {description: ["V(a) does it.", "See M(a.b.c)."], choices: [a, b], default: a}
      x_list: {description: "Names, for example C(f(x\\\\)).", type: list, elements: str, required: true}
""",
        encoding="utf-8",
    )
    assert role_variables.table(tmp_path).splitlines()[2:] == [
        "| `x_state` | str | `a` | `a` does it. See `a.b.c`. One of `a`, `b`. |",
        "| `x_list` | list of str | **required** | Names, for example `f(x)`. |",
        "| `x_only` | bool | `true` | Only here, with a \\| in it. |",
    ]


def test_a_page_without_a_place_for_the_table_is_refused():
    with pytest.raises(ValueError, match="<!-- variables -->"):
        role_variables.written("# Role\n", "")
