# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the reference of docs/playbooks.md from the playbooks.

python tools/playbook_reference.py [--check]

What a playbook does, an example and what it changes stand in the comment at its head. Its variables are those that its
expressions read, and those of the playbooks and tasks that it includes. A variable means what the option of a module
or role means that takes it; tools/reference_variables.yml has what no such option says.

The reference stands between "<!-- playbooks -->" and "<!-- end of playbooks -->". With --check nothing is written; the
exit status is 1 if the page would change.
"""

from __future__ import annotations

import argparse
import ast
import collections
import dataclasses
import functools
import pathlib
import re
import sys
import typing as t

import role_variables
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / ".ansible" / "collections"))
from ansible_collections.memstretch.density.plugins.plugin_utils.known_variables import USER_VARIABLES

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "playbooks.md"
PLAYBOOKS = ROOT / "playbooks"
BEGIN, END = "<!-- playbooks -->\n", "<!-- end of playbooks -->\n"
COLLECTION = "memstretch.density."
# A variable that so many playbooks read stands in the table for all of them. The demo is a density, and has the same.
SEVERAL = 3
# Keys whose text is an expression without braces.
CONDITIONS = ("when", "that", "failed_when", "changed_when", "until")
INCLUDES = re.compile(r"^ansible\.builtin\.(?:import_playbook|import_tasks|include_tasks)$")
ROLE_CALL = re.compile(r"^ansible\.builtin\.(?:import_role|include_role)$")
# What a playbook that imports another one sets, to choose what it does.
CHOICE = re.compile(r"\b(\w+) \| default\('(\w+)'\) (?:in \[([^]]*)\]|== '(\w+)')")
BY_DEFAULT = re.compile(r" By default ([\d.]+[KMGT]?)\.(?= |$)")
# A document of YAML, or a part of one.
Node = t.Any


def described() -> dict[str, dict[str, str]]:
    """Return what is said of variables here, where no option says it."""
    return yaml.safe_load((ROOT / "tools" / "reference_variables.yml").read_text(encoding="utf-8"))


def _string(path: pathlib.Path, name: str) -> str:
    """Return the text that a source file assigns to a name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return str(ast.literal_eval(node.value))
    raise ValueError(f"{path} assigns nothing to {name}")


@functools.cache
def of_module(module: str) -> dict[str, Node]:
    """Return the documentation of the options of a module."""
    documentation = yaml.safe_load(_string(ROOT / "plugins" / "modules" / f"{module}.py", "DOCUMENTATION"))
    options = dict(documentation.get("options") or {})
    for fragment in documentation.get("extends_documentation_fragment", []):
        path = ROOT / "plugins" / "doc_fragments" / f"{fragment.rpartition('.')[2]}.py"
        if fragment.startswith(COLLECTION):
            options.update(yaml.safe_load(_string(path, "DOCUMENTATION")).get("options") or {})
    return options


@functools.cache
def of_roles() -> dict[str, Node]:
    """Return the specifications of the options of all roles."""
    found: dict[str, Node] = {}
    for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml")):
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            for name, option in (entry.get("options") or {}).items():
                found.setdefault(name, option)
    return found


def words(text: str) -> list[str]:
    """Return the names in an expression, in their order. Texts, attributes and filters are none."""
    text = re.sub(r"'[^']*'", "''", text)
    return re.findall(r"(?<![\w.])(?<!\| )[a-z_]\w*(?![\w(])(?!=[^=])", text)


def expressions(text: str) -> str:
    """Return what stands between braces in a text."""
    return " ".join(re.findall(r"{{(.*?)}}", text, re.DOTALL))


@dataclasses.dataclass(eq=False)
class Option:
    """An option that takes a variable.

    Attributes:
        option: its documentation.
        expression: what the playbook passes to it.
        names: the variables that the other options of the same call take.
    """

    option: Node
    expression: str
    names: dict[str, str]


