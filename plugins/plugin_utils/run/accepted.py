# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of values that the controller accepts from a host; anything else fails the host."""

from __future__ import annotations

import dataclasses
import re
import typing as t

# The longest message of a host that is shown and kept, in characters.
MAX_MESSAGE = 4000
# The only explanation of a module that did not even start.
_OUTPUTS = ("module_stderr", "module_stdout")

_MAX_COUNT = 2**63 - 1


class MeasurementError(ValueError):
    """A host returned something that is not a result. The text names the key, the value and what is allowed."""


class Kind:
    """What one value may be."""

    def check(self, name: str, value: t.Any) -> t.Any:
        """Return the accepted part of value.

        Args:
            name: the key with those above it, such as latency.response.count.

        Raises:
            MeasurementError: the value does not fit.
        """
        raise NotImplementedError


def refuse(name: str, value: t.Any, allowed: str) -> t.NoReturn:
    """Raise a MeasurementError that names the key, its value and what is allowed."""
    shown = repr(value[:40] if isinstance(value, (str, list)) else value)
    raise MeasurementError(f"{name} = {shown[:80]}; must be {allowed}")


@dataclasses.dataclass(frozen=True)
class Whole(Kind):
    """A whole number in a range."""

    low: int = 0
    high: int = _MAX_COUNT

    def check(self, name: str, value: t.Any) -> t.Any:
        if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
            refuse(name, value, f"a whole number from {self.low:,} to {self.high:,}")
        return value


@dataclasses.dataclass(frozen=True)
class Real(Kind):
    """A finite number in a range."""

    low: float = 0
    high: float = 1e18

    def check(self, name: str, value: t.Any) -> t.Any:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not self.low <= value <= self.high:
            refuse(name, value, f"a number from {self.low:,.15g} to {self.high:,.15g}")
        return value


@dataclasses.dataclass(frozen=True)
class Text(Kind):
    """A text without control characters, so that it is harmless on a terminal and in a file."""

    longest: int = 200

    def check(self, name: str, value: t.Any) -> t.Any:
        if not isinstance(value, str) or len(value) > self.longest or not value.isprintable():
            refuse(name, value, f"a printable text of at most {self.longest:,} characters")
        return value


class AbsolutePath(Kind):
    """A path that needs no directory to start from, and that no program takes for an option."""

    _TEXT = Text(4096)

    def check(self, name: str, value: t.Any) -> t.Any:
        if not self._TEXT.check(name, value).startswith("/"):
            refuse(name, value, "an absolute path")
        return value


@dataclasses.dataclass(frozen=True)
class Message(Kind):
    """A text for people, which is cut off and made printable."""

    def check(self, name: str, value: t.Any) -> t.Any:
        if not isinstance(value, str):
            refuse(name, value, "a text")
        return message(value)


class Flag(Kind):
    """True or false."""

    def check(self, name: str, value: t.Any) -> t.Any:
        if not isinstance(value, bool):
            refuse(name, value, "true or false")
        return value


@dataclasses.dataclass(frozen=True)
class OneOf(Kind):
    """One of some texts or numbers."""

    values: tuple[t.Any, ...]

    def check(self, name: str, value: t.Any) -> t.Any:
        if not isinstance(value, (str, int)) or isinstance(value, bool) or value not in self.values:
            refuse(name, value, f"one of {', '.join(map(str, self.values))}")
        return value


@dataclasses.dataclass(frozen=True)
class Optional(Kind):
    """A value, or null."""

    kind: Kind

    def check(self, name: str, value: t.Any) -> t.Any:
        return None if value is None else self.kind.check(name, value)


@dataclasses.dataclass(frozen=True)
class AnyOf(Kind):
    """A value of one of several kinds."""

    kinds: tuple[Kind, ...]

    def check(self, name: str, value: t.Any) -> t.Any:
        messages = []
        for kind in self.kinds:
            try:
                return kind.check(name, value)
            except MeasurementError as error:
                messages.append(str(error))
        raise MeasurementError(" or ".join(messages))


