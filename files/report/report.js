/* SPDX-License-Identifier: GPL-3.0-or-later
 * Draws the charts of a report from the data in the page. */
"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  // Okabe and Ito's colours, which colour-blind people can distinguish; the dark set is lighter.
  const COLOURS = {
    light: ["#0072b2", "#d55e00", "#009e73", "#a0508c", "#b58900", "#4059ad", "#8b2f2f", "#3d7a7a"],
    dark: ["#56b4e9", "#ff9d5c", "#3ecf9f", "#e59ccb", "#f0e442", "#9db2ff", "#ff8f8f", "#8fd6d6"],
  };
  const DASHES = ["solid", "dashed", "dotted"];
  const charts = [];
  let printing = false;

  const isDark = () => dark.matches && !printing;
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const paint = () => (printing
    ? { text: "#000", soft: "#444", line: "#bbb", fail: "#a40e26", back: "#fff", panel: "#f6f7f9" }
    : { text: style("--text"), soft: style("--soft"), line: style("--line"), fail: style("--fail"), back: style("--back"), panel: style("--panel") });
  const narrow = () => document.documentElement.clientWidth < 640;
  const number = (value) => (value === null || value === undefined ? "–"
    : value >= 100 ? Math.round(value).toLocaleString("en") : value.toLocaleString("en", { maximumFractionDigits: value < 1 ? 3 : 1 }));
  const micro = (value) => (value >= 1e6 ? value / 1e6 + " s" : value >= 1e3 ? value / 1e3 + " ms" : value + " µs");
  const clean = (text) => String(text).replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }[sign]));

  function base(colours) {
    return {
      animation: false,
      backgroundColor: "transparent",
      color: COLOURS[isDark() ? "dark" : "light"],
      textStyle: { color: colours.text, fontFamily: "system-ui, 'DejaVu Sans', sans-serif" },
      tooltip: { backgroundColor: colours.back, borderColor: colours.line, textStyle: { color: colours.text, fontSize: 12 }, confine: true },
      legend: { type: printing ? "plain" : "scroll", top: 4, textStyle: { color: colours.text }, pageTextStyle: { color: colours.text }, pageIconColor: colours.text,
        pageIconInactiveColor: colours.line, inactiveColor: colours.line },
    };
  }
  function axis(colours, more) {
    const own = more || {};
    return Object.assign({ nameTextStyle: { color: colours.soft, align: own.nameLocation ? "center" : "left" } }, own, {
      axisLine: Object.assign({ show: true, lineStyle: { color: colours.soft } }, own.axisLine),
      axisTick: Object.assign({ lineStyle: { color: colours.line } }, own.axisTick),
      axisLabel: Object.assign({ color: colours.soft, hideOverlap: true }, own.axisLabel),
      splitLine: Object.assign({ lineStyle: { color: colours.line, opacity: 0.6 } }, own.splitLine),
    });
  }

  /* Ticks are 1, 2 and 5 times a power of ten, and at least three of them are labelled. */
  const round = (value) => Number(value.toPrecision(12));
  function logTicks(values) {
    const known = values.filter((value) => value > 0);
    const low = known.length ? Math.min(...known) : 1, high = known.length ? Math.max(...known) : 100;
    const candidates = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)) + 2; power++)
      candidates.push(...[1, 2, 5].map((digit) => round(digit * Math.pow(10, power))));
    const first = candidates.filter((each) => each <= low * 1.0000001).length - 1;
    const last = Math.max(candidates.findIndex((each) => each >= high * 0.9999999), first + 2);
    const found = candidates.slice(first, last + 1);
    // More labels than that would be crowded; among so many are at least three powers of ten.
    const labels = found.length > 9 ? found.filter((each) => round(Math.log10(each)) % 1 === 0) : found;
    return { min: found[0], max: found[found.length - 1], labels };
  }
  function linearTicks(high, whole) {
    const rough = (high > 0 ? high : 1) / 5, power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = Math.max(whole ? 1 : 0, power * [1, 2, 5, 10].find((digit) => digit * power >= rough * 0.9999999));
    const count = Math.max(2, Math.ceil(round(high / step)));
    return { min: 0, max: round(count * step), labels: Array.from({ length: count + 1 }, (nothing, index) => round(index * step)) };
  }
  /* The ticks of a part of a linear axis. */
  function ticksBetween(low, high) {
    const step = linearTicks(high - low).labels[1], first = Math.ceil(round(low / step));
    return Array.from({ length: Math.max(0, Math.floor(round(high / step)) - first + 1) }, (nothing, index) => round((first + index) * step));
  }
  const ticked = (colours, type, ticks, formatter, more) => axis(colours, Object.assign({ type, min: ticks.min, max: ticks.max }, more, {
    axisLabel: Object.assign({ formatter, customValues: ticks.labels }, more && more.axisLabel),
    axisTick: { customValues: ticks.labels, lineStyle: { color: colours.line } },
    splitLine: Object.assign({ customValues: ticks.labels, lineStyle: { color: colours.line, opacity: 0.6 } }, more && more.splitLine),
  }));
  const microAxis = (colours, values, more) => ticked(colours, "log", logTicks(values), micro, more);

  /* The SLO as labelled lines: pairs of a place on the y axis and a text. */
  const limitLines = (colours, limits, position) => ({
    silent: true, symbol: "none", lineStyle: { color: colours.fail, type: "dashed", width: 1.5 },
    data: limits.map((limit) => ({ yAxis: limit[0], label: { color: colours.fail, position: position || "insideStartTop", formatter: limit[1],
      backgroundColor: position ? colours.back : "transparent", padding: [1, 3] } })),
  });
  const sloText = (figure, value) => "SLO: " + figure + " ≤ " + micro(value);

  /* 10, 100, 1000 on the axis are the percentiles 90, 99, 99.9. */
  function percentile(rank) {
    if (rank <= 1) return "0 %";
    const nines = Math.max(0, Math.round(Math.log10(rank)) - 2);
    return (100 - 100 / rank).toFixed(nines) + " %";
  }
  function exactly(rank) {
    return rank <= 1 ? "minimum" : (100 - 100 / rank).toFixed(Math.max(1, Math.ceil(Math.log10(rank)))) + " %";
  }
  function percentiles(colours) {
    const chosen = document.getElementById("latency");
    const curves = data.curves(chosen ? chosen.value : "intended");
    const slo = data.slo.p99_us;
    const values = curves.flatMap((each) => each.points.map((point) => point[1])).concat([slo]);
    const rarest = Math.max(1000, ...curves.flatMap((each) => each.points.map((point) => point[0])));
    const right = Math.pow(10, Math.ceil(Math.log10(rarest)));
    const ranks = { min: 1, max: right, labels: Array.from({ length: Math.round(Math.log10(right)) + 1 }, (nothing, power) => Math.pow(10, power)) };
    const missed = { name: "misses the SLO", itemStyle: { color: colours.fail, opacity: 0.08 }, label: { show: false } };
    return Object.assign(base(colours), {
      grid: { outerBoundsMode: "none", left: 64, right: narrow() ? 26 : 44, top: 72, bottom: 52 },
      tooltip: Object.assign(base(colours).tooltip, { trigger: "axis", formatter: (hits) => "<b>" + exactly(hits[0].axisValue) + "</b>, µs<br>"
        + hits.filter((hit) => hit.seriesIndex < curves.length).map((hit) => hit.marker + clean(hit.seriesName) + ": " + number(hit.value[1])).join("<br>") }),
      xAxis: ticked(colours, "log", ranks, percentile, { name: "percentile of the requests", nameLocation: "middle", nameGap: 28 }),
      yAxis: microAxis(colours, values, { name: "latency" }),
      series: curves.map((each, index) => ({
        name: each.name, type: "line", data: each.points, symbol: "none", emphasis: { focus: "series" },
        lineStyle: { width: 2, type: DASHES[Math.floor(index / 8) % 3] },
      })).concat([{
        // What the SLO does not allow is shaded: a latency above it at a percentile up to 99.
        name: "slo", type: "line", data: [[1, slo], [100, slo]], symbol: "none", silent: true, lineStyle: { width: 0 },
        markLine: limitLines(colours, [[slo, sloText("p99", slo)]]),
        markArea: { silent: true, data: [[Object.assign({ coord: [1, slo] }, missed), { coord: [100, logTicks(values).max] }]] },
      }]),
      legend: Object.assign(base(colours).legend, { data: curves.map((each) => each.name) }),
    });
  }

  /* A horizontal offset from the middle of the column; the same host always gets the same offset. */
  function jitter(index, count) {
    return (((index * 0.618034) % 1) - 0.5) * Math.min(0.7, 0.1 + count / 60);
  }
  function hosts(colours) {
    const cells = data.cells;
    const dots = cells.flatMap((cell, column) => cell.hosts.map((host, index) => ({
      value: [column + jitter(index, cell.hosts.length), host[2]], host, cell: cell.title,
    })));
    const values = dots.map((dot) => dot.value[1]).concat([data.slo.p99_us]);
    const palette = COLOURS[isDark() ? "dark" : "light"];
    // Names, colours and symbols of the answers; an average can miss the SLO while the p99 meets it.
    const answers = [["pass", "meets the SLO", palette[0], "circle", 8], ["undecided", "undecided", palette[4], "triangle", 11], ["fail", "misses the SLO", colours.fail, "diamond", 12]];
    const share = (value, limit) => number(value) + " µs, " + (value / limit).toFixed(2) + " × the SLO";
    const titles = cells.map((cell) => cell.title.replace(", ", narrow() ? " " : "\n").replace(narrow() ? "influence" : "\u0000", "i"));
    return Object.assign(base(colours), {
      grid: { outerBoundsMode: "none", left: 64, right: 16, top: 72, bottom: narrow() ? 96 : 56 },
      tooltip: Object.assign(base(colours).tooltip, { trigger: "item", formatter: (hit) => "<b>" + clean(hit.data.host[0]) + "</b>, " + clean(hit.seriesName) + "<br>"
        + clean(hit.data.cell) + "<br>average " + share(hit.data.host[1], data.slo.avg_us) + "<br>p99 " + share(hit.data.host[2], data.slo.p99_us)
        + "<br>max " + number(hit.data.host[3]) + " µs" }),
      xAxis: axis(colours, { type: "value", min: -0.6, max: cells.length - 0.4, interval: 1, splitLine: { show: false }, axisTick: { show: false },
        axisLabel: { show: false } }),
      yAxis: microAxis(colours, values, { name: "p99 of each host", axisLine: { onZero: false, show: true, lineStyle: { color: colours.soft } } }),
      series: answers.map((each, index) => ({
        name: each[1], type: "scatter", data: dots.filter((dot) => dot.host[5] === each[0]), symbol: each[3], symbolSize: each[4],
        itemStyle: { color: each[2], opacity: 0.75 },
        markLine: index ? undefined : limitLines(colours, [[data.slo.p99_us, sloText("p99", data.slo.p99_us)]], "insideEndTop"),
      })).concat([
        // Invisible points whose labels are the names of the columns, since a value axis cannot show names.
        { type: "scatter", silent: true, symbolSize: 0, tooltip: { show: false }, data: cells.map((cell, column) => [column, logTicks(values).min]),
          label: { show: true, position: "bottom", distance: 8, color: colours.soft, fontSize: narrow() ? 10 : 12, lineHeight: 15, rotate: narrow() ? 45 : 0,
            align: narrow() ? "right" : "center", formatter: (hit) => titles[hit.dataIndex] } },
      ]),
      legend: Object.assign(base(colours).legend, { data: answers.map((each) => each[1]) }),
    });
  }

  function heat(colours) {
    const map = data.heat;
    const cells = map.rows.flatMap((row, y) => row.map((value, x) => [x, y, value === null ? null : value / map.slo_us])).filter((each) => each[2] !== null);
    return Object.assign(base(colours), {
      grid: { outerBoundsMode: "none", left: narrow() ? 64 : 110, right: 16, top: 48, bottom: 90 },
      legend: { show: false },
      tooltip: Object.assign(base(colours).tooltip, { formatter: (hit) => "<b>" + clean(map.hosts[hit.value[1]]) + "</b><br>" + clean(map.phases[hit.value[0]])
        + "<br>p99 " + number(map.rows[hit.value[1]][hit.value[0]]) + " µs, " + hit.value[2].toFixed(2) + " × the SLO" }),
      xAxis: axis(colours, { type: "category", data: map.phases, splitLine: { show: false }, axisLabel: { rotate: 40, fontSize: 10,
        formatter: (text) => text.replace("influence ", "i").replace(" % GET", " %").replace("iteration ", "no. ") } }),
      yAxis: axis(colours, { type: "category", data: map.hosts, inverse: true, splitLine: { show: false }, axisLabel: { fontSize: 10, width: narrow() ? 54 : 100,
        overflow: "truncate" } }),
      visualMap: { type: "piecewise", orient: "horizontal", left: "center", top: 4, textStyle: { color: colours.text }, itemGap: narrow() ? 4 : 10,
        pieces: [{ lte: 0.5, label: "≤ ½ ×", color: "#9ecae1" }, { gt: 0.5, lte: 1, label: "≤ 1 ×", color: "#4292c6" }, { gt: 1, lte: 2, label: "≤ 2 ×", color: "#fdae6b" },
          { gt: 2, lte: 5, label: "≤ 5 ×", color: "#e6550d" }, { gt: 5, label: "> 5 ×", color: "#7f0000" }] },
      series: [{ type: "heatmap", data: cells, itemStyle: { borderColor: colours.back, borderWidth: 1 }, emphasis: { itemStyle: { borderColor: colours.text } } }],
    });
  }

  function time(colours) {
    const phases = data.time.phases;
    const end = phases.length ? phases[phases.length - 1].end : 1;
    const latency = (column) => phases.flatMap((phase) =>
      phase.points.map((point, index) => [phase.start + (index + 0.5) * phase.interval, point[column] || null]).concat([[phase.end, null]]));
    /* Second by second where a recorder saw it, or else what the whole phase had. */
    const steps = (name) => phases.flatMap((phase) => {
      if (!phase.over_time || !phase.over_time[name]) return [[phase.start, phase.pressure[name] ?? null], [phase.end, phase.pressure[name] ?? null]];
      let from = phase.start;
      return phase.over_time[name].flatMap((value, index) => {
        const until = Math.min(phase.end, phase.start + phase.over_time.ends[index]);
        const step = [[from, value], [until, value]];
        from = until;
        return step;
      });
    });
    const rows = [
      { title: "latency", height: 230, log: true, series: [["average", latency(0)], ["p99 of the worst host", latency(1)], ["maximum", latency(2)]] },
      { title: "pages per second", height: 90, series: [["page-ins/s", steps("page_ins")], ["page-outs/s", steps("page_outs")]] },
      { title: "stalled, % of the time (PSI some)", height: 90, series: [["for memory", steps("psi_memory")], ["for I/O", steps("psi_io")]] },
      { title: "swap in use, MB", height: 70, series: [["swap in use", steps("swap_used_mb")]] },
    ];
    const charged = steps("charged_mb");
    if (charged.some((point) => point[1])) rows.push({ title: "charged DRAM, MB", height: 70, series: [["charged DRAM", charged]] });
    let top = 64;
    const grids = [], xs = [], ys = [], series = [];
    const palette = COLOURS[isDark() ? "dark" : "light"];
    rows.forEach((row, index) => {
      grids.push({ outerBoundsMode: "none", left: 64, right: 28, top, height: row.height });
      top += row.height + 48;
      const known = row.series.flatMap((each) => each[1].map((point) => point[1])).filter((value) => typeof value === "number");
      xs.push(ticked(colours, "value", Object.assign(linearTicks(end), { max: end }), (value) => value + " s", { gridIndex: index, splitLine: { show: false },
        name: index === rows.length - 1 ? "time under load" : "", nameLocation: "middle", nameGap: 26 }));
      ys.push(row.log
        ? microAxis(colours, known.concat([data.slo.avg_us, data.slo.p99_us]), { gridIndex: index, name: row.title })
        : ticked(colours, "value", linearTicks(Math.max(0, ...known)), number, { gridIndex: index, name: row.title }));
      row.series.forEach((each, position) => series.push({
        name: each[0], type: "line", xAxisIndex: index, yAxisIndex: index, data: each[1], symbol: "none", connectNulls: false,
        color: palette[(row.log ? [0, 1, 3] : [2, 4])[position] % palette.length],
        lineStyle: { width: row.log ? 1.2 : 2 }, areaStyle: row.log ? undefined : { opacity: 0.15 },
        markArea: position ? undefined : { silent: true, itemStyle: { color: colours.soft, opacity: 0.09 },
          data: phases.filter((phase) => phase.kind === "warmup").map((phase) => [{ xAxis: phase.start }, { xAxis: phase.end }]) },
        markLine: position || index ? undefined
          : limitLines(colours, [[data.slo.avg_us, sloText("average", data.slo.avg_us)], [data.slo.p99_us, sloText("p99", data.slo.p99_us)]], "insideEndTop"),
      }));
    });
    return Object.assign(base(colours), {
      grid: grids, xAxis: xs, yAxis: ys, series,
      axisPointer: { link: [{ xAxisIndex: "all" }] },
      tooltip: Object.assign(base(colours).tooltip, { trigger: "axis", formatter: (hits) => {
        const at = hits[0].axisValue;
        const phase = phases.find((each) => at >= each.start && at <= each.end);
        const seen = new Set();
        const lines = hits.filter((hit) => !seen.has(hit.seriesName) && seen.add(hit.seriesName))
          .map((hit) => hit.marker + clean(hit.seriesName) + ": " + number(hit.value[1]));
        return "<b>" + clean(phase ? phase.title : "") + "</b>, " + at.toFixed(1) + " s<br>" + lines.join("<br>");
      } }),
      dataZoom: printing ? [] : [{ type: "slider", xAxisIndex: rows.map((row, index) => index), bottom: 8, height: 22, borderColor: colours.line, textStyle: { color: colours.soft },
        labelFormatter: (value) => Math.round(value) + " s" }],
      legend: Object.assign(base(colours).legend, { top: 4 }),
    });
  }

  /* Label the part of the time that the slider has chosen. */
  function zoom(chart) {
    const { startValue, endValue } = chart.getOption().dataZoom[0], customValues = ticksBetween(startValue, endValue);
    chart.setOption({ xAxis: chart.getOption().xAxis.map(() => ({ axisLabel: { customValues }, axisTick: { customValues }, splitLine: { customValues } })) });
  }

  /* Dots with intervals, a row for each profile in each cell; above them, the range of each profile over the cells. */
  const INTERVAL = "95 % interval over the runs", RANGE = "range over the cells (no interval)";
  function ratios(colours) {
    const figure = document.getElementById("figure");
    const cells = data.ratios.filter((row) => row.figure === (figure ? figure.value : "p99_us"));
    const palette = COLOURS[isDark() ? "dark" : "light"];
    const times = (value) => value.toFixed(2) + " ×";
    const figures = (formatter) => ({ show: true, position: "right", distance: 6, color: colours.text, fontSize: 10, formatter });
    const rows = [], dots = data.profiles.map(() => []), ranges = data.profiles.map(() => null), whiskers = [];
    if (cells.length > 1) {
      rows.push({ heading: "all " + cells.length + " cells" });
      data.profiles.forEach((profile, index) => {
        const known = cells.map((cell) => cell.values[index]).filter((value) => value !== null);
        if (known.length) ranges[index] = [[Math.min(...known), rows.length], [Math.max(...known), rows.length]];
        rows.push({ name: profile.name });
      });
    }
    for (const cell of cells) {
      rows.push({ heading: cell.title });
      data.profiles.forEach((profile, index) => {
        const value = cell.values[index], interval = cell.intervals[index];
        if (value !== null) dots[index].push({ value: [value, rows.length], cell: cell.title, interval });
        if (interval) whiskers.push([{ value: [interval[0], rows.length] }, { value: [interval[1], rows.length], label: figures(() => times(value)) }]);
        rows.push({ name: profile.name });
      });
    }
    const known = cells.flatMap((cell) => cell.values.concat(...cell.intervals.filter(Boolean))).filter((value) => value > 0).concat([1]);
    const ends = (colour) => ({ type: "line", yAxisIndex: 0, silent: true, tooltip: { show: false }, color: colour, z: 1 });
    return Object.assign(base(colours), {
      grid: { outerBoundsMode: "none", left: narrow() ? 84 : 140, right: narrow() ? 52 : 72, top: narrow() ? 112 : 64, bottom: 52 },
      tooltip: Object.assign(base(colours).tooltip, { trigger: "item", formatter: (hit) => "<b>" + clean(hit.data.cell) + "</b><br>" + hit.marker + clean(hit.seriesName) + ": "
        + times(hit.value[0]) + (hit.data.interval ? "<br>" + INTERVAL + ": " + hit.data.interval.map((each) => each.toFixed(2)).join(" to ") : "<br>indicative: too few runs for an interval") }),
      xAxis: ticked(colours, "log", logTicks(known), (value) => value + " ×", { name: "latency as a multiple of that under " + data.baseline, nameLocation: "middle", nameGap: 30 }),
      yAxis: axis(colours, { type: "category", inverse: true, data: rows.map((row) => row.name || ""), splitLine: { show: false }, axisTick: { show: false },
        axisLine: { show: false }, axisLabel: { interval: 0, width: narrow() ? 72 : 128, overflow: "truncate", hideOverlap: false } }),
      series: [
        ...data.profiles.map((profile, index) => ({
          name: profile.name, type: "scatter", color: palette[index % palette.length], symbolSize: 11, z: 5, data: dots[index],
          // With an interval, the figure stands at the end of its line.
          label: figures((hit) => (hit.data.interval ? "" : times(hit.value[0]))),
          markLine: index ? undefined : { silent: true, symbol: "none", lineStyle: { color: colours.soft, type: "dashed", width: 1.5 },
            data: [{ xAxis: 1, label: { color: colours.soft, position: "start", formatter: "as " + data.baseline } }] },
        })),
        // Series that share a name share their entry in the legend.
        ...whiskers.map((each) => Object.assign(ends(colours.text), { name: INTERVAL, data: each, symbol: "rect", symbolSize: [2, 11], lineStyle: { width: 1.5 }, z: 4 })),
        ...ranges.map((each, index) => each && Object.assign(ends(palette[index % palette.length]), { name: RANGE, data: each, symbol: "none",
          lineStyle: { width: 12, opacity: 0.45 } })).filter(Boolean),
        { type: "scatter", silent: true, symbolSize: 0, tooltip: { show: false }, data: rows.map((row, index) => (row.heading ? { value: [logTicks(known).min, index], name: row.heading } : null)).filter(Boolean),
          label: { show: true, position: "right", distance: 4, color: colours.text, fontWeight: 600, fontSize: 12, formatter: (hit) => hit.name } },
      ],
      legend: Object.assign(base(colours).legend, { type: "plain", data: [...data.profiles.map((profile) => ({ name: profile.name })),
        ...(whiskers.length ? [{ name: INTERVAL }] : []), ...(cells.length > 1 ? [{ name: RANGE, icon: "rect", itemStyle: { color: colours.soft, opacity: 0.5 } }] : [])] }),
    });
  }

  /* An axis for values: logarithmic, or from 0. Counts have no ticks between whole numbers. */
  const scale = (colours, log, values, more) => ticked(colours, log ? "log" : "value",
    log ? logTicks(values) : linearTicks(Math.max(0, ...values), values.every(Number.isInteger)), number, more);

  const values = (chart, column) => chart.series.flatMap((each) => each.points.map((point) => point[column])).filter((value) => value !== null);

  /* A chart of an experiment, with one line for each series. */
  const lines = (chart) => (colours) => Object.assign(base(colours), {
    grid: { outerBoundsMode: "none", left: 72, right: narrow() ? 26 : 44, top: 64, bottom: 52 },
    tooltip: Object.assign(base(colours).tooltip, { trigger: "axis", formatter: (hits) => "<b>" + clean(chart.x) + " " + number(hits[0].axisValue) + "</b>, "
      + clean(chart.y) + "<br>" + hits.map((hit) => hit.marker + clean(hit.seriesName) + ": " + number(hit.value[1])).join("<br>") }),
    xAxis: scale(colours, chart.log_x, values(chart, 0), { name: chart.x, nameLocation: "middle", nameGap: 28 }),
    yAxis: scale(colours, chart.log_y, values(chart, 1), { name: chart.y }),
    series: chart.series.map((each, index) => ({
      name: each.name, type: "line", data: each.points, symbol: "circle", symbolSize: 6, emphasis: { focus: "series" },
      lineStyle: { width: 2, type: DASHES[Math.floor(index / 8) % 3] },
    })),
  });

  /* A density: the curves of its ramps as shares of the objective, which the sliders move. The rules are those of
   * plugin_utils/density; a test compares the two. */
  const CLIP = 0.2, AROUND = [-0.05, 0, 0.05], NEIGHBOURS = 2, FIGURES = ["average", "p99"];
  const mean = (list) => list.reduce((sum, each) => sum + each, 0) / list.length;
  function rising(values, weights) {
    const blocks = [];
    values.forEach((value, index) => {
      blocks.push([value, weights[index], 1]);
      while (blocks.length > 1 && blocks[blocks.length - 2][0] > blocks[blocks.length - 1][0]) {
        const high = blocks.pop(), low = blocks.pop(), weight = low[1] + high[1];
        blocks.push([(low[0] * low[1] + high[0] * high[1]) / weight, weight, low[2] + high[2]]);
      }
    });
    return blocks.flatMap((block) => Array(block[2]).fill(block[0]));
  }
  function fitted(points, clip) {
    const of = new Map();
    for (const [size, value] of points) of.set(size, (of.get(size) || []).concat([Math.max(-clip, Math.min(clip, value))]));
    const sizes = [...of.keys()].sort((a, b) => a - b);
    return { sizes, fit: rising(sizes.map((size) => mean(of.get(size))), sizes.map((size) => of.get(size).length)) };
  }
  function crossing(points, wall) {
    const { sizes, fit } = fitted(points, CLIP);
    const at = (limit) => {
      const place = fit.reduce((last, value, index) => (value <= limit ? index : last), -1);
      if (place < 0) return Math.log(sizes[0]) - (sizes.length > 1 ? Math.log(sizes[1] / sizes[0]) / 2 : 0);
      if (place + 1 < sizes.length) return Math.log(sizes[place]) + Math.log(sizes[place + 1] / sizes[place]) * (limit - fit[place]) / (fit[place + 1] - fit[place]);
      return wall === null ? Math.log(sizes[place]) : Math.log(sizes[place] * wall) / 2;
    };
    const over = fit.some((value) => value > 0);
    return { log: mean(AROUND.map(at)), open: !over && wall === null, below: fit[0] > 0 };
  }
  function median(values) {
    const sorted = [...values].sort((a, b) => a - b), half = Math.floor(sorted.length / 2);
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
  /* The running median of points by size, which takes single slow windows from the curve of the references. */
  function withoutSpikes(points) {
    const ordered = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]), last = ordered.length - 1;
    return ordered.map(([size], place) => {
      const around = Math.min(NEIGHBOURS, place, last - place);
      return [size, median(ordered.slice(place - around, place + around + 1).map((each) => each[1]))];
    });
  }
  /* The natural logarithms of figure / limit of a point, by criterion: of the fleet and, where they have their own, of the references. */
  function excesses(point, aim) {
    return [0, 1].flatMap((figure) => {
      if (aim.kind === "absolute") return [Math.log(point.upper[figure] / aim.limits[figure])];
      if (!point.beside) return [Math.log(point.fleet[figure] / aim.limits[figure] / point.idle[figure])];
      return [Math.log(point.fleet[figure] / aim.limits[figure] / point.beside[figure]), Math.log(point.beside[figure] / aim.limits[figure] / point.idle[figure])];
    });
  }
  function objective() {
    const kind = document.getElementById("objective-kind").value;
    return { kind, limits: FIGURES.map((name) => Math.exp(Number(document.getElementById("limit-" + name).value))) };
  }
  /* The levels of the references over a ramp, without the moods of the machine. */
  function steady(sizes, levels) {
    const middle = median(levels), order = sizes.map((nothing, index) => index).sort((a, b) => sizes[a] - sizes[b]);
    const fit = rising(order.map((index) => Math.max(middle - 0.5, Math.min(middle + 0.5, levels[index]))), order.map(() => 1));
    const found = [];
    order.forEach((index, place) => { found[index] = fit[place]; });
    return found;
  }
  function carried(arm, aim) {
    const found = arm.rounds.filter((ramp) => ramp.points.some((point) => point.clean)).map((ramp) => {
      const looked = ramp.points.filter((point) => point.clean);
      const clean = looked.map((point) => ({ size: point.size, of: excesses(point, aim) }));
      if (aim.kind === "absolute" && looked.every((point) => point.beside_upper)) FIGURES.forEach((nothing, figure) => {
        const levels = looked.map((point) => Math.log(point.beside_upper[figure]));
        steady(looked.map((point) => point.size), levels).forEach((calm, index) => { clean[index].of[figure] += calm - levels[index]; });
      });
      const all = clean[0].of.map((nothing, index) => {
        const own = clean.map((each) => [each.size, each.of[index]]), isReferences = clean[0].of.length > FIGURES.length && index % 2;
        return crossing(isReferences ? withoutSpikes(own) : own, ramp.wall);
      });
      return Object.assign({ round: ramp.round }, all.reduce((least, each) => (each.log < least.log ? each : least)));
    });
    if (!found.length) return null;
    return { found, size: Math.floor(Math.exp(median(found.map((each) => each.log))) * (1 + 1e-9)), open: found.some((each) => each.open), below: 2 * found.filter((each) => each.below).length >= found.length };
  }
  /* How many times as many hosts an arm carries, over the rounds that both have; empty if that is unknown. */
  function timesText(arm, first) {
    if (!arm || !first || arm.below || first.below) return "";
    const pairs = arm.found.flatMap((each) => first.found.filter((other) => other.round === each.round).map((other) => each.log - other.log));
    return pairs.length ? " (" + (arm.open ? "at least " : "") + Math.exp(median(pairs)).toFixed(1) + "\u00a0×)" : "";
  }
  const sizeText = (found) => (found === null ? "unknown" : (found.below ? "fewer than " : found.open ? "at least " : "") + found.size);
  function said(aim) {
    const all = data.arms.map((arm) => carried(arm, aim)), first = all[0];
    document.getElementById("carried").textContent = data.arms.map((arm, index) => arm.name + " " + sizeText(all[index])
      + (index ? timesText(all[index], first) : "")).join(", ");
    FIGURES.forEach((name, figure) => {
      const limit = aim.limits[figure];
      document.getElementById("limit-" + name + "-text").textContent = aim.kind === "absolute" ? number(limit) + " µs" : limit.toFixed(2) + "\u00a0×";
    });
    return all;
  }
  function ramps(colours) {
    const aim = objective(), all = said(aim), palette = COLOURS[isDark() ? "dark" : "light"];
    const percent = (value) => (value >= 100 ? number(value) + " ×" : round(100 * value) + " %");
    const share = (point, figure) => Math.exp(aim.kind === "absolute" ? excesses(point, aim)[figure] : excesses(point, aim)[point.beside ? 2 * figure : figure]);
    const reference = (point, figure) => (!point.beside ? null
      : aim.kind === "absolute" ? point.beside[figure] / aim.limits[figure] : Math.exp(excesses(point, aim)[2 * figure + 1]));
    const every = data.arms.flatMap((arm) => arm.rounds.flatMap((ramp) => ramp.points));
    const largest = Math.max(...every.map((point) => point.size), ...data.arms.flatMap((arm) => arm.rounds.map((ramp) => ramp.wall || 0)));
    const sizes = linearTicks(largest, true);
    const values = every.filter((point) => point.clean).flatMap((point) => [0, 1].flatMap((figure) => [share(point, figure), reference(point, figure)])).filter((value) => value).concat([1]);
    const ticks = logTicks(values.map((value) => Math.min(value, 8)));
    const left = narrow() ? 58 : 84, tall = 290, top = narrow() && data.arms.length > 2 ? 118 : 92, tops = [top, top + tall + 96];
    const series = [];
    [1, 0].forEach((figure, grid) => data.arms.forEach((arm, index) => {
      const colour = palette[index % palette.length], at = { xAxisIndex: grid, yAxisIndex: grid };
      const clean = arm.rounds.flatMap((ramp) => ramp.points.filter((point) => point.clean));
      const fit = (of) => { const known = clean.filter((point) => of(point)); const f = fitted(known.map((point) => [point.size, Math.log(of(point))]), 3); return f.sizes.map((size, place) => [size, Math.exp(f.fit[place])]); };
      arm.rounds.forEach((ramp) => {
        series.push(Object.assign({ name: arm.name, type: "line", color: colour, lineStyle: { width: 1, opacity: 0.35 }, symbolSize: 6,
          data: ramp.points.map((point) => ({ value: [point.size, share(point, figure)], point, figure, round: ramp.round, symbol: point.clean ? "circle" : "emptyCircle",
            itemStyle: { opacity: point.clean ? 0.5 : 0.9 } })) }, at));
        if (ramp.wall !== null) series.push(Object.assign({ name: arm.name, type: "scatter", color: colour, symbolSize: 15, z: 6, data: [{ value: [ramp.wall, 1], end: ramp.end, round: ramp.round,
          symbol: "path://M2 0L10 8L18 0L20 2L12 10L20 18L18 20L10 12L2 20L0 18L8 10L0 2Z" }] }, at));
      });
      series.push(Object.assign({ name: arm.name, type: "line", silent: true, color: colour, symbol: "none", lineStyle: { width: 2.5 }, data: fit((point) => share(point, figure)), z: 4 }, at));
      series.push(Object.assign({ name: arm.name, type: "line", silent: true, color: colour, symbol: "none", lineStyle: { width: 1.5, type: "dashed" }, data: fit((point) => reference(point, figure)), z: 3 }, at));
      if (all[index]) series.push(Object.assign({ name: arm.name, type: "scatter", silent: true, color: colour, symbol: "diamond", symbolSize: 12, z: 7, data: [[all[index].size, 1]],
        label: { show: !grid, position: "top", distance: 6 + 15 * index, color: colours.text, fontWeight: 600, formatter: arm.name + " " + sizeText(all[index]) } }, at));
    }));
    const key = (name, type) => ({ name, type: "line", data: [], color: colours.soft, symbol: "none", lineStyle: { width: 2, type } });
    return Object.assign(base(colours), {
      title: [["p99 as a share of the objective", tops[0] - 34], ["average as a share of the objective", tops[1] - 34]].map((each) => ({ text: each[0], left: 8, top: each[1],
        textStyle: { color: colours.soft, fontSize: 12, fontWeight: 400 } })),
      grid: tops.map((top) => ({ outerBoundsMode: "none", left, right: 28, top, height: tall })),
      xAxis: [0, 1].map((grid) => ticked(colours, "value", sizes, number, { gridIndex: grid, splitLine: { show: false }, name: "hosts in the fleet", nameLocation: "middle", nameGap: 28 })),
      yAxis: [0, 1].map((grid) => ticked(colours, "log", ticks, percent, { gridIndex: grid })),
      tooltip: Object.assign(base(colours).tooltip, { trigger: "item", formatter: (hit) => {
        const found = hit.data;
        if (found.end !== undefined) return "<b>" + clean(hit.seriesName) + "</b>, round " + found.round + ": " + hit.value[0] + " do not fit<br>" + clean(found.end);
        const point = found.point;
        return "<b>" + clean(hit.seriesName) + "</b>, round " + found.round + ", " + point.size + " hosts<br>" + FIGURES[found.figure] + " " + number(point.upper[found.figure]) + " µs, "
          + percent(round(Number(share(point, found.figure).toPrecision(3)))) + " of the objective" + (point.beside ? "<br>references " + number(point.beside[found.figure]) + " µs" : "")
          + (point.page_ins === null ? "" : "<br>" + number(point.page_ins) + " page-ins per second") + (point.clean ? "" : "<br>disturbed: " + clean(point.disturbed));
      } }),
      series: series.concat([key("fleet", "solid"), key("references", "dashed")], [0, 1].map((grid) => ({ type: "line", xAxisIndex: grid, yAxisIndex: grid, data: [], silent: true,
        markLine: limitLines(colours, [[1, "objective"]], "insideEndBottom"),
        markArea: { silent: true, itemStyle: { color: colours.fail, opacity: 0.07 }, data: [[{ yAxis: 1 }, { yAxis: ticks.max }]] } }))),
      legend: Object.assign(base(colours).legend, { type: "plain", data: data.arms.map((arm) => ({ name: arm.name, icon: "circle" }))
        .concat([{ name: "fleet", icon: "path://M0 4H30V6H0Z" }, { name: "references", icon: "path://M0 4H7V6H0ZM11 4H19V6H11ZM23 4H30V6H23Z" }]) }),
    });
  }

  const DRAW = { run: { percentiles, hosts, heat, time }, comparison: { percentiles, ratios }, density: { ramps } }[data.kind] || {};
  for (const chart of data.lines || []) DRAW[chart.name] = lines(chart);
  function setSliders() {
    const kind = document.getElementById("objective-kind").value, ends = data.sliders[kind];
    FIGURES.forEach((name, figure) => {
      const slider = document.getElementById("limit-" + name);
      slider.min = Math.log(ends[figure][0]);
      slider.max = Math.log(ends[figure][1]);
      slider.step = "any";
      slider.value = Math.log(ends[figure][2]);
    });
  }
  if (data.kind === "density") {
    setSliders();
    document.getElementById("objective-kind").addEventListener("change", () => { setSliders(); draw(); });
    for (const name of FIGURES) document.getElementById("limit-" + name).addEventListener("input", () => draw());
  } else if (data.kind === "run") {
    data.curves = (latency) => data.cells.map((cell) => ({ name: cell.title, points: cell.curves[latency] }));
  } else {
    data.curves = () => {
      const chosen = document.getElementById("cell");
      const cell = data.cells[chosen ? chosen.selectedIndex : 0];
      return cell.curves.map((each) => ({ name: each.name, points: each.points }));
    };
  }

  function draw() {
    const colours = paint();
    charts.splice(0).forEach((chart) => chart.dispose());
    for (const [name, options] of Object.entries(DRAW)) {
      const place = document.getElementById("chart-" + name);
      if (!place) continue;
      const chart = echarts.init(place, null, { renderer: "svg", width: printing ? 1000 : undefined });
      chart.setOption(options(colours));
      if (name === "time") chart.on("datazoom", () => zoom(chart));
      charts.push(chart);
    }
    document.documentElement.dataset.charts = String(charts.length);
  }
  draw();
  for (const name of ["latency", "cell", "figure"]) {
    const chosen = document.getElementById(name);
    if (chosen) chosen.addEventListener("change", draw);
  }
  dark.addEventListener("change", draw);
  let waiting, width = document.documentElement.clientWidth;
  window.addEventListener("resize", () => {
    if (document.documentElement.clientWidth === width || printing) return;
    width = document.documentElement.clientWidth;
    clearTimeout(waiting);
    waiting = setTimeout(draw, 150);
  });
  // Paper cannot be clicked, so everything is open on it.
  let closed = [];
  window.addEventListener("beforeprint", () => {
    printing = true;
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((each) => { each.open = true; });
    draw();
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    closed.splice(0).forEach((each) => { each.open = false; });
    draw();
  });
}());
