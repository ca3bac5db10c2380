# SPDX-License-Identifier: GPL-3.0-or-later
"""The role packages on a host without package lists, with the real apt and a repository of its own."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess

import pytest

from .conftest import LocalFleet, Outcome, write_inventory
from .other_host import bare_package_manager, python_with_mounts

PACKAGE, REPLACEMENT = "memstretch-nothing", "memstretch-instead-of-nothing"
CONTROL = """Package: {}
Version: 1
Architecture: all
Maintainer: nobody <nobody@example.com>
Description: a package with one file in /opt
"""
CONTROLS = {
    PACKAGE: CONTROL.format(PACKAGE),
    # As QEMU of Debian is to that of Proxmox VE.
    REPLACEMENT: CONTROL.format(REPLACEMENT) + f"Conflicts: {PACKAGE}\n",
}


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a repository of two packages, which apt trusts."""
    repository = tmp_path / "repository"
    repository.mkdir()
    index = []
    for name, control in CONTROLS.items():
        content, archive = tmp_path / name, repository / f"{name}.deb"
        (content / "DEBIAN").mkdir(parents=True)
        (content / "opt").mkdir()
        (content / "opt" / name).touch()
        (content / "DEBIAN" / "control").write_text(control, encoding="utf-8")
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", content, archive], check=True)
        data = archive.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        index.append(f"{control}Filename: ./{archive.name}\nSize: {len(data)}\nSHA256: {digest}\n")
    (repository / "Packages").write_text("\n".join(index), encoding="utf-8")
    return repository


@pytest.fixture
def host(fleet: LocalFleet, repository: pathlib.Path, needs_root: None) -> pathlib.Path:
    """Return the state of the host, which has no package lists, and which is the inventory of the fleet."""
    path = fleet.path / "host"
    mounts = bare_package_manager(path, f"deb [trusted=yes] file:{repository} ./\n")
    python = python_with_mounts(fleet.path / "python", mounts)
    variables = {"ansible_python_interpreter": python, "ansible_remote_tmp": str(fleet.path / "tmp")}
    write_inventory(fleet.path / "hosts.yml", {"fleet": {"hosts": {"bare": variables}}})
    return path


def install(fleet: LocalFleet, package: str, *arguments: str) -> Outcome:
    """Run the role for a package."""
    role = {"name": "memstretch.density.packages"}
    tasks = [
        {"ansible.builtin.include_role": role, "vars": {"packages_names": [package]}},
        {"ansible.builtin.debug": {"msg": "missing: {{ packages_were_missing }}"}},
    ]
    playbook = fleet.custom_playbook(tasks)
    return fleet.run_playbook(*arguments, playbook=playbook, inventory=fleet.path / "hosts.yml")


@pytest.mark.long
def test_a_package_is_installed_without_package_lists_and_not_looked_up_again(
    fleet: LocalFleet, repository: pathlib.Path, host: pathlib.Path
) -> None:
    lists = host / "var/lib/apt/lists"

    checked = install(fleet, PACKAGE, "--check")
    assert checked.status == 0 and f"{PACKAGE} would be installed" in checked.output, checked.output
    assert "changed=1" in checked.output and "missing: True" in checked.output, checked.output
    assert not [each for each in lists.iterdir() if each.name.endswith("Packages")]

    installed = install(fleet, PACKAGE)
    assert installed.status == 0 and "changed=1" in installed.output, installed.output
    assert (host / "opt" / PACKAGE).exists()

    (repository / "Packages").unlink()  # the mirror is gone
    again = install(fleet, PACKAGE)
    assert again.status == 0 and "changed=0" in again.output and "missing: False" in again.output, again.output


def test_no_package_of_the_host_is_removed_for_another(fleet: LocalFleet, host: pathlib.Path) -> None:
    there = install(fleet, PACKAGE)
    assert there.status == 0, there.output
    refused = install(fleet, REPLACEMENT)
    assert refused.status != 0 and "Packages need to be removed but remove is disabled" in refused.output, (
        refused.output
    )
    assert (host / "opt" / PACKAGE).exists() and not (host / "opt" / REPLACEMENT).exists()


@pytest.mark.long
@pytest.mark.usefixtures("needs_root")
def test_check_mode_predicts_without_python3_apt(fleet: LocalFleet) -> None:
    modules = pathlib.Path("/usr/lib/python3/dist-packages")
    nothing = fleet.path / "nothing"
    (nothing / "directory").mkdir(parents=True)
    (nothing / "file").touch()
    found = [*modules.glob("apt"), *modules.glob("apt_pkg.*.so")]
    assert len(found) == 2, "python3-apt is not installed"
    mounts = {str(each): nothing / ("directory" if each.is_dir() else "file") for each in found}
    python = python_with_mounts(fleet.path / "python", mounts)
    inventory = write_inventory(
        fleet.path / "hosts.yml", {"fleet": {"hosts": {"bare": {"ansible_python_interpreter": python}}}}
    )
    for packages, changed, told in (
        (["bash", "coreutils"], 0, "missing: False"),
        (["bash", PACKAGE], 1, "missing: True"),
    ):
        tasks = [
            {
                "ansible.builtin.include_role": {"name": "memstretch.density.packages"},
                "vars": {"packages_names": packages},
            },
            {"ansible.builtin.debug": {"msg": "missing: {{ packages_were_missing }}"}},
        ]
        checked = fleet.run_playbook("--check", playbook=fleet.custom_playbook(tasks), inventory=inventory)
        assert checked.status == 0 and f"changed={changed} " in checked.output and told in checked.output, (
            checked.output
        )
    absent = {"redis_state": "absent", "redis_remove_package": True, "redis_directory": str(fleet.path / "redis")}
    for package, changed in (("redis-server", 1), (PACKAGE, 0)):
        role = {"name": "memstretch.density.redis"}
        tasks = [{"ansible.builtin.include_role": role, "vars": {**absent, "redis_package": package}}]
        checked = fleet.run_playbook("--check", playbook=fleet.custom_playbook(tasks), inventory=inventory)
        assert checked.status == 0 and f"changed={changed} " in checked.output, checked.output
