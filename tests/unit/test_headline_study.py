# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows and tables of the headline study. tests/local measures a row."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import types

import pytest
import yaml
from synthetic_densities import empty, entry

from ansible_collections.memstretch.density.plugins.plugin_utils.profile import names
from ansible_collections.memstretch.density.plugins.plugin_utils.study import density_result

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
_SPEC = importlib.util.spec_from_file_location("headline", ROOT / "tools" / "headline.py")
headline = importlib.util.module_from_spec(_SPEC)
sys.modules["headline"] = headline  # so that its named tuples can be pickled by pytest-xdist
_SPEC.loader.exec_module(headline)
import headline_rows  # noqa: E402
import headline_tables  # noqa: E402

ROW = {
    "name": "packed",
    "values": "3:1",
    "compressibility": 0.7,
    "influence": 25,
    "servers": 4,
    "profiles": ["dram", "zram"],
    "variables": {"headline_zram_size": "16M"},
    "overcommit": [],
    "target": 2.5,
    "minutes": 30,
    "expected": "a test",
}
DRAM = {"budget_bytes": 680 * 2**20, "charged_bytes": 600 * 2**20, "compression_ratio": None}
PLAN = {"schema": 1, "largest": {"dram": 16, "zram": 44}}


PRICES = dict.fromkeys(
    (
        "server",
        "dram_gb",
        "dram_per_gb",
        "tier_gb",
        "tier_per_gb",
        "licences_per_month",
        "power_w",
        "price_per_kwh",
        "months",
    ),
    48,
)


def cost(name, per_vm_month, saving=None):
    ends = saving and [saving - 0.1, None]
    return {
        "name": name,
        "per_vm_month": per_vm_month,
        "per_vm_month_interval": [per_vm_month - 1, per_vm_month + 1],
        "saving": saving,
        "saving_interval": ends,
    }


def write(directory, **documents):
    directory.mkdir(parents=True)
    for name, document in documents.items():
        (directory / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")


@pytest.fixture(name="found")
def _found(tmp_path):
    """A function that returns what is known about a row after a search with these densities, 40 probes for each arm."""

    def make(dram=16, zram=40, finished=True, plan=True, undecided=None, **row):
        made = headline_rows.Row(**{**ROW, **row})
        document = empty(("dram", "zram"), maximum=64, probes=40)
        document["calibration"] = {
            "run_id": "headline-packed-calibration",
            "fitting": 16,
            "budget_bytes": DRAM["budget_bytes"],
            "slo": {"avg_us": 50, "p99_us": 300},
            "factor": 1.5,
            "hosts": 8,
            "avg_us": 33,
            "p99_us": 200,
            "charged_bytes": DRAM["charged_bytes"],
        }
        document["created_at"] = 0
        for arm, density in (("dram", dram), ("zram", zram)):
            stored = {**DRAM, "compression_ratio": 3.05 if arm == "zram" else None}
            sizes = [(density, "pass"), (density + max(1, density // 8), "fail")]
            if undecided and arm == "zram":
                sizes = [(density, "pass"), *((size, "undecided") for size in undecided), (undecided[-1] + 4, "fail")]
            cpu = {"total_us": 90.0 if arm == "zram" else 60.0}
            document["runs"] += [entry(arm, *each, dram=stored, cpu=cpu) for each in sizes for _probe in range(20)]
            for number, run in enumerate(run for run in document["runs"] if run["arm"] == "zram"):
                swapped = {"page_ins": 1000.0 + number, "swap_used_mb": 1300.0, "compressed_mb": None}
                run["pressure"] = {"the fleet's machine": swapped}
        document["finished"] = finished
        if finished:
            density_result.conclude(document)
            document["cost"] = {
                "prices": {**PRICES, "currency": "USD"},
                "arms": [cost("dram", 18.5), cost("zram", 7.5, 0.59)],
            }
        write(tmp_path / "headline-packed", density=document)
        record = {"cpu": {"model": "A processor", "online": 2}, "kernel": {"release": "6.12"}}
        hosts = {"redis01": {}, "this_machine": record}
        summary = {"schema": 1, "cpu": {"total_us": 50.0}}
        write(tmp_path / "headline-packed-calibration", run={"schema": 1, "hosts": hosts}, summary=summary)
        if plan:
            write(tmp_path / "headline-packed-plan", plan=PLAN)
        return headline.Results(tmp_path, "headline").of(made)

    return make


def test_the_rows_of_the_collection_can_be_measured():
    found = headline.rows(headline.ROWS)
    profiles = set(names(str(ROOT / "roles" / "host_tuning" / "profiles")))
    assert all(set(row.profiles) <= profiles for row in found)
    assert all(row.profiles[0] == "dram" for row in found if not row.overcommit)
    assert {(row.values, row.influence, row.target) for row in found} >= {
        ("3:1", 0, 2.5),
        ("3:1", 10, 2.5),
        ("3:1", 25, 3.5),
        ("2:1", 0, 1.6),
        ("2:1", 25, 2.2),
        ("1:1", 0, None),
    }
    assert all(17 < row.servers <= 72 for row in found), "more than fits into DRAM, no more than the inventory has"
    for row in found:
        # The first profile may turn out to carry 19.
        assert row.servers >= max([*row.overcommit, row.target or 0]) * 19, f"{row.name} cannot be decided"
    assert sum(row.minutes for row in found[:2]) <= 100, "what matters most takes no more than a quiet morning"
    (series,) = [row for row in found if row.overcommit]
    assert series.profiles[0] == "swap_2018" and series.overcommit == [2, 3, 3.5]
    assert series.variables["density_probes"] == 3 * len(series.overcommit), "three rounds, for an interval"
    assert series.all_variables["density_overcommit"] == [2, 3, 3.5] and "density_target" not in series.all_variables
    assert found[0].all_variables["density_target"] == 2.5 and "density_overcommit" not in found[0].all_variables
    assert headline.chosen(found, "") == found
    assert [row.name for row in headline.chosen(found, "1to1-influence0, 3to1-influence10")] == [
        "3to1-influence10",
        "1to1-influence0",
    ]
    with pytest.raises(headline.HeadlineError, match="--only: 9to1 is not a row; it must be one of 3to1-"):
        headline.chosen(found, "9to1")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{**ROW, "note": 1}], "must be a dictionary with name, values"),
        ([{**ROW, "profiles": ["dram"]}], "profiles of packed must be a list of two or more"),
        ([ROW, ROW], "two rows have the same name"),
        ([{**ROW, "overcommit": [2]}], "packed has overcommit and target; only a search has a target"),
    ],
)
def test_a_mistake_in_the_rows_is_named(tmp_path, entries, message):
    path = tmp_path / "rows.yml"
    path.write_text(yaml.safe_dump(entries), encoding="utf-8")
    with pytest.raises(headline.HeadlineError, match=message):
        headline.rows(path)


