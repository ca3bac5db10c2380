# SPDX-License-Identifier: GPL-3.0-or-later
"""Links between the pages, and from them to other files of the repository, lead somewhere."""

from __future__ import annotations

import fnmatch
import re

import pytest
import yaml

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


def is_shipped(path, ignored):
    """Check whether a file or directory of the repository is in what Galaxy gives its users."""
    parts = path.parts
    return not any(
        fnmatch.fnmatch("/".join(parts[:length]), pattern) for pattern in ignored for length in range(1, len(parts) + 1)
    )


def test_no_relative_link_of_a_shipped_page_leads_to_what_is_not_shipped():
    ignored = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["build_ignore"]
    shipped = [page for page in PAGES if is_shipped(page.relative_to(ROOT), ignored)]
    found = {
        f"{name(page)}: {link}"
        for page in shipped
        for link in LINK.findall(prose(page))
        if link.partition("#")[0]
        and not is_shipped((page.parent / link.partition("#")[0]).resolve().relative_to(ROOT), ignored)
    }
    assert len(shipped) > 30 and found == set()
    assert not is_shipped((ROOT / "tests/unit").relative_to(ROOT), ignored)


def test_the_readme_has_no_relative_link():
    text = prose(ROOT / "README.md")
    assert not LINK.findall(text) and len(ABSOLUTE.findall(text)) > 20


def test_a_dead_link_is_noticed():
    (readme,) = (page for page in PAGES if name(page) == "README.md")
    assert dead(readme, "docs/nothing.md") and dead(readme, "docs/howto.md#nothing") and dead(readme, "#nothing")
    assert not dead(readme, "docs/howto.md#tune-a-host-and-restore-it")
