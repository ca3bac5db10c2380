# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of docs/architecture.md, checked against the code."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
PAGE = ROOT / "docs" / "architecture.md"
OURS = "ansible_collections.memstretch.density.plugins."
UTILITIES = ("module_utils", "plugin_utils")
MOST_LINES = 600


def rules() -> dict[str, set[str]]:
    """Return from the page's table, for each package, what it may import."""
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        row = re.fullmatch(r"\| `((?:module|plugin)_utils/\w+)` \|.*?\|([^|]*)\|", line)
        if row:
            found[row[1]] = set(re.findall(r"`([\w/]+)`", row[2]))
    return found


def package(parts: list[str] | tuple[str, ...]) -> str:
    """Return the package that a path below plugins/ belongs to: "module_utils/swap", or the kind of plugin."""
    return "/".join(parts[:2]) if parts[0] in UTILITIES else parts[0]


def package_of(path: pathlib.Path) -> str:
    return package(path.relative_to(PLUGINS).with_suffix("").parts)


def sources() -> list[pathlib.Path]:
    return sorted(path for path in PLUGINS.rglob("*.py") if path.name != "__init__.py")


def imports(source: str) -> set[str]:
    """Return the packages of this collection, and the top-level names of all others, that a source imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and f"{node.module}.".startswith(OURS):
            base = node.module[len(OURS) :].split(".")
            found.update(package([*base, alias.name]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module if node.module.startswith("ansible.") else node.module.split(".")[0])
    return found


def used() -> dict[str, set[str]]:
    """Return, for each package, what it imports from the rest of the collection."""
    found: dict[str, set[str]] = {}
    for path in sources():
        mine = package_of(path)
        others = {each for each in imports(path.read_text(encoding="utf-8")) if (PLUGINS / each.split("/")[0]).is_dir()}
        found.setdefault(mine, set()).update(others - {mine})
    return found


def test_the_page_names_every_package_and_no_other():
    existing = {package_of(path) for path in sources() if package_of(path).split("/")[0] in UTILITIES}
    assert set(rules()) == existing


def test_packages_import_only_what_the_page_allows():
    allowed = rules()
    wrong = {name: extra for name, found in used().items() if name in allowed and (extra := found - allowed[name])}
    assert wrong == {}


def test_the_page_allows_no_circle():
    allowed, done = rules(), set()
    while left := set(allowed) - done:
        free = {name for name in left if allowed[name] <= done}
        assert free, f"these packages import each other: {sorted(left)}"
        done |= free


def test_modules_and_plugins_import_utilities_of_their_side_only():
    for name, found in used().items():
        if name == "modules":
            assert {each.split("/")[0] for each in found} == {"module_utils"}
        elif name in ("action", "callback", "filter", "lookup"):
            assert {each for each in found if not each.startswith("plugin_utils/")} <= {"module_utils/options"}, name


@pytest.mark.parametrize(
    "path", [path for path in sources() if "module_utils" in path.parts or "modules" in path.parts]
)
def test_code_for_hosts_needs_the_standard_library_only(path):
    """Except what a module looks for and reports if it is missing: libvirt's binding."""
    foreign = {
        name
        for name in imports(path.read_text(encoding="utf-8"))
        if not name.startswith(("ansible.module_utils", *UTILITIES)) and name not in sys.stdlib_module_names
    }
    assert foreign <= {"libvirt"}


def exists(base: pathlib.Path, name: str) -> bool:
    return any(next(base.glob(pattern), None) for pattern in (name.rstrip("/"), f"{name}.py"))


def test_the_places_that_the_page_names_exist():
    text = PAGE.read_text(encoding="utf-8")
    named = re.findall(r"`((?:plugins|roles|files|tests|module_utils|plugin_utils)/[\w./*-]+)`", text)
    assert len(named) > 40
    missing = [name for name in named if not any(exists(base, name) for base in (ROOT, PLUGINS))]
    assert missing == []


def tracked(*suffixes: str) -> list[str]:
    """Return the names of the files in the repository with one of these suffixes."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [name for name in listed.split("\0") if name.endswith(suffixes) and (ROOT / name).exists()]


def test_no_file_of_code_is_long():
    """membw.c may stay whole: its parts share what they hide."""
    code = tracked(".py", ".c", ".h", ".js", ".yml", ".j2")
    assert len(code) > 500
    lengths = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in code}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES and name != "files/membw.c"} == {}


def test_relative_links_of_all_pages_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "roles").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
        if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists()
    ]
    assert broken == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (f"from {OURS}module_utils.swap import guard", {"module_utils/swap"}),
        (f"from {OURS}module_utils.swap.guard import Guard", {"module_utils/swap"}),
        (f"from {OURS}plugin_utils import collection", {"plugin_utils/collection"}),
        (f"def late():\n    from {OURS}action.study import ActionModule", {"action"}),
        ("import os.path, libvirt", {"os", "libvirt"}),
        ("from ansible.module_utils.basic import AnsibleModule", {"ansible.module_utils.basic"}),
    ],
)
def test_an_import_is_found_however_it_is_written(source, found):
    assert imports(source) == found