@pytest.mark.parametrize(
    ("zram", "target", "result"),
    [(48, 2.5, "reached"), (24, 2.5, "not reached"), (40, 2.5, "undecided"), (40, None, "-")],
)
def test_a_target_is_reached_or_missed_by_the_whole_interval(found, zram, target, result):
    assert headline_tables.result(found(zram=zram, target=target)) == result


def test_a_row_without_a_result_is_planned(found, tmp_path):
    for each in (found(finished=False, plan=False), headline.Results(tmp_path, "other").of(headline_rows.Row(**ROW))):
        text = headline.tables([each])
        assert "| 3:1 | 25 | dram, zram | - | 2.5 | 30 | a test |" in text
        assert "All probes" not in text and "Measured on" not in text and "nan" not in text


def test_a_row_whose_time_was_over_is_measured_further(found, tmp_path):
    row = found()
    assert row.finished and not row.needs_time
    path = tmp_path / "headline-packed" / "density.json"
    path.write_text(json.dumps({**row.density, "out_of_time": True}), encoding="utf-8")
    late = headline.Results(tmp_path, "headline").of(row.row)
    assert late.finished and late.needs_time, "its result is shown, and it is continued"


def test_the_page_has_figures_intervals_the_plan_and_every_size(found):
    text = headline.tables([found()])
    assert text.startswith("Measured on A processor, 2 CPUs, Linux 6.12, 1970-01-01, with 680 MiB of DRAM.\n")
    (sentence, row) = [line for line in text.splitlines() if "dram, zram" in line or line.startswith("- values")]
    assert sentence.startswith("- values 3:1, influence 25: In 680 MiB of DRAM, zram "), sentence
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:2] == ["3:1", "3.05:1"] and cells[4] == "50 / 300" and cells[7:9] == ["2.5", "undecided"]
    assert cells[5].startswith("dram 16 (") and ", zram 4" in cells[5]
    assert cells[6].startswith("2.") and " to " in cells[6]
    assert "dram 16 (+0%)" in cells[9] and "zram 44 (+7%)" in cells[9]
    (passed,) = [line for line in text.splitlines() if line.startswith("| 3:1 | 25 | zram | 40 | 2.50 | 20 passed | ")]
    assert passed.endswith(" | 1,010 | 1,300 | - |"), "the median of 20 probes"
    (failed,) = [line for line in text.splitlines() if line.startswith("| 3:1 | 25 | dram | 18 | 1.12 | 20 failed | ")]
    assert failed.endswith(" | - | - | - |"), "these runs have no summary"


