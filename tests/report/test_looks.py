# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold for a page of every kind: on a screen, a phone, in the dark, on paper, and without a mouse."""

from __future__ import annotations

import re

import pytest

KINDS = ["run", "comparison", "density", "experiments", "headroom", "machines", "index"]
CHARTS = {
    "run": ["percentiles", "hosts", "heat", "time"],
    "comparison": ["ratios", "percentiles"],
    "density": ["ramps"],
    "experiments": ["throughput_benchmark-curve"],
    "headroom": ["headroom-0-ages", "headroom-1-ages"],
    "machines": [],
    "index": [],
}
UNITS = re.compile(r"µs|\bms\b|\bs\b|%|×|\bMi?B\b|per second|hosts in the fleet")

# The type, the name and the labels that are drawn of each axis of a chart that has labels.
AXES = """
const place = document.getElementById('chart-' + arguments[0]);
const drawn = [...place.querySelectorAll('svg text')].map(e => e.textContent);
const found = [];
for (const kind of ['xAxis', 'yAxis'])
  echarts.getInstanceByDom(place).getModel().eachComponent(kind, model => {
    if (!model.get('axisLabel').show) return;
    const labels = model.axis.getViewLabels().map(each => each.formattedLabel).filter(each => drawn.includes(each));
    found.push({type: model.get('type'), name: model.get('name') || '', labels: [...new Set(labels)]});
  });
return found;
"""

# Texts whose contrast with what is behind them is below that of WCAG 2 AA (large text needs less, but there is little).
FAINT = """
const numbers = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
const light = rgb => rgb.slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const behind = e => {
  for (let each = e; each; each = each.parentElement) {
    const back = numbers(getComputedStyle(each).backgroundColor);
    if (back.length === 3 || back[3] === 1) return back;
  }
  return [255, 255, 255];
};
const faint = [];
for (const e of document.querySelectorAll('body *')) {
  const inChart = e.tagName === 'text' && e.closest('svg');
  const own = [...e.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
  if (!own || !(inChart || e instanceof HTMLElement)) continue;
  if (!e.getClientRects().length || e.closest('script, style, .skip')) continue;
  const colour = numbers(inChart ? getComputedStyle(e).fill : getComputedStyle(e).color);
  const [a, b] = [light(colour), light(behind(e))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) faint.push([e.textContent.trim().slice(0, 40), ratio.toFixed(2)]);
}
return faint;
"""

# Everything that can be operated and is visible.
OPERABLE = """
return [...document.querySelectorAll('a[href], select, summary, button, input, [tabindex="0"]')]
  .filter(e => e.getClientRects().length && getComputedStyle(e).visibility !== 'hidden');
"""

OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true; })"

