# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of the pages work as they are printed.

Commands that need a fleet are played as syntax checks, with the inventories that the page itself shows, in a directory
that looks like a checkout. The words of those that need the network are compared with galaxy.yml.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import typing as t

import pytest
import yaml
from ansible.cli.playbook import PlaybookCLI
from ansible.parsing.splitter import parse_kv

from ansible_collections.memstretch.density.tests.unit.fixtures.pages import PAGES, ROOT, Block, blocks, name, prose

ANSIBLE_PLAYBOOK = pathlib.Path(sys.executable).parent / "ansible-playbook"
GALAXY = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
COLLECTION = f"{GALAXY['namespace']}.{GALAXY['name']}"
PROFILES = {path.stem for path in ROOT.glob("roles/host_tuning/profiles/*.yml")}

# Commands that are not played, and why.
LEFT_OUT = {
    "git tag --annotate v1.0.0 --message 'memstretch.density 1.0.0'": "changes the repository",
    "git push origin main v1.0.0": "needs the owner's rights",
    "ansible-galaxy collection build": "tests/sanity/galaxy.sh does it",
    "ansible-galaxy collection publish memstretch-density-1.0.0.tar.gz": "needs the API key of the namespace",
    "sudo install -m 644 results/latest/metrics.prom "
    "/var/lib/prometheus/node-exporter/memstretch.prom": "writes outside",
    "ansible-playbook -i hosts.yml -i '~/.local/share/memstretch/fleets/redis/inventory.yml' "
    "memstretch.density.benchmark": "the role writes that inventory",
    **{
        f"ansible-playbook -i hosts.yml -i '~/.local/share/memstretch/fleets/fleet/inventory.yml' {words}": "as above"
        for words in ("redis.yml", "memstretch.density.density -e profiles=dram,zram")
    },
    "ansible-navigator run benchmark.yml --execution-environment-image memstretch-density --mode stdout "
    "--inventory hosts.yml": "needs a container engine",
}
OF_ANSIBLE = {
    "ansible_become",
    "ansible_connection",
    "ansible_python_interpreter",
    "ansible_ssh_common_args",
    "ansible_user",
}
OPTIONS = {
    option: role.parent.parent.name
    for role in ROOT.glob("roles/*/meta/argument_specs.yml")
    for entry in yaml.safe_load(role.read_text(encoding="utf-8"))["argument_specs"].values()
    for option in entry.get("options", {})
}
ROLES = set(OPTIONS.values())
# Comments of a playbook do not read a variable.
READ_BY_PLAYBOOKS = {
    word
    for path in (ROOT / "playbooks").rglob("*.yml")
    for line in path.read_text(encoding="utf-8").splitlines()
    if not line.lstrip().startswith("#")
    for word in re.findall(r"\w+", line)
}
PLAYBOOKS = {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
MODULES = {path.stem for path in ROOT.glob("plugins/*/*.py")}
# Among them the facts that a role sets.
WORDS_OF_ROLES = {
    word for path in ROOT.glob("roles/*/*/*.yml") for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
}
CONSOLE = [block for page in PAGES for block in blocks(page, "console")]
YAML = [block for page in PAGES for block in blocks(page, "yaml")]


def simple_commands(block: Block) -> t.Iterator[list[str]]:
    """Return the commands of a block, each as its words."""
    for line in block.commands:
        words = shlex.split(line, comments=True)
        while "&&" in words:
            end = words.index("&&")
            yield words[:end]
            words = words[end + 1 :]
        yield words


def check_variables(names: t.Iterable[str]) -> None:
    unknown = set(names) - OPTIONS.keys() - READ_BY_PLAYBOOKS - OF_ANSIBLE
    assert not unknown, f"no role and no playbook knows {', '.join(sorted(unknown))}"


def of_a_role(variable: str) -> bool:
    return any(variable.startswith(f"{role}_") for role in ROLES)


class Reader:
    """Someone who types the commands of one page, in the current directory."""

    def __init__(self) -> None:
        self.syntax: dict[tuple[str, ...], set[str]] = {}  # playbooks by the inventories that they are started with
        for entry in ROOT.iterdir():
            if entry.name not in (".git", "inventories", "results"):
                pathlib.Path(entry.name).symlink_to(entry)
        shutil.copytree(ROOT / "inventories", "inventories")

    def save(self, block: Block) -> None:
        if block.file:
            pathlib.Path(block.file).write_text(block.text, encoding="utf-8")

    def type(self, words: list[str]) -> None:
        """Play a command."""
        if shlex.join(words) in LEFT_OUT:
            return
        program = pathlib.Path(words[0]).name
        if program == "sudo":
            words, program = words[1:], pathlib.Path(words[1]).name
        play = getattr(self, "play_" + program.replace("-", "_"), None)
        assert play, f"{program} is neither played nor left out with a reason"
        play(words[1:])

    def play_cd(self, arguments: list[str]) -> None:
        assert arguments == [GALAXY["repository"].rpartition("/")[2]]

    def play_git(self, arguments: list[str]) -> None:
        assert arguments == ["clone", GALAXY["repository"]]

    def play_ansible_galaxy(self, arguments: list[str]) -> None:
        assert arguments[:2] == ["collection", "install"] and arguments[2:] in (
            [COLLECTION],
            [f"git+{GALAXY['repository']}"],
        )

    def play_ansible_builder(self, arguments: list[str]) -> None:
        """Check the definition; tests/sanity/galaxy.sh builds a context with the same base image, and no image."""
        assert arguments[:2] == ["build", "--tag"] and arguments[3] == "--file", arguments
        definition = yaml.safe_load(pathlib.Path(arguments[4]).read_text(encoding="utf-8"))
        image = definition["images"]["base_image"]["name"]
        assert f"name: {image}\n" in (ROOT / "tests" / "sanity" / "galaxy.sh").read_text(encoding="utf-8")
        assert "fedora" in image or "centos" in image, "ansible-builder needs dnf"
        assert definition["dependencies"]["galaxy"]["collections"] == [COLLECTION]

    def play_ansible(self, arguments: list[str]) -> None:
        assert arguments[:3] == ["localhost", "-m", "ansible.builtin.debug"]
        program = pathlib.Path(sys.executable).parent / "ansible"
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        subprocess.run([program, *arguments], cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)

    def play_cp(self, arguments: list[str]) -> None:
        subprocess.run(["cp", *arguments], check=True)

    def play_export(self, arguments: list[str]) -> None:
        for assignment in arguments:
            variable, _equals, value = assignment.partition("=")
            assert value.startswith(COLLECTION + ".")
            plugin = (ROOT / "plugins" / "callback" / f"{value.rpartition('.')[2]}.py").read_text(encoding="utf-8")
            kind = {"ANSIBLE_CALLBACKS_ENABLED": "aggregate", "ANSIBLE_STDOUT_CALLBACK": "stdout"}[variable]
            assert f'CALLBACK_TYPE = "{kind}"' in plugin, f"{variable}: {value} is of another type"

    def play_make(self, arguments: list[str]) -> None:
        done = subprocess.run(["make", "--dry-run", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def play_ansible_playbook(self, arguments: list[str]) -> None:
        cli = PlaybookCLI(["ansible-playbook", *arguments])
        cli.init_parser()
        options = cli.parser.parse_args(arguments)
        for extra in options.extra_vars:
            self.check_extra(extra)
        inventories = tuple(options.inventory or ())
        missing = [path for path in inventories if not pathlib.Path(path).exists()]
        assert not missing, f"no inventory {', '.join(missing)} on the page"
        self.syntax.setdefault(inventories, set()).update(options.args)

    def check_extra(self, extra: str) -> None:
        """Check the variables of one option -e."""
        if extra.startswith("@"):
            variables = yaml.safe_load(pathlib.Path(extra[1:]).read_text(encoding="utf-8"))
        else:
            variables = json.loads(extra) if extra.startswith("{") else parse_kv(extra)
        check_variables(variables)
        named = {each for key in ("profile", "profiles") for each in variables.get(key, "dram").split(",")}
        assert named <= PROFILES, f"there is no profile {', '.join(sorted(named - PROFILES))}"

    def check_syntax(self) -> None:
        """Let ansible-playbook check each playbook with its inventories."""
        for inventories, playbooks in self.syntax.items():
            check_syntax(sorted(playbooks), *(word for path in inventories for word in ("-i", path)))


def check_syntax(playbooks: list[str], *options: str) -> None:
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FATAL": "true",
        "ANSIBLE_NOCOLOR": "true",
    }
    done = subprocess.run(
        [ANSIBLE_PLAYBOOK, "--syntax-check", *options, *playbooks],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("playbook: ") == len(playbooks), done.stdout


@pytest.mark.parametrize("page", sorted({block.page for block in CONSOLE}), ids=name)
def test_the_commands_of_a_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reader = Reader()
    for start in ("README.md", "docs/howto.md"):  # the inventories of a reader who comes from there
        for block in blocks(ROOT / start, "yaml"):
            reader.save(block)
    for block in blocks(page, "yaml", "console"):
        reader.save(block)
        if block.language == "console":
            for words in simple_commands(block):
                try:
                    reader.type(words)
                except (AssertionError, SystemExit, subprocess.CalledProcessError) as error:
                    pytest.fail(f"{block}: {shlex.join(words)}: {error}")
    reader.check_syntax()


@pytest.mark.parametrize(
    "command",
    [
        "nothing",
        "make nothing",
        "git clone https://example.com/nothing",
        "ansible-galaxy collection install nothing",
        "ansible-builder build --tag image --file nothing.yml",
        "export ANSIBLE_STDOUT_CALLBACK=memstretch.density.fleet_latency",
        "export ANSIBLE_STDOUT_CALLBACK=memstretch.density.nothing",
        "ansible-playbook playbooks/nothing.yml",
        "ansible-playbook -i nothing.yml site.yml",
        "ansible-playbook site.yml --nothing",
        "ansible-playbook site.yml -e nothing_at_all=1",
        "ansible-playbook site.yml -e profile=nothing",
    ],
)
def test_a_wrong_command_is_noticed(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reader = Reader()
    with pytest.raises((AssertionError, SystemExit, OSError)):
        reader.type(command.split())
        reader.check_syntax()


def test_nine_of_ten_commands_are_played():
    typed = [shlex.join(words) for block in CONSOLE for words in simple_commands(block)]
    left_out = [command for command in typed if command in LEFT_OUT]
    assert set(LEFT_OUT) == set(left_out), "a command is left out that no page has"
    assert len(left_out) <= len(typed) / 10, f"{len(left_out)} of {len(typed)} commands are left out"


def keys(document: t.Any) -> t.Iterator[tuple[str, str]]:
    """Return each key of a document, with the key that it is below."""
    if isinstance(document, list):
        for each in document:
            yield from keys(each)
    elif isinstance(document, dict):
        for key, value in document.items():
            yield from ((str(inner), outer or str(key)) for inner, outer in keys(value))
            yield str(key), ""


@pytest.mark.parametrize("block", YAML, ids=str)
def test_the_variables_of_a_block(block):
    found = list(keys(yaml.safe_load(block.text)))
    check_variables(key for key, above in found if above == "vars")
    check_variables(key for key, _above in found if of_a_role(key))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_variables_in_the_text(page):
    text = prose(page)
    named = {each for each in re.findall(r"`(\w+)(?:[:=][^`]*)?`", text) if of_a_role(each)}
    check_variables(named - WORDS_OF_ROLES - MODULES - ROLES)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_the_text_names_exists(page):
    text = prose(page)
    targets = set(re.findall(r"`(?:sudo )?make ([a-z-]+[a-z])\b", text))
    done = subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    playbooks = set(re.findall(r"\bplaybooks/(\w+)\.yml", text))
    assert playbooks <= PLAYBOOKS
    groups = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text(encoding="utf-8"))["action_groups"]
    named = set(re.findall(rf"\b{re.escape(COLLECTION)}\.([a-z_]+)", text))
    assert named <= PLAYBOOKS | ROLES | MODULES | groups.keys()


def test_the_playbooks_of_the_roles_pages(tmp_path, monkeypatch):
    """Blocks that are playbooks pass Ansible's syntax check: it knows their roles and modules."""
    monkeypatch.chdir(tmp_path)
    playbooks = []
    for number, block in enumerate(YAML):
        if isinstance(yaml.safe_load(block.text), list):
            playbooks.append(f"{number}.yml")
            pathlib.Path(playbooks[-1]).write_text(block.text, encoding="utf-8")
    assert len(playbooks) >= 10
    check_syntax(playbooks, "-i", "localhost,")


def test_every_playbook_works_by_its_name_in_the_collection():
    check_syntax([f"{COLLECTION}.{each}" for each in sorted(PLAYBOOKS)], "-i", str(ROOT / "inventories" / "example"))


@pytest.mark.parametrize(("option", "place"), [("--dry-run", ".build/dry-run"), ("--silent", ".build/lanes")])
def test_a_dry_run_of_lanes_leaves_what_is_known_of_real_ones_alone(option, place):
    """make runs lines that call make in a dry run, too: it said that each lane had passed."""
    command = ["make", option, "--no-print-directory", "-j2", "--eval=shown: ; @echo $(LANE_STATUS)", "shown"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert place in done.stdout.split()