def test_a_plan_that_is_further_off_than_15_percent_stands_out(found):
    (cell,) = [line for line in headline.tables([found(zram=34)]).splitlines() if "dram, zram" in line]
    assert re.search(r"dram 16 \(\+0%\), zram 44 \(\*\*\+2[0-9]%\*\*\)", cell), cell


@pytest.mark.parametrize(("zram", "stands_out"), [(30, False), (41, False), (24, True)])
def test_a_plan_is_compared_with_all_that_undecided_probes_allow(found, zram, stands_out):
    """Probes between what passed and what failed were undecided; the plan expected 44."""
    undecided = [zram + 3, zram + 8] if stands_out else [zram + 4, zram + 10]
    (cell,) = [
        line for line in headline.tables([found(zram=zram, undecided=undecided)]).splitlines() if "dram, zram" in line
    ]
    span = re.search(r"zram 44 \((\**)([+-]\d+)% to ([+-]\d+)%\1\)", cell)
    assert span and int(span[2]) < int(span[3]), cell
    assert bool(span[1]) == stands_out, cell


def test_tables_replace_only_their_place_on_the_page(found):
    page = headline.PAGE.read_text(encoding="utf-8")
    new = headline.written(page, "NEW\n")
    assert headline.written(new, "OTHER\n").replace("OTHER", "NEW") == new and new.count("NEW") == 1
    begin, end = headline_tables.BEGIN, headline_tables.END
    assert new.startswith(page[: page.index(begin)]) and new.endswith(page[page.index(end) :])
    with pytest.raises(headline.HeadlineError, match="no lines"):
        headline.written("# Another page\n", "NEW\n")


def test_what_is_published_of_a_row_makes_the_same_tables(found, tmp_path):
    published, made = headline_rows.Published(tmp_path / "published"), found()
    published.keep(made)
    published.keep(headline_rows.Found(made.row._replace(name="begun"), None, None, "", None))
    assert [path.name for path in (tmp_path / "published").iterdir()] == ["packed.json"]
    assert headline.tables([published.of(made.row)]) == headline.tables([made])


def test_the_tables_of_the_page_are_those_of_the_published_rows():
    published = headline_rows.Published(headline.PUBLISHED)
    page = headline.PAGE.read_text(encoding="utf-8")
    tables = headline.tables([published.of(row) for row in headline.rows(headline.ROWS)])
    assert headline.written(page, tables) == page, "write them with make headline-page"
    bench = headline.bench([published.of(row) for row in headline.rows(headline.ROWS)])
    assert headline.BENCH.read_text(encoding="utf-8") == bench, "write it with make headline-page"


def test_a_kept_result_gets_the_conclusions_of_this_version(found, tmp_path):
    published, made = headline_rows.Published(tmp_path / "published"), found()
    right = made.density["density"][1]["seen"]
    made.density["density"][1]["seen"] = {"passed": 1, "missed": 2}
    published.keep(made)
    assert published.of(made.row).density["density"][1]["seen"] == right


def test_the_page_shows_every_row():
    page = headline.PAGE.read_text(encoding="utf-8")
    tables = page.partition(headline_tables.BEGIN)[2].partition(headline_tables.END)[0]
    for row in headline.rows(headline.ROWS):
        assert [line for line in tables.splitlines() if line.startswith(f"| {row.values} | ")], row.name


PLAYBOOK = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("tuned", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep(0.3)
    print("restored", flush=True)
    raise SystemExit(7)
"""
PARENT = """
import os, pathlib, runpy, sys
sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent))
headline = runpy.run_path(sys.argv[1])
try:
    headline["run_to_its_end"]([sys.executable, "-c", sys.argv[2]], os.environ)