@dataclasses.dataclass(eq=False)
class Playbook:
    """What a playbook reads, with all that it includes.

    Attributes:
        name: of its file.
        read: the variables.
        own: the names in the expressions of the file itself.
        taken: the options that take a variable, the first one that was found first.
        roles: the roles that it calls.
        imported: the playbooks for users that it imports.
    """

    name: str
    read: set[str] = dataclasses.field(default_factory=set)
    own: set[str] = dataclasses.field(default_factory=set)
    taken: dict[str, list[Option]] = dataclasses.field(default_factory=lambda: collections.defaultdict(list))
    roles: set[str] = dataclasses.field(default_factory=set)
    imported: list[Playbook] = dataclasses.field(default_factory=list)
    _aliases: dict[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, path: pathlib.Path) -> Playbook:
        """Read a playbook and all that it includes."""
        book = cls(path.stem)
        book._file(path, {}, own=True)
        # What a role's option says counts here only where the file itself reads the variable.
        book.read |= {name for name in book.own if name in of_roles()}
        return book

    def _file(self, path: pathlib.Path, given: dict[str, Node], own: bool = False) -> None:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        found: set[str] = set()
        self._walk(document, path, given, found)
        known = USER_VARIABLES | described().keys()
        self.read |= {name for name in found if name in known} - given.keys()
        if own:
            self.own = found - _set_by(document)

    def _walk(self, node: Node, path: pathlib.Path, given: dict[str, Node], found: set[str], key: str = "") -> None:
        """Collect the names that a document reads, the options that take variables, and what the document includes.

        Args:
            node: the document, or a part of it.
            path: of the document.
            given: variables that the including playbook sets, so that they are not the user's.
            found: gets the names.
            key: what the node is the value of.
        """
        if isinstance(node, str):
            found.update(words(node if key in CONDITIONS else expressions(node)))
        elif isinstance(node, list):
            for each in node:
                self._walk(each, path, given, found, key)
        elif isinstance(node, dict) and not _is_left_out(node, given):
            for inner, value in (node.get("vars") or {}).items():
                names = self._users(str(value))
                if names and inner not in USER_VARIABLES:
                    self._aliases[inner] = names[0]
            self._options(node)
            for name, value in node.items():
                if INCLUDES.match(str(name)):
                    target = path.parent / (value if isinstance(value, str) else value["file"])
                    if target.parent == PLAYBOOKS:
                        self.imported.append(Playbook.of(target))
                    self._file(target, {**given, **(node.get("vars") or {})})
                elif ROLE_CALL.match(str(name)):
                    self.roles.add(value["name"].removeprefix(COLLECTION))
                elif name == "role":
                    self.roles.add(value.removeprefix(COLLECTION))
                self._walk(value, path, given, found, str(name))

    def _users(self, expression: str) -> list[str]:
        """Return the user's variables in an expression, also those behind a name that the playbook gives them."""
        names = words(expressions(expression))
        known = USER_VARIABLES | described().keys() | of_roles().keys()
        return [name for name in names if name in known] + [
            self._aliases[name] for name in names if name in self._aliases
        ]

    def _options(self, node: dict[str, Node]) -> None:
        """Note the options of modules and roles in a mapping that take a variable."""
        for name, value in node.items():
            if str(name).startswith(COLLECTION) and isinstance(value, dict):
                self._call(of_module(name.removeprefix(COLLECTION)), value)
        self._call(of_roles(), node)

    def _call(self, options: dict[str, Node], values: dict[str, Node]) -> None:
        names: dict[str, str] = {}
        for option, value in values.items():
            users = self._users(value) if option in options and isinstance(value, str) else []
            if users:
                names[option] = users[0]
                self.taken[users[0]].append(Option(options[option], value, names))


def _is_left_out(node: dict[str, Node], given: dict[str, Node]) -> bool:
    """Check whether a play or task is not for the importing playbook, by what that sets, such as check_of."""
    conditions = f"{node.get('when', '')} {node.get('hosts', '')}"
    for name, unset, several, one in CHOICE.findall(conditions):
        if given.get(name, unset) not in ([one] if one else re.findall(r"\w+", several)):
            return True
    return False