@dataclasses.dataclass(frozen=True)
class Listed(Kind):
    """A list with a limited number of values."""

    kind: Kind
    most: int
    least: int = 0

    def check(self, name: str, value: t.Any) -> t.Any:
        if not isinstance(value, list) or not self.least <= len(value) <= self.most:
            refuse(name, value, f"a list of {self.least:,} to {self.most:,} values")
        return [self.kind.check(f"{name}[{number}]", each) for number, each in enumerate(value)]


@dataclasses.dataclass(frozen=True)
class Row(Kind):
    """A list with one value of each kind."""

    kinds: tuple[Kind, ...]

    def check(self, name: str, value: t.Any) -> t.Any:
        if not isinstance(value, list) or len(value) != len(self.kinds):
            refuse(name, value, f"a list of {len(self.kinds)} values")
        return [kind.check(f"{name}[{number}]", each) for number, (kind, each) in enumerate(zip(self.kinds, value))]


@dataclasses.dataclass(frozen=True)
class Table(Kind):
    """A mapping whose keys differ from host to host, such as the names of disks."""

    kind: Kind
    most: int = 100

    def check(self, name: str, value: t.Any) -> t.Any:
        if not isinstance(value, dict) or len(value) > self.most:
            refuse(name, value, f"a mapping of at most {self.most:,} keys")
        for key in value:
            if not isinstance(key, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:!+-]{0,63}", key):
                raise MeasurementError(
                    f"{name} has the key {str(key)[:40]!r}; a key must be a name of at most 64 characters"
                )
        return {key: self.kind.check(f"{name}.{key}", each) for key, each in value.items()}


@dataclasses.dataclass(frozen=True)
class Fields(Kind):
    """A mapping with known keys. Other keys are dropped.

    Args:
        required: keys that must be there.
        known: further keys that may be there.
    """

    required: t.Mapping[str, Kind]
    known: t.Mapping[str, Kind] = dataclasses.field(default_factory=dict)

    def check(self, name: str, value: t.Any) -> t.Any:
        if not isinstance(value, dict):
            refuse(name, value, "a mapping")
        prefix = f"{name}." if name else ""
        for key in self.required:
            if key not in value:
                raise MeasurementError(f"{prefix}{key} is missing")
        kinds = {**self.known, **self.required}
        return {key: kind.check(prefix + key, value[key]) for key, kind in kinds.items() if key in value}


def message(text: t.Any, longest: int = MAX_MESSAGE) -> str:
    """Return a host's message, cut off if it is too long, without control characters.

    Its further lines are indented: no host can write a line that looks as if it came from this collection.
    """
    cut = text[:longest] if isinstance(text, str) else "it failed with a message that is not text"
    return "\n    ".join(_printable(line) for line in cut.split("\n"))


def plain(value: t.Any) -> t.Any:
    """Return a document of others with texts that do not steer a terminal: line breaks and tabs alone stay in them."""
    if isinstance(value, dict):
        return {_printable(str(key)): plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, str) or value.isprintable():
        return value
    return "\n".join(_printable(line, "\t") for line in value.split("\n"))


def _printable(text: str, also: str = "") -> str:
    return "".join(each if each.isprintable() or each in also else "?" for each in text)


def failure_message(answer: t.Mapping[str, t.Any], longest: int = MAX_MESSAGE) -> str:
    """Return the message of a module that failed."""
    return message(answer.get("msg", "failed without a message"), longest)


def outcome(answer: t.Any) -> dict[str, t.Any]:
    """Return how a module ended: whether it changed something, was skipped, or failed, and why.

    Raises:
        MeasurementError: no mapping was returned.
    """
    if not isinstance(answer, dict):
        refuse("the result", answer, "a mapping")
    found: dict[str, t.Any] = {"changed": answer.get("changed") is True}
    if answer.get("skipped") is True:
        found["skipped"] = True
    if answer.get("failed", False) is not False:
        found.update(failed=True, msg=failure_message(answer))
        found.update({name: message(answer[name]) for name in _OUTPUTS if answer.get(name)})
    return found


def unusable(error: MeasurementError) -> dict[str, t.Any]:
    """Return the failure of a host whose result does not fit."""
    return {"failed": True, "msg": f"the host's result cannot be used: {error}"}
