# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the client's values with the memory of programs: how small LZ4 makes their pages, and how long it takes.

python tests/bench/values.py [--write]

Looks at anonymous pages of programs at work, which it starts, stops and ends; those that are not installed are left
out. Needs a C compiler and liblz4. With --write the figures go to docs/bench/short.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import pathlib
import random
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import typing as t

import machine
from one_redis import ROOT
from servers import FakeServer, good_reply, requests

PAGE = 4096
PAGES_OF_EACH = 500
# LZ4 saves two thirds of the sample's pages, so values of this compressibility are compared with it.
COMPRESSIBILITY = 0.666
# Values of this size lie in Redis as four in a page.
VALUE_SIZE, RUNS = 1024, 100
PATIENCE_S = 120
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)

_SQL = (
    "create table t(id integer primary key, name text, at real, note text); "
    "with recursive c(i) as (select 1 union all select i+1 from c where i<1500000) "
    "insert into t select i, 'customer '||i, julianday('now')+i/86400.0, hex(randomblob(12)) from c; "
    "with recursive c(i) as (select 1 union all select i+1 from c) select count(*) from c"
)
_NODE = (
    "const m=new Map(); for(let i=0;;i++) { "
    "m.set('user:'+i, {id:i, name:'name '+i, tags:['a'+i%7,'b'], at:new Date()}); "
    "if (m.size > 200000) m.delete('user:'+(i-200000)); }"
)
_PERL = (
    "my %h; for (my $i = 0; $i < 400000; $i++) { "
    '$h{"key$i"} = {id => $i, text => "line $i of the log ".($i*7919%1000)} } sleep 100'
)
_MYPY = (sys.executable, "-m", "mypy", "--cache-dir=/dev/null", "plugins/plugin_utils", "plugins/module_utils")
# Each with the MiB of anonymous memory at which it is looked at.
PROGRAMS: dict[str, tuple[int, tuple[str, ...]]] = {
    "mypy": (120, _MYPY),
    "gcc": (40, ("gcc", "-O2", "-c", "-x", "c", "-o", "/dev/null")),
    "go": (8, ("go", "build", "-a", "-p", "1", "-o", "/dev/null", "net/http")),
    "node": (150, ("node", "-e", _NODE)),
    "perl": (120, ("perl", "-e", _PERL)),
    "sqlite": (50, ("sqlite3", ":memory:", _SQL)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as directory:
        scratch = pathlib.Path(directory)
        sample = {
            name: pages_of_program(name, scratch) for name in PROGRAMS if shutil.which(PROGRAMS[name][1][0]) is not None
        }
        chance = random.Random(1)
        real = [page for pages in sample.values() for page in pages]
        chance.shuffle(real)
        made = pages_of_values()
        chance.shuffle(made)
        lines = list(table(*looked_at(real, made, scratch)))
    print("\n".join(lines))
    if options.write:
        machine.write_section(
            "values",
            "Values and the memory of programs",
            f"`tests/bench/values.py`, {datetime.date.today()}: {PAGES_OF_EACH} anonymous pages each of "
            f"{', '.join(sample)} at work, and pages of values of {VALUE_SIZE:,} bytes with compressibility "
            f"{COMPRESSIBILITY}. Pages of both kinds take turns; each time is the shortest of nine. LZ4 is that "
            f"of the system.\n\n{machine.describe(load)}" + "\n".join(lines),
        )


def pages_of_program(name: str, scratch: pathlib.Path) -> list[bytes]:
    """Start a program, stop it at work, and return some of its anonymous pages."""
    mib, command = PROGRAMS[name]
    source = None
    if name == "gcc":
        source = scratch / "many.c"
        source.write_text("".join(_c_function(number) for number in range(1000)), encoding="ascii")
        command = (*command, str(source))
    environment = {**os.environ, "GOCACHE": str(scratch / "go")}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and process.poll() is None:
            time.sleep(0.05)
            kib, largest = max((_anonymous_kib(pid), pid) for pid in _descendants(process.pid))
            if kib > mib << 10:
                os.killpg(process.pid, signal.SIGSTOP)
                return _anonymous_pages(largest)
        raise SystemExit(f"{name} did not grow to {mib} MiB within {PATIENCE_S} s")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _c_function(number: int) -> str:
    return (
        f"int f{number}(int a, char *b) {{ int r = 0; for (int i = 0; i < a; i++) switch (b[i] % 7) {{ "
        f"case 0: r += i * {number}; break; case 1: r ^= a; break; case 2: r = r * 31 + b[i]; break; "
        f'default: r += __builtin_snprintf(b, 8, "%d", r); }} return r; }}\n'
    )


def _descendants(pid: int) -> list[int]:
    children = _text(f"/proc/{pid}/task/{pid}/children").split()
    return [pid, *(each for child in children for each in _descendants(int(child)))]


def _anonymous_kib(pid: int) -> int:
    lines = _text(f"/proc/{pid}/status").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)


def _text(path: str) -> str:
    """Return the text of a file of a process, which may have ended."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _anonymous_pages(pid: int) -> list[bytes]:
    """Return pages of a stopped process: present, not of a file, and not all of one word, which zram does not store."""
    addresses = []
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as page_map:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
            ends, rights, *rest = line.split()
            start, end = (int(each, 16) for each in ends.split("-"))
            if "r" not in rights or (rest[3:] and rest[3] in ("[vvar]", "[vdso]", "[vsyscall]", "[vvar_vclock]")):
                continue
            page_map.seek(start // PAGE * 8)
            entries = struct.iter_unpack("<Q", page_map.read((end - start) // PAGE * 8))
            addresses += [
                start + number * PAGE for number, (entry,) in enumerate(entries) if entry >> 63 and not entry >> 61 & 1
            ]
    found: list[bytes] = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for address in random.Random(1).sample(addresses, len(addresses)):
            memory.seek(address)
            page = memory.read(PAGE)
            if page != page[:8] * (PAGE // 8):
                found.append(page)
            if len(found) == PAGES_OF_EACH:
                return found
    raise SystemExit(f"process {pid} has only {len(found)} anonymous pages; let it grow more before it is looked at")


def pages_of_values() -> list[bytes]:
    """Return pages of the values that the client writes, in the order in which it writes them."""
    program = ROOT / "tests" / "programs" / "solotest" / "build" / "solotest"
    subprocess.run(["make", "-s", "-C", program.parents[1], "build/solotest"], check=True)
    values: list[bytes] = []

    def script(connection: t.Any, _number: int) -> None:
        for words in requests(connection):
            if words[0] == b"SET":
                values.append(words[2])
            connection.sendall(good_reply(words))

    count = RUNS * 32 * 1024 // VALUE_SIZE
    with FakeServer(script) as server:
        options = ["--pacing=none", f"--compressibility={COMPRESSIBILITY}", "--seed=1"]
        command = [program, *options, "test", str(server.port), str(VALUE_SIZE), str(count), "0", "1", "-1"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    data = b"".join(values)
    return [data[start : start + PAGE] for start in range(0, len(data) - PAGE + 1, PAGE)]


Figures = list[tuple[float, float, float]]


def looked_at(real: list[bytes], made: list[bytes], scratch: pathlib.Path) -> tuple[Figures, Figures]:
    """Return compressed bytes, and microseconds to compress and to decompress, of pages of both kinds, in turns."""
    program, pages = scratch / "lz4_pages", scratch / "pages"
    source = ROOT / "tests" / "bench" / "lz4_pages.c"
    subprocess.run(["gcc", "-O2", "-Wall", "-Werror", source, "-l:liblz4.so.1", "-o", program], check=True)
    count = min(len(real), len(made))
    pages.write_bytes(b"".join(each for pair in zip(real[:count], made[:count], strict=True) for each in pair))
    output = subprocess.run([program, pages], check=True, capture_output=True, text=True).stdout
    figures = [t.cast("tuple[float, float, float]", tuple(map(float, line.split()))) for line in output.splitlines()]
    return figures[::2], figures[1::2]


def table(real: Figures, made: Figures) -> t.Iterator[str]:
    """Yield the lines of the page's table."""
    yield f"| of a page of {PAGE:,} bytes | mean | {' | '.join(f'{100 * share:g} %' for share in QUANTILES)} |"
    yield "| " + " | ".join(["---"] * (2 + len(QUANTILES))) + " |"
    for place, (what, form) in enumerate((("bytes", ",.0f"), ("us to compress", ".1f"), ("us to decompress", ".1f"))):
        rows = {"programs": real, "values": made}
        found = {name: sorted(each[place] for each in figures) for name, figures in rows.items()}
        shown = {
            name: [statistics.fmean(figures), *(figures[int(share * len(figures))] for share in QUANTILES)]
            for name, figures in found.items()
        }
        for name, figures in shown.items():
            yield f"| {what}, {name} | " + " | ".join(f"{each:{form}}" for each in figures) + " |"
        ratios = [ours / theirs for ours, theirs in zip(shown["values"], shown["programs"], strict=True)]
        yield f"| {what}, ratio | " + " | ".join(f"{each:.2f}" for each in ratios) + " |"


if __name__ == "__main__":
    main()