except KeyboardInterrupt:
    print("continues", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_study_after_the_playbook_has_restored_the_machine(number):
    command = [sys.executable, "-c", PARENT, str(headline.ROOT / "tools" / "headline.py"), PLAYBOOK]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout.readline() == "tuned\n"
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        assert process.stdout.read() == "restored\ncontinues\n" and process.wait() == 0


def test_the_first_rows_get_the_minutes_that_they_ask_for():
    assert headline.search_minutes(100, [30, 40, 50]) == 25, "the third row has what is left"
    assert headline.search_minutes(70, [40, 50]) == 35
    assert headline.search_minutes(30, [50]) == 25
    assert headline.search_minutes(240, [30, 40, 50]) == 55, "twice as many as all rows ask for"
    assert headline.search_minutes(12, [6, 6]) == headline.SHORTEST_MINUTES
    assert headline.search_minutes(9.99, [30]) == headline.SHORTEST_MINUTES
    assert headline.search_minutes(9.9, [30]) is None


LOCKED = """
import os, pathlib, runpy, sys
sys.path.insert(0, str(pathlib.Path(sys.argv[1]).parent))
headline = runpy.run_path(sys.argv[1])
with headline["locked"](pathlib.Path(sys.argv[2])) as lock:
    headline["run_to_its_end"]([sys.executable, "-c", "print('measures', flush=True); input()"], os.environ, (lock,))
"""


def test_a_playbook_that_outlives_its_study_keeps_the_next_one_away(tmp_path):
    command = [sys.executable, "-c", LOCKED, str(headline.ROOT / "tools" / "headline.py"), str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "measures\n"
        process.kill()
        process.wait()
        with (
            pytest.raises(headline.HeadlineError, match="or a playbook of one that was killed"),
            headline.locked(tmp_path),
        ):
            pass
        process.stdin.close()
        assert process.stdout.read() == "", "the playbook has ended"
    with headline.locked(tmp_path):
        pass


def test_the_page_has_what_a_request_and_a_vm_cost(found):
    text = headline.tables([found()])
    assert "Prices are examples, in USD: a server without its DRAM 48, 48 GB of DRAM at 48 each" in text
    assert "| 3:1 | 25 | dram | 16 | 60 | 18.50 | 17.50 to 19.50 | - | - |" in text
    assert "| 3:1 | 25 | zram | 41 | 90 (1.50 x) | 7.50 | 6.50 to 8.50 | 59% | 49% to ... |" in text


def test_the_compression_is_that_of_fleets_that_store_values():
    """The pages of a fleet that fits are others, such as those of the allocator."""
    ratios = {4: 0.33, 16: 0.33, 17: 3.11, 28: 2.1, 36: 2.12, 40: None}
    runs = [{"size": size, "dram": {"compression_ratio": ratio}} for size, ratio in ratios.items()]
    document = {"calibration": {"fitting": 16}, "runs": [*runs, {"size": 40}]}
    assert headline_tables.compression(types.SimpleNamespace(density=document)) == "2.12:1"
    assert headline_tables.compression(types.SimpleNamespace(density=None)) == "-"


def test_the_page_has_the_latency_beyond_dram_and_the_share_of_the_gap(found, tmp_path):
    series = {"overcommit": [2, 3.5], "target": None, "profiles": ["swap_2018", "zram"]}
    waiting = headline.tables([found(finished=False, plan=False, **series)])
    assert "| 3:1 | 25 | swap_2018, zram | 2, 3.5 | - | 30 | a test |" in waiting

    path = tmp_path / "headline-packed" / "density.json"
    document = {**json.loads(path.read_text(encoding="utf-8")), "finished": True, "runs": []}
    document["definition"] = empty(("swap_2018", "zram"), 64, probes=6, overcommit=[2, 3.5])["definition"]
    for size in (32, 56):
        for arm, avg, p99, us in (("swap_2018", 1033, 10_200, 70), ("zram", 133, 2_200, 100)):
            latency = {"worst_host_avg_us": avg, "worst_host_p99_us": p99, "cpu": {"total_us": us}}
            lost = {"dram": {"fits": False}} if (arm, size) == ("zram", 56) else {}
            document["runs"] += [entry(arm, size, "fail", **latency, **lost) for _round in range(3)]
    density_result.conclude(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    text = headline.tables([headline.Results(tmp_path, "headline").of(headline_rows.Row(**{**ROW, **series}))])
    rows = [line for line in text.splitlines() if line.startswith("| 3:1 | 25 | ")]
    assert rows == [
        "| 3:1 | 25 | 0.50 | 8 | dram | 1 | 33 | 200 | 50 | - | - | - |",
        "| 3:1 | 25 | 2.00 | 32 | swap_2018 | 3 | 1,033 | 10,200 | 70 (1.40 x) | - | - | - |",
        "| 3:1 | 25 | 2.00 | 32 | zram | 3 | 133 | 2,200 | 100 (2.00 x) | 90 % (90 to 90 %)"
        + 2 * " | 80 % (80 to 80 %)"
        + " |",
        "| 3:1 | 25 | 3.50 | 56 | swap_2018 | 3 | 1,033 | 10,200 | 70 (1.40 x) | - | - | - |",
        "| 3:1 | 25 | 3.50 | 56 | zram | 3 | 133 | 2,200 | 100 (2.00 x) | does not fit | - | - |",
    ]
