# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import platform
import re
import subprocess
import tarfile

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.program import (
    BUILDS,
    Answer,
    Program,
    ProgramError,
    content_digest,
    read_answer,
    sources,
)


def test_a_digest_changes_with_names_order_and_content(tmp_path):
    (tmp_path / "part").mkdir()
    for name, text in (("a.c", "int a;"), ("b.c", "int b;"), ("part/a.c", "int a;")):
        (tmp_path / name).write_text(text, encoding="utf-8")

    def digest(*names):
        return content_digest(names, str(tmp_path))

    first = digest("a.c", "b.c")
    assert re.fullmatch("[0-9a-f]{12}", first) and first == digest("a.c", "b.c")
    assert len({first, digest("b.c", "a.c"), digest("part/a.c", "b.c"), digest("a.c")}) == 4
    (tmp_path / "b.c").write_text("int b;\n", encoding="utf-8")
    assert digest("a.c", "b.c") != first


def test_a_missing_source_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent.c"):
        content_digest(["absent.c"], str(tmp_path))


def test_the_sources_of_a_program_are_listed():
    assert sources("membw")[0] == "membw.c"
    found = sources("solotest")
    assert found[0] == "solotest.c" and len(found) > 3
    assert all(each.startswith("solotest/") and each.endswith((".c", ".h")) for each in found[1:])
    assert found[1:] == sorted(found[1:])


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program that prints its version, in a collection of its own."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "membw.c").write_text(
        '#include <stdio.h>\nint main(void) { puts("membw 1"); return 0; }\n', encoding="utf-8"
    )
    monkeypatch.setattr(
        "ansible_collections.memstretch.density.plugins.plugin_utils.program.FILES", f"{tmp_path}/files"
    )
    monkeypatch.setitem(BUILDS, "membw", BUILDS["membw"]._replace(libraries=()))
    return Program("membw", "0123456789ab")


def run(script, **environment):
    return subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    ).stdout


def test_a_program_is_built_once_and_installed(program, tmp_path):
    here = tmp_path / "cache" / program.file(platform.machine())
    program.build_here(str(here))
    assert [each.name for each in here.parent.iterdir()] == [here.name], "no part is left"
    first = here.stat().st_mtime_ns
    program.build_here(str(here))
    assert here.stat().st_mtime_ns == first
    place = tmp_path / "it's here"
    assert read_answer(run(program.look_script(str(place)))).state == "absent"
    installed = read_answer(run(program.install_script(str(place), str(here))))
    assert installed == Answer("found", platform.machine(), str(place / here.name), "membw 1")
    assert (place / here.name).stat().st_mode & 0o777 == 0o755
    assert [each.name for each in place.iterdir()] == [here.name]
    assert read_answer("Welcome to\nthe machine " + run(program.look_script(str(place)))) == installed


def test_a_tilde_is_the_home_directory_of_the_host(program, tmp_path):
    found = read_answer(run(program.look_script("~/programs"), HOME=str(tmp_path)))
    assert found.path == f"{tmp_path}/programs/{program.file(platform.machine())}"


def test_a_host_builds_it_from_an_archive(program, tmp_path):
    archive = tmp_path / "unpacked" / "sources.tar"
    archive.parent.mkdir()
    with tarfile.open(archive, "w") as file:
        file.add(tmp_path / "files" / "membw.c", "membw.c")
    built = read_answer(run(program.build_script(f"{tmp_path}/bin", str(archive))))
    assert built.state == "found" and built.said == "membw 1", built


def test_what_cannot_be_put_there_or_started_is_told_apart(program, tmp_path):
    (tmp_path / "file").touch()
    failed = read_answer(run(program.install_script(f"{tmp_path}/file", "/dev/null")))
    assert failed.state == "failed" and "File exists" in failed.said
    (tmp_path / "text").write_text("#!/bin/sh\necho no library; exit 3\n", encoding="utf-8")
    broken = read_answer(run(program.install_script(f"{tmp_path}/bin", f"{tmp_path}/text")))
    assert broken.state == "broken" and broken.said == "no library"
    absent = read_answer(run(program.install_script(f"{tmp_path}/bin", f"{tmp_path}/nothing")))
    assert absent.state == "failed" and "nothing" in absent.said
    assert len(list((tmp_path / "bin").iterdir())) == 1, "no part is left"


def test_sources_that_do_not_compile_are_refused_with_the_compilers_words(program, tmp_path):
    (tmp_path / "files" / "membw.c").write_text("int main(void) { return nonsense; }\n", encoding="utf-8")
    with pytest.raises(ProgramError, match="(?s)cannot build membw.*libnuma-dev.*nonsense"):
        program.build_here(str(tmp_path / "cache" / "membw"))
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_missing_compiler_and_a_directory_that_cannot_be_made_are_named(program, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(ProgramError, match=f"cannot build membw in {tmp_path}/file"):
        program.build_here(f"{tmp_path}/file/membw")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProgramError, match="'cc'; the controller needs a C compiler"):
        program.build_here(f"{tmp_path}/cache/membw")


@pytest.mark.parametrize(
    "line",
    [
        "memstretch-program found x86_64 relative/path",
        "memstretch-program found ../../etc /a",
        "memstretch-program found x86_64 /a\x1b[2J",
        f"memstretch-program found {'x' * 33} /a",
        "memstretch-program gone x86_64 /a",
        "",
    ],
)
def test_what_no_host_would_answer_is_no_answer(line):
    assert read_answer(line + "\n") is None
