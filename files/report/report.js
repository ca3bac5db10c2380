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
      legend: { type: "scroll", top: 4, textStyle: { color: colours.text }, pageTextStyle: { color: colours.text }, pageIconColor: colours.text,
        pageIconInactiveColor: colours.line, inactiveColor: colours.line },
    };
  }
  function axis(colours, more) {
    return Object.assign({
      axisLine: { show: true, lineStyle: { color: colours.soft } }, axisTick: { lineStyle: { color: colours.line } },
      axisLabel: { color: colours.soft, hideOverlap: true }, splitLine: { lineStyle: { color: colours.line, opacity: 0.6 } },
      nameTextStyle: { color: colours.soft },
    }, more, more && more.axisLabel ? { axisLabel: Object.assign({ color: colours.soft, hideOverlap: true }, more.axisLabel) } : {});
  }
  const microAxis = (colours, more) => axis(colours, Object.assign({ type: "log", axisLabel: { formatter: micro, showMinLabel: false, showMaxLabel: false } }, more));
  const bounds = (values) => {
    const known = values.filter((value) => value > 0);
    const low = Math.min(...known), high = Math.max(...known);
    return { min: Math.pow(10, Math.floor(Math.log10(low) * 2) / 2), max: Math.pow(10, Math.ceil(Math.log10(high) * 2) / 2) };
  };

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
    const values = curves.flatMap((each) => each.points.map((point) => point[1])).concat([data.slo.p99_us]);
    const right = Math.pow(10, Math.ceil(Math.log10(Math.max(1000, ...curves.flatMap((each) => each.points.map((point) => point[0]))))));
    const slo = data.slo.p99_us;
    return Object.assign(base(colours), {
      grid: { outerBoundsMode: "none", left: 64, right: narrow() ? 18 : 36, top: 48, bottom: 52 },
      tooltip: Object.assign(base(colours).tooltip, { trigger: "axis", formatter: (hits) => "<b>" + exactly(hits[0].axisValue) + "</b>, µs<br>"
        + hits.filter((hit) => hit.seriesIndex < curves.length).map((hit) => hit.marker + clean(hit.seriesName) + ": " + number(hit.value[1])).join("<br>") }),
      xAxis: axis(colours, { type: "log", min: 1, max: right, name: "percentile of the requests", nameLocation: "middle", nameGap: 28,
        axisLabel: { formatter: percentile } }),
      yAxis: microAxis(colours, bounds(values)),
      series: curves.map((each, index) => ({
        name: each.name, type: "line", data: each.points, symbol: "none", emphasis: { focus: "series" },
        lineStyle: { width: 2, type: DASHES[Math.floor(index / 8) % 3] },
      })).concat([{
        name: "SLO: p99 ≤ " + number(slo) + " µs", type: "line", data: [[1, slo], [100, slo], [100, bounds(values).min]],
        symbol: "none", silent: true, lineStyle: { color: colours.fail, type: "dashed", width: 1.5 }, itemStyle: { color: colours.fail },
        areaStyle: { color: colours.fail, opacity: 0.05 },
      }]),
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
    const bad = (dot) => dot.host[2] > data.slo.p99_us || dot.host[1] > data.slo.avg_us;
    const limits = bounds(dots.map((dot) => dot.value[1]).concat([data.slo.p99_us]));
    const group = (name, wanted, colour, symbol, size) => ({
      name, type: "scatter", data: dots.filter((dot) => bad(dot) === wanted), symbol, symbolSize: size,
      itemStyle: { color: colour, opacity: 0.75 },
    });
    const slo = { symbol: "none", silent: true, lineStyle: { color: colours.fail, type: "dashed", width: 1.5 },
      label: { color: colours.fail, position: "insideEndTop", formatter: "SLO: p99 ≤ " + number(data.slo.p99_us) + " µs" },
      data: [{ yAxis: data.slo.p99_us }] };
    return Object.assign(base(colours), {
      grid: { outerBoundsMode: "none", left: 64, right: 16, top: 56, bottom: narrow() ? 96 : 56 },
      tooltip: Object.assign(base(colours).tooltip, { trigger: "item", formatter: (hit) => "<b>" + clean(hit.data.host[0]) + "</b><br>" + clean(hit.data.cell)
        + "<br>average " + number(hit.data.host[1]) + " µs<br>p99 " + number(hit.data.host[2]) + " µs<br>max " + number(hit.data.host[3]) + " µs" }),
      xAxis: axis(colours, { type: "value", min: -0.6, max: cells.length - 0.4, interval: 1, splitLine: { show: false }, axisTick: { show: false },
        axisLabel: { show: false } }),
      yAxis: microAxis(colours, Object.assign({ name: "p99", axisLine: { onZero: false, lineStyle: { color: colours.soft } } }, limits)),
      series: [
        Object.assign(group("within the SLO", false, COLOURS[isDark() ? "dark" : "light"][0], "circle", 8), { markLine: slo }),
        group("misses the SLO", true, colours.fail, "diamond", 12),
        // Invisible points whose labels are the names of the columns, since a value axis cannot show names.
        { type: "scatter", silent: true, symbolSize: 0, tooltip: { show: false }, data: cells.map((cell, column) => [column, limits.min]),
          label: { show: true, position: "bottom", distance: 8, color: colours.soft, fontSize: narrow() ? 10 : 12, lineHeight: 15, rotate: narrow() ? 45 : 0,
            align: narrow() ? "right" : "center",
            formatter: (hit) => cells[hit.dataIndex].title.replace(", ", narrow() ? " " : "\n").replace(narrow() ? "influence" : "\u0000", "i") } },
      ],
      legend: Object.assign(base(colours).legend, { data: ["within the SLO", "misses the SLO"] }),
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
    const steps = (name) => phases.flatMap((phase) => [[phase.start, phase.pressure[name]], [phase.end, phase.pressure[name]]]);
    const rows = [
      { title: "latency", height: 230, log: true, series: [["average", latency(0)], ["p99 of the worst host", latency(1)], ["maximum", latency(2)]] },
      { title: "pages per second", height: 90, series: [["page-ins/s", steps("page_ins")], ["page-outs/s", steps("page_outs")]] },
      { title: "stalled, % (PSI some)", height: 90, series: [["for memory", steps("psi_memory")], ["for I/O", steps("psi_io")]] },
      { title: "swap in use, MB", height: 70, series: [["swap in use", steps("swap_used_mb")]] },
    ];
    let top = 64;
    const grids = [], xs = [], ys = [], series = [];
    const palette = COLOURS[isDark() ? "dark" : "light"];
    rows.forEach((row, index) => {
      grids.push({ outerBoundsMode: "none", left: 64, right: 28, top, height: row.height });
      top += row.height + 44;
      xs.push(axis(colours, { type: "value", gridIndex: index, min: 0, max: end, splitLine: { show: false },
        axisLabel: { show: index === rows.length - 1, formatter: (value) => Math.round(value) + " s" } }));
      ys.push(row.log
        ? microAxis(colours, Object.assign({ gridIndex: index, name: row.title, nameTextStyle: { color: colours.soft, align: "left" } },
          bounds(row.series.flatMap((each) => each[1].map((point) => point[1])).concat([data.slo.avg_us]))))
        : axis(colours, { type: "value", gridIndex: index, name: row.title, nameTextStyle: { color: colours.soft, align: "left" }, min: 0, splitNumber: 2,
          axisLabel: { formatter: number } }));
      row.series.forEach((each, position) => series.push({
        name: each[0], type: "line", xAxisIndex: index, yAxisIndex: index, data: each[1], symbol: "none", connectNulls: false,
        color: palette[(row.log ? [0, 1, 3] : [2, 4])[position] % palette.length],
        lineStyle: { width: row.log ? 1.2 : 2 }, areaStyle: row.log ? undefined : { opacity: 0.15 },
        markArea: position ? undefined : { silent: true, itemStyle: { color: colours.soft, opacity: 0.09 },
          data: phases.filter((phase) => phase.kind === "warmup").map((phase) => [{ xAxis: phase.start }, { xAxis: phase.end }]) },
        markLine: position || index ? undefined : { silent: true, symbol: "none",
          label: { formatter: "average ≤ " + number(data.slo.avg_us) + " µs", position: "insideEndTop", color: colours.fail },
          lineStyle: { color: colours.fail, type: "dashed" }, data: [{ yAxis: data.slo.avg_us }] },
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

  function ratios(colours) {
    const figure = document.getElementById("figure");
    const rows = data.ratios.filter((row) => row.figure === (figure ? figure.value : "p99_us"));
    const palette = COLOURS[isDark() ? "dark" : "light"];
    const series = data.profiles.map((profile, index) => ({
      name: profile.name, type: "bar", barGap: "10%", color: palette[index % palette.length],
      data: rows.map((row) => row.values[index]), label: { show: rows.length * data.profiles.length <= 40, position: "top", color: colours.text, fontSize: 10,
        formatter: (hit) => (hit.value ? hit.value.toFixed(hit.value >= 10 ? 0 : 1) + "×" : "") },
    }));
    const whiskers = data.profiles.map((profile, index) => ({
      name: profile.name, type: "custom", silent: true, clip: true, tooltip: { show: false }, z: 5, itemStyle: { color: colours.soft },
      data: rows.map((row, x) => (row.intervals[index] ? [x, ...row.intervals[index]] : null)).filter(Boolean),
      renderItem: (parameters, api) => {
        const layout = api.barLayout({ barGap: "10%", count: data.profiles.length });
        const middle = layout[index].offsetCenter;
        const low = api.coord([api.value(0), api.value(1)]), high = api.coord([api.value(0), api.value(2)]);
        const stroke = { stroke: colours.text, lineWidth: 1, fill: null };
        const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 }, style: stroke });
        const x = low[0] + middle;
        return { type: "group", children: [line(x, low[1], x, high[1]), line(x - 3, low[1], x + 3, low[1]), line(x - 3, high[1], x + 3, high[1])] };
      },
    }));
    const known = rows.flatMap((row) => row.values).filter((value) => value > 0);
    return Object.assign(base(colours), {
      grid: { outerBoundsMode: "none", left: 56, right: 16, top: 56, bottom: narrow() ? 110 : 56 },
      tooltip: Object.assign(base(colours).tooltip, { trigger: "axis", axisPointer: { type: "shadow" }, formatter: (hits) => "<b>" + clean(hits[0].name.replace("\n", " ")) + "</b><br>"
        + hits.filter((hit) => hit.seriesType === "bar").map((hit) => {
          const interval = rows[hit.dataIndex].intervals[data.profiles.findIndex((profile) => profile.name === hit.seriesName)];
          return hit.marker + clean(hit.seriesName) + ": " + (hit.value ? hit.value.toFixed(2) + " ×" : "–")
            + (interval ? " (" + interval[0].toFixed(2) + " to " + interval[1].toFixed(2) + ")" : "");
        }).join("<br>") }),
      xAxis: axis(colours, { type: "category", data: rows.map((row) => row.title), axisLabel: { interval: 0, rotate: narrow() ? 45 : 0, fontSize: narrow() ? 10 : 12 } }),
      yAxis: axis(colours, { type: "log", name: "× " + data.baseline, nameTextStyle: { color: colours.soft, align: "left" },
        min: Math.pow(10, Math.floor(Math.log10(Math.min(0.9, ...known)))), max: Math.pow(10, Math.ceil(Math.log10(Math.max(2, ...known) * 1.2))), axisLabel: { formatter: (value) => value + " ×" } }),
      series: series.concat(whiskers),

    });
  }

  function curve(colours) {
    const palette = COLOURS[isDark() ? "dark" : "light"];
    const known = data.profiles.flatMap((profile) => profile.curve.map((point) => point[1])).filter((value) => value > 0);
    const largest = Math.max(...data.profiles.flatMap((profile) => profile.curve.map((point) => point[0])));
    const line = (column, grid) => data.profiles.map((profile, index) => ({
      name: profile.name, type: "line", xAxisIndex: grid, yAxisIndex: grid, color: palette[index % palette.length], symbolSize: 9,
      lineStyle: { width: 2, type: DASHES[Math.floor(index / 8) % 3] },
      data: profile.curve.map((point) => ({ value: [point[0], point[column]], point, symbol: point[3] ? "circle" : "emptyCircle" })),
      markLine: grid || index ? undefined : { silent: true, symbol: "none", lineStyle: { color: colours.fail, type: "dashed", width: 1.5 },
        label: { color: colours.fail, position: "insideStartTop", formatter: "SLO: p99 ≤ " + number(data.slo.p99_us) + " µs" }, data: [{ yAxis: data.slo.p99_us }] },
      /* N90 is the largest whole number, so it may lie up to one host further. */
      markArea: grid ? undefined : { silent: true, itemStyle: { opacity: 0.13 },
        data: [[{ xAxis: profile.interval[0] }, { xAxis: Math.min(largest, profile.interval[1] === null ? largest : profile.interval[1] + 1) }]] },
    }));
    const x = (grid) => axis(colours, { type: "value", gridIndex: grid, min: 0, max: largest, minInterval: 1, splitLine: { show: false },
      name: grid ? "hosts in the fleet" : "", nameLocation: "middle", nameGap: 28 });
    return Object.assign(base(colours), {
      grid: [{ outerBoundsMode: "none", left: 64, right: 24, top: 64, height: 240 }, { outerBoundsMode: "none", left: 64, right: 24, top: 352, height: 140 }],
      xAxis: [x(0), x(1)],
      yAxis: [
        microAxis(colours, Object.assign({ gridIndex: 0, name: "p99 of the worst host", nameTextStyle: { color: colours.soft, align: "left" } },
          bounds(known.concat([data.slo.p99_us])))),
        axis(colours, { type: "value", gridIndex: 1, min: 0, max: largest, minInterval: 1, name: "hosts within the SLO",
          nameTextStyle: { color: colours.soft, align: "left" } }),
      ],
      tooltip: Object.assign(base(colours).tooltip, { trigger: "item", formatter: (hit) => "<b>" + clean(hit.seriesName) + "</b>, " + hit.data.point[0] + " hosts<br>p99 of the worst host "
        + number(hit.data.point[1]) + " µs<br>" + hit.data.point[2] + " hosts within the SLO<br>" + clean(hit.data.point[4]) }),
      series: line(1, 0).concat(line(2, 1), [{ name: "all", type: "line", xAxisIndex: 1, yAxisIndex: 1, data: [[0, 0], [largest, largest]], symbol: "none", silent: true,
        lineStyle: { color: colours.soft, type: "dotted", width: 1 } }]),
      legend: Object.assign(base(colours).legend, { data: data.profiles.map((profile) => profile.name) }),
    });
  }

  /* An axis from the first to the last tick; without ticks, the library chooses them. */
  const scale = (colours, log, ticks, formatter) => (ticks && ticks.length
    ? { type: log ? "log" : "value", min: ticks[0], max: ticks[ticks.length - 1], axisLabel: { formatter, customValues: ticks }, axisTick: { customValues: ticks, lineStyle: { color: colours.line } } }
    : { type: log ? "log" : "value", min: log ? "dataMin" : 0, axisLabel: { formatter } });

  /* A chart of an experiment, with one line for each series. */
  const lines = (chart) => (colours) => Object.assign(base(colours), {
    grid: { outerBoundsMode: "none", left: 64, right: narrow() ? 18 : 36, top: 56, bottom: 52 },
    tooltip: Object.assign(base(colours).tooltip, { trigger: "axis", formatter: (hits) => "<b>" + clean(chart.x) + " " + number(hits[0].axisValue) + "</b>, "
      + clean(chart.y) + "<br>" + hits.map((hit) => hit.marker + clean(hit.seriesName) + ": " + number(hit.value[1])).join("<br>") }),
    xAxis: axis(colours, Object.assign(scale(colours, chart.log_x, chart.x_ticks, number), { name: chart.x, nameLocation: "middle", nameGap: 28 })),
    yAxis: axis(colours, Object.assign(scale(colours, chart.log_y, chart.y_ticks, number), { name: chart.y, nameTextStyle: { color: colours.soft, align: "left" } })),
    series: chart.series.map((each, index) => ({
      name: each.name, type: "line", data: each.points, symbol: "circle", symbolSize: 6, emphasis: { focus: "series" },
      lineStyle: { width: 2, type: DASHES[Math.floor(index / 8) % 3] },
    })),
  });

  const DRAW = { run: { percentiles, hosts, heat, time }, comparison: { percentiles, ratios }, density: { curve } }[data.kind] || {};
  for (const chart of data.lines || []) DRAW[chart.name] = lines(chart);
  if (data.kind === "run") {
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
  window.addEventListener("beforeprint", () => { printing = true; draw(); });
  window.addEventListener("afterprint", () => { printing = false; draw(); });
}());