# Texts that are cut: beyond the screen, beyond what an ancestor shows, or wider than their element. Those that can be
# scrolled to are none.
CUT = """
const scrolls = '.scroll, pre, script, style, noscript, option, .skip, svg [clip-path]';
const cut = [];
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const e = texts.currentNode.parentElement, text = texts.currentNode.textContent.trim().slice(0, 60);
  if (!text || e.closest(scrolls) || !e.checkVisibility({visibilityProperty: true})) continue;
  let [left, right] = [0, innerWidth];
  for (let each = e; each && each !== document.body; each = each.parentElement) {
    if (getComputedStyle(each).overflowX === 'visible') continue;
    const box = each.getBoundingClientRect();
    [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
  }
  const range = document.createRange();
  range.selectNodeContents(texts.currentNode);
  if ([...range.getClientRects()].some(each => each.left < left - 1 || each.right > right + 1)) cut.push(text);
  if (e instanceof HTMLElement && e.clientWidth && e.scrollWidth > e.clientWidth) cut.push(text);
}
for (const e of document.querySelectorAll('select')) {
  const shown = e.offsetWidth;
  e.style.maxWidth = 'none';
  if (e.offsetWidth > shown) cut.push(e.id);
  e.style.maxWidth = '';
}
return cut;
"""


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def test_a_page_has_its_answer_first_and_requests_nothing(browser, pages, kind, look):
    browser.open(pages[kind])
    assert browser.console() == []
    assert browser.requests() == [pages[kind].resolve().as_uri()]
    texts = browser.driver.find_element("tag name", "header").text.splitlines()
    answer = browser.driver.find_element("tag name", "h1").text
    assert texts[0].startswith("Memory density") and texts[1] in answer and len(answer) > 15
    assert browser.driver.execute_script(
        "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    ), "wider than its screen"


SCREENS = pytest.mark.parametrize(("width", "height", "lowest"), [(1280, 900, 600), (400, 844, 720)])


def ends(browser, selector):
    """Return where the first element of a selector begins and ends on the screen, in pixels; None if there is none."""
    return browser.driver.execute_script(
        "const found = document.querySelector(arguments[0])?.getBoundingClientRect();"
        "return found && [found.top, found.bottom]",
        selector,
    )


@SCREENS
def test_the_first_screen_has_the_answer_and_the_chart(browser, pages, kind, width, height, lowest):
    """What follows, such as how to read the chart, must not push it below."""
    browser.emulate(width, height)
    browser.open(pages[kind])
    assert ends(browser, "h1")[0] < 100
    chart = ends(browser, ".chart svg")
    assert (chart is None) == (not CHARTS[kind]) and (chart is None or chart[0] < lowest)


@SCREENS
@pytest.mark.parametrize("page", ["run", "comparison", "headroom", "machines"])
def test_the_first_screen_is_sentence_verdict_chart(browser, pages, page, width, height, lowest):
    browser.emulate(width, height)
    browser.open(pages[page])
    sentence, verdict = ends(browser, "h1"), ends(browser, "header .verdict, header .tag")
    assert sentence[1] <= verdict[0] < verdict[1]
    assert verdict[1] <= (ends(browser, ".chart svg") or ends(browser, "main"))[0] < lowest


def test_no_text_is_cut_on_a_phone(browser, pages, kind):
    browser.emulate(400, 844)
    browser.open(pages[kind])
    browser.driver.execute_script(OPEN_ALL)
    assert browser.driver.execute_script(CUT) == []


def test_the_reasons_of_a_verdict_can_be_opened_on_a_phone(browser, pages):
    browser.emulate(400, 844)
    browser.open(pages["run"])
    why = browser.driver.find_element("css selector", "header summary")
    reasons = browser.driver.find_elements("css selector", "header .reasons li")
    assert why.text == f"Why: {len(reasons)} reasons" and not reasons[0].is_displayed()
    why.click()
    assert all(each.is_displayed() and "vm0007" in each.text for each in reasons)
    assert browser.driver.execute_script(CUT) == []


def test_every_axis_has_labels_and_units(browser, pages, kind, look):
    browser.open(pages[kind])
    seen = {chart: browser.driver.execute_script(AXES, chart) for chart in CHARTS[kind]}
    for chart, axes in seen.items():
        assert axes, chart
        for axis in axes:
            assert len(axis["labels"]) >= (1 if axis["type"] == "category" else 3), (chart, axis)
            if axis["type"] != "category" and chart != "time" and chart != "curve":
                assert UNITS.search(" ".join([axis["name"], *axis["labels"]])), (chart, axis)


@pytest.mark.parametrize(
    "values, ticks",
    [
        ([1, 1], [1, 2, 5]),
        ([0.9, 1.4], [0.5, 1, 2]),
        ([15, 256], [10, 20, 50, 100, 200, 500]),
        ([1, 4800], [1, 10, 100, 1000]),
    ],
)
def test_logarithmic_axes_have_round_ticks(browser, pages, values, ticks):
    browser.emulate()
    browser.open(pages["experiments"])
    redraw(browser, values, log=True)
    assert drawn_numbers(browser)[-len(ticks) :] == ticks


@pytest.mark.parametrize(
    "values, ticks",
    [
        ([1, 2], [0, 1, 2]),
        ([1, 2, 4, 8, 16, 32, 64], [0, 20, 40, 60, 80]),
        ([0.5, 0.7], [0, 0.2, 0.4, 0.6, 0.8]),
        ([0, 0], [0, 1, 2]),
    ],
)
def test_linear_axes_have_round_ticks(browser, pages, values, ticks):
    browser.emulate()
    browser.open(pages["experiments"])
    redraw(browser, values, log=False)
    assert drawn_numbers(browser)[-len(ticks) :] == ticks


def redraw(browser, values, log):
    """Draw a chart whose y axis has these values."""
    browser.driver.execute_script(
        "const place = document.getElementById('data'); const data = JSON.parse(place.textContent);"
        "Object.assign(data.lines[0], {log_y: arguments[1],"
        " series: [{name: 'a', points: arguments[0].map((y, x) => [1000 * x, y])}]});"
        "place.textContent = JSON.stringify(data);"
        "echarts.getInstanceByDom(document.querySelector('.chart')).dispose();"
        "(0, eval)([...document.scripts].pop().textContent)",
        values,
        log,
    )


def drawn_numbers(browser):
    """Return the labels of the y axis of the first chart."""
    labels = browser.driver.execute_script(
        "return echarts.getInstanceByDom(document.querySelector('.chart')).getModel().getComponent('yAxis').axis"
        ".getViewLabels().map(each => each.formattedLabel)"
    )
    return [float(label.replace(",", "")) for label in labels]


@pytest.mark.parametrize(
    "page, chart, texts",
    [
        ("run", "percentiles", ["SLO: p99 ≤ 300 µs"]),
        ("run", "hosts", ["SLO: p99 ≤ 300 µs"]),
        ("run", "time", ["SLO: p99 ≤ 300 µs", "SLO: average ≤ 50 µs"]),
        ("comparison", "percentiles", ["SLO: p99 ≤ 300 µs"]),
        ("comparison", "ratios", ["as dram", "95 % interval over the runs", "range over the cells (no interval)"]),
    ],
)
def test_charts_label_the_slo_and_what_is_drawn(browser, pages, page, chart, texts, look):
    browser.open(pages[page])
    drawn = browser.driver.execute_script(
        "return [...document.querySelectorAll('#chart-' + arguments[0] + ' svg text')].map(e => e.textContent)", chart
    )
    assert set(texts) <= set(drawn), drawn


def test_only_what_the_slo_forbids_is_shaded(browser, pages):
    browser.emulate()
    browser.open(pages["run"])
    areas = browser.driver.execute_script(
        "return echarts.getInstanceByDom(document.getElementById('chart-percentiles')).getOption().series"
        ".flatMap(each => each.markArea ? each.markArea.data : [])"
    )
    (((low, high)),) = areas
    assert low["coord"] == [1, 300] and high["coord"][0] == 100 and high["coord"][1] > 300


def test_texts_can_be_read(browser, pages, kind, look):
    browser.open(pages[kind])
    assert browser.driver.execute_script(FAINT) == []


def test_everything_can_be_reached_and_operated_with_the_keyboard(browser, pages, kind):
    browser.emulate()
    browser.open(pages[kind])
    for summary in browser.driver.find_elements("css selector", "summary"):
        details = summary.find_element("xpath", "..")
        before = details.get_attribute("open")
        summary.send_keys("\ue007")
        assert details.get_attribute("open") != before
    browser.driver.execute_script(OPEN_ALL)
    wanted = browser.driver.execute_script(OPERABLE)
    active = browser.driver.find_element("css selector", ".skip")
    browser.driver.execute_script("arguments[0].focus()", active)
    reached = [active]
    for _each in range(len(wanted)):
        active.send_keys("\ue004")
        active = browser.driver.switch_to.active_element
        if active.tag_name == "body":
            break
        reached.append(active)
        outline = browser.driver.execute_script("return getComputedStyle(arguments[0]).outlineStyle", active)
        assert outline != "none", active.get_attribute("outerHTML")[:200]
    missing = [each.get_attribute("outerHTML")[:200] for each in wanted if each not in reached]
    assert not missing


def test_a_printed_page_has_everything_open(browser, pages, kind, tmp_path):
    browser.emulate(dark=True)
    browser.open(pages[kind])
    closed = "return document.querySelectorAll('details:not([open])').length"
    before = browser.driver.execute_script(closed)
    assert kind != "run" or before > 2
    browser.driver.execute_script(
        "window.printed = []; window.addEventListener('beforeprint', () => window.printed.push("
        "document.querySelectorAll('details:not([open])').length, document.querySelectorAll('.chart svg').length))"
    )
    browser.print(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert browser.driver.execute_script("return window.printed") == [0, len(CHARTS[kind])]
    assert browser.driver.execute_script(closed) == before, "as it was"
    assert browser.console() == []


def test_the_slider_of_the_time_keeps_three_labels(browser, pages):
    browser.emulate()
    browser.open(pages["run"])
    browser.driver.execute_script(
        "echarts.getInstanceByDom(document.getElementById('chart-time'))"
        ".dispatchAction({type: 'dataZoom', startValue: 3, endValue: 5.5})"
    )
    axis = next(each for each in browser.driver.execute_script(AXES, "time") if each["name"] == "time under load")
    assert axis["labels"] == ["3 s", "3.5 s", "4 s", "4.5 s", "5 s", "5.5 s"]


def test_the_page_of_several_machines_leads_to_theirs(browser, pages, together):
    browser.emulate()
    browser.open(pages["machines"])
    assert browser.driver.find_element("tag name", "h1").text.startswith(
        "Together, the 2 machines carry: DRAM alone 20"
    )
    tags = [each.text for each in browser.driver.find_elements("css selector", "header .tag")]
    assert tags[0] == "20" and len(tags) == 2
    browser.driver.find_element("partial link text", "On kvm2, ").send_keys("\ue007")
    assert browser.driver.current_url == (together.parent / "kvm2" / "density.html").resolve().as_uri()
    browser.driver.find_element("link text", "All results").send_keys("\ue007")
    browser.driver.find_element("link text", "All results").send_keys("\ue007")
    assert browser.driver.current_url == (together.parents[1] / "index.html").resolve().as_uri()


def test_the_index_leads_to_the_pages(browser, pages):
    browser.emulate()
    browser.open(pages["index"])
    row = browser.driver.find_element("css selector", ".index tbody tr").text
    assert "FAIL" in row and "vm0007 misses the SLO" in row
    browser.driver.find_element("css selector", ".index a").send_keys("\ue007")
    assert browser.driver.current_url == pages["run"].resolve().as_uri()
    browser.driver.find_element("link text", "All results").send_keys("\ue007")
    assert browser.driver.current_url == pages["index"].resolve().as_uri()