def _set_by(node: Node) -> set[str]:
    """Return the names that a document sets itself."""
    if isinstance(node, list):
        return set().union(*map(_set_by, node))
    if not isinstance(node, dict):
        return set()
    registered = {node["register"]} if isinstance(node.get("register"), str) else set()
    return set(node) | registered | set().union(*map(_set_by, node.values()))


def default(variable: str, taken: Option | None) -> str:
    """Return the default of a variable as Markdown: that of the playbook if it is a value, else that of the option."""
    here = described().get(variable, {})
    if "default" in here:
        return here["default"]
    if taken is None:
        return _value(role_variables.default(of_roles()[variable]))
    literal = re.search(rf"\b{variable} \| default\(('[^']*'|true|false|[\d.]+)(?:, true)?\)", taken.expression)
    if literal and literal[1] != "''":
        return f"`{literal[1].strip(chr(39))}`"
    by_default = BY_DEFAULT.search(_named(taken))
    if by_default:
        return f"`{by_default[1]}`"
    return _value(role_variables.default({name: taken.option[name] for name in ("default",) if name in taken.option}))


def _value(text: str) -> str:
    """Return a default as a user reads it: nothing, if it is an empty text or list."""
    return "" if text in ("`''`", "`[]`", "`{}`", "**required**") else text


def meaning(variable: str, taken: Option | None) -> str:
    """Return what a variable means, as Markdown. Options of the same call have the names of their variables."""
    here = described().get(variable, {})
    if "meaning" in here:
        return here["meaning"]
    if taken is None:
        return role_variables.meaning(of_roles()[variable])
    text = role_variables.meaning({**taken.option, "description": BY_DEFAULT.sub("", _named(taken))})
    return text[:1].upper() + text[1:]


def _named(taken: Option) -> str:
    """Return the description of an option, with the names of variables for those of options."""
    description = taken.option["description"]
    sentences = [description] if isinstance(description, str) else description
    found = []
    for sentence in sentences:
        # A condition on an option that the playbook sets itself is met.
        text = re.sub(
            r"With O\((\w+)=\w+\), ",
            lambda match: match[0] if match[1] in taken.names else "",
            " ".join(sentence.split()),
        )
        found.append(re.sub(r"\bO\((\w+)", lambda match: f"O({taken.names.get(match[1], match[1])}", text))
    return " ".join(found)


@dataclasses.dataclass(eq=False)
class Head:
    """The comment at the head of a playbook.

    Attributes:
        does: what it does.
        changes: what it changes.
        example: a command.
    """

    does: str
    changes: str
    example: str


def head(path: pathlib.Path) -> Head:
    """Return the comment at the head of a playbook. Raises ValueError if it does not say what the playbook changes."""
    lines = path.read_text(encoding="utf-8").partition("---\n")[2].splitlines()
    comment = []
    for line in lines:
        if not line.startswith("# "):
            break
        comment.append(line[2:])
    paragraphs = re.split(r" (?=(?:Example|Changes): )", " ".join(comment))
    named = {name: text for name, dummy, text in (each.partition(": ") for each in paragraphs[1:])}
    if not paragraphs[0] or "Changes" not in named:
        raise ValueError(f"{path}: its first comment must say what it does, and then after 'Changes: ' what it changes")
    example = named.get("Example", "")
    if not example or example.startswith("-"):
        example = f"ansible-playbook -i hosts.yml {COLLECTION}{path.stem} {example}".rstrip()
    return Head(_markdown(paragraphs[0]), _markdown(named["Changes"]), example)


def _markdown(text: str) -> str:
    """Return a comment with its names as code and its pages as links."""
    text = re.sub(r"(?<![\w/])(-e|vm\.dirty_bytes|[a-z]+(?:_\w+|=\w+))(?=[\s,.;:]|$)", r"`\1`", text)
    return re.sub(r"\bdocs/([\w-]+\.md)\b", r"[docs/\1](\1)", text)


