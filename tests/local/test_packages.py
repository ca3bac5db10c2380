# SPDX-License-Identifier: GPL-3.0-or-later
"""The role packages on a host without package lists, with the real apt and a repository of one package."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess

import pytest

from .conftest import LocalFleet, write_inventory
from .other_host import bare_package_manager, python_with_mounts

PACKAGE = "memstretch-nothing"
CONTROL = f"""Package: {PACKAGE}
Version: 1
Architecture: all
Maintainer: nobody <nobody@example.com>
Description: a package with one file in /opt
"""


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a repository of one package, which apt trusts."""
    content, repository = tmp_path / "content", tmp_path / "repository"
    (content / "DEBIAN").mkdir(parents=True)
    (content / "opt").mkdir()
    (content / "opt" / PACKAGE).touch()
    (content / "DEBIAN" / "control").write_text(CONTROL, encoding="utf-8")
    repository.mkdir()
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", content, repository / "nothing.deb"], check=True)
    archive = (repository / "nothing.deb").read_bytes()
    digest = hashlib.sha256(archive).hexdigest()
    packages = f"{CONTROL}Filename: ./nothing.deb\nSize: {len(archive)}\nSHA256: {digest}\n"
    (repository / "Packages").write_text(packages, encoding="utf-8")
    return repository


@pytest.mark.usefixtures("needs_root")
def test_a_package_is_installed_without_package_lists_and_not_looked_up_again(
    fleet: LocalFleet, repository: pathlib.Path
) -> None:
    host = fleet.path / "host"
    mounts = bare_package_manager(host, f"deb [trusted=yes] file:{repository} ./\n")
    python = python_with_mounts(fleet.path / "python", mounts)
    hosts = {"bare": {"ansible_python_interpreter": python, "ansible_remote_tmp": str(fleet.path / "tmp")}}
    inventory = write_inventory(fleet.path / "hosts.yml", {"fleet": {"hosts": hosts}})
    tasks = [
        {
            "ansible.builtin.include_role": {"name": "memstretch.density.packages"},
            "vars": {"packages_names": [PACKAGE]},
        },
        {"ansible.builtin.debug": {"msg": "missing: {{ packages_were_missing }}"}},
    ]
    playbook = fleet.custom_playbook(tasks)
    lists = host / "var/lib/apt/lists"

    checked = fleet.run_playbook("--check", playbook=playbook, inventory=inventory)
    assert checked.status == 0 and f"{PACKAGE} would be installed" in checked.output, checked.output
    assert "changed=1" in checked.output and "missing: True" in checked.output, checked.output
    assert not [each for each in lists.iterdir() if each.name.endswith("Packages")]

    installed = fleet.run_playbook(playbook=playbook, inventory=inventory)
    assert installed.status == 0 and "changed=1" in installed.output, installed.output
    assert (host / "opt" / PACKAGE).exists()

    (repository / "Packages").unlink()  # the mirror is gone
    again = fleet.run_playbook(playbook=playbook, inventory=inventory)
    assert again.status == 0 and "changed=0" in again.output and "missing: False" in again.output, again.output


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
