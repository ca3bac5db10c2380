# SPDX-License-Identifier: GPL-3.0-or-later
"""Links between the pages, and from them to other files of the repository, lead somewhere."""

from __future__ import annotations

import re

import pytest

from ansible_collections.memstretch.density.tests.unit.fixtures.pages import PAGES, ROOT, name, prose

LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)\s]+)")
# Galaxy shows the README alone, so its links lead to the repository.
ABSOLUTE = re.compile(
    r"(?<=\]\()https://(?:github\.com/memstretch/density/blob|raw\.githubusercontent\.com/memstretch/density)/main/([^)\s]+)"
)


def anchors(page):
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead(page, link):
    path, _hash, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return not target.exists() or (anchor and (target.suffix != ".md" or anchor not in anchors(target)))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    assert not [link for link in LINK.findall(prose(page)) if dead(page, link)]
    assert not [link for link in ABSOLUTE.findall(prose(page)) if dead(ROOT / "README.md", link)]


def test_the_readme_has_no_relative_link():
    text = prose(ROOT / "README.md")
    assert not LINK.findall(text) and len(ABSOLUTE.findall(text)) > 20


def test_a_dead_link_is_noticed():
    (readme,) = (page for page in PAGES if name(page) == "README.md")
    assert dead(readme, "docs/nothing.md") and dead(readme, "docs/howto.md#nothing") and dead(readme, "#nothing")
    assert not dead(readme, "docs/howto.md#tune-a-host-and-restore-it")