def reference(books: t.Sequence[Playbook]) -> str:
    """Return the reference of playbooks."""
    counted = collections.Counter(name for book in books if book.name != "demo" for name in book.read)
    shared = sorted(name for name, count in counted.items() if count >= SEVERAL)
    heads = {book.name: head(PLAYBOOKS / f"{book.name}.yml") for book in books}
    lines = [f"| playbook, after `{COLLECTION}` | what it does | what it changes |", "| --- | --- | --- |"]
    for name, each in heads.items():
        first = re.split(r"(?<=\.) ", each.does)[0].rstrip(".")
        lines.append(f"| [`{name}`](#{name}) | {_cell(first)} | {_cell(each.changes.rstrip('.'))} |")
    lines += ["", "## Variables of several playbooks", ""]
    lines += ["| variable | default | meaning | playbooks |", "| --- | --- | --- | --- |"]
    for name in shared:
        readers = [book for book in books if name in book.read]
        taken = option(name, readers)
        cells = (f"`{name}`", default(name, taken), meaning(name, taken), _which(readers, books))
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    for book in books:
        lines += section(book, heads[book.name], shared, books)
    return "\n".join(lines) + "\n"


def _which(readers: t.Sequence[Playbook], books: t.Sequence[Playbook]) -> str:
    """Name the playbooks that read a variable, or the few that do not, without those that import one of them."""
    named, others = (
        [
            f"`{book.name}`"
            for book in books
            if (book in readers) is wanted and not _names(book.imported) & _names(readers)
        ]
        for wanted in (True, False)
    )
    return f"all but {', '.join(others)}" if len(others) < SEVERAL else ", ".join(named)


def _names(books: t.Iterable[Playbook]) -> set[str]:
    return {book.name for book in books}


def option(variable: str, books: t.Iterable[Playbook]) -> Option | None:
    """Return the option that takes a variable in the first of these playbooks that has one."""
    return next((book.taken[variable][0] for book in books if book.taken.get(variable)), None)


def section(book: Playbook, of: Head, shared: t.Sequence[str], books: t.Sequence[Playbook]) -> list[str]:
    """Return the section of one playbook."""
    lines = [
        "",
        f"## {book.name}",
        "",
        of.does,
        "",
        "```console",
        f"$ {of.example}",
        "```",
        "",
        f"Changes: {of.changes}",
    ]
    imported = set().union(*(each.read for each in book.imported))
    own = sorted(book.read - set(shared) - imported)
    if own:
        lines += ["", "| variable | default | meaning |", "| --- | --- | --- |"]
        for name in own:
            taken = option(name, [book, *books])
            cells = (f"`{name}`", default(name, taken), meaning(name, taken))
            lines.append(f"| {' | '.join(map(_cell, cells))} |")
    also = [f"`{name}`" for name in sorted(book.read & set(shared) - imported)]
    below = _names(each for direct in book.imported for each in direct.imported)
    more = [f"those of [`{each.name}`](#{each.name})" for each in book.imported if each.name not in below]
    more += [f"{', '.join(also)} ([above](#variables-of-several-playbooks))"] if also else []
    if book.roles:
        roles = ", ".join(f"[{role}](../roles/{role}/README.md)" for role in sorted(book.roles))
        more.append(f"those of the role{'s' if len(book.roles) > 1 else ''} {roles}")
    if more:
        lines += ["", f"{'Also' if own else 'Variables'}: {'; '.join(more)}."]
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def written(page: str, text: str) -> str:
    """Return the page with its reference replaced. Raises ValueError if the place of the reference is not marked."""
    before, found, rest = page.partition(BEGIN)
    dummy, closed, after = rest.partition(END)
    if not (found and closed):
        raise ValueError(f"no place between {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}{text}{END}{after}"


def playbooks() -> list[Playbook]:
    """Return all playbooks by name."""
    return [Playbook.of(path) for path in sorted(PLAYBOOKS.glob("*.yml"))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if the page would change")
    options = parser.parse_args()
    old = PAGE.read_text(encoding="utf-8")
    new = written(old, reference(playbooks()))
    if new == old:
        return 0
    if not options.check:
        PAGE.write_text(new, encoding="utf-8")
    print(f"{'Not up to date' if options.check else 'Written'}: {PAGE.relative_to(ROOT)}")
    return 1 if options.check else 0


if __name__ == "__main__":
    sys.exit(main())
