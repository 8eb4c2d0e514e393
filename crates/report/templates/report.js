  // Draws the plots of runs, behind charts.js.
  // --- distributions -------------------------------------------------------------------------------
  const controls = byId("distribution-controls");
  const chosen = (name) => controls.elements[name].value;
  const measured = (client) => chosen("from") === "scheduled" ? client.scheduled
    : chosen("samples") === "clean" ? client.clean : client.latency;
  const truth = (client) => chosen("samples") === "clean" && chosen("from") !== "scheduled" ? client.truth_clean : client.truth;
  const useful = (d) => d && d.samples > 0;

  /// Points (latency in µs, share above or at most) with a hover text each. Starts at the top: the
  /// smallest sample, which nothing lies below.
  const points = (d, y, keep = () => true) => {
    const out = { x: [], y: [], text: [] };
    const push = (value, above, what) => {
      if (!keep(above / d.samples)) return;
      out.x.push(us(value));
      out.y.push(y(above, d.samples));
      out.text.push(what);
    };
    push(d.ns[0], d.samples, `smallest ${ns(d.ns[0])}`);
    d.ns.forEach((value, i) => push(value, d.above[i],
      `${percentile(d.above[i] / d.samples)} ${ns(value)}<br>${count(d.above[i])} of ${count(d.samples)} above`));
    return out;
  };
  const above = (n, all) => n > 0 ? n / all : 1 / all;
  const below = (n, all) => 1 - n / all;
  const curve = (client, d, name, y, style, more = {}) => ({
    mode: "lines", name: escape(name), ...points(d, y, more.keep),
    line: style, hovertemplate: `<b>${escape(name)}</b><br>%{text}<extra></extra>`, ...more.trace,
  });

  const intervals = (client, d, y, name) => {
    const known = d.quantiles.filter((q) => q.value);
    return {
      mode: "markers", name: escape(name), showlegend: false, legendgroup: client.label,
      x: known.map((q) => us(q.value.ns)), y: known.map((q) => y(Math.round((1 - q.quantile) * d.samples), d.samples)),
      marker: { color: color(client), size: 5, symbol: SYMBOLS[client.symbol] },
      error_x: {
        type: "data", symmetric: false, thickness: 1.6, width: 5, color: color(client),
        array: known.map((q) => us(q.value.high_ns - q.value.ns)), arrayminus: known.map((q) => us(q.value.ns - q.value.low_ns)),
      },
      text: known.map((q) => `p${+(q.quantile * 100).toPrecision(10)}  ${ns(q.value.ns)}<br>95%: ${ns(q.value.low_ns)} to ${ns(q.value.high_ns)}`),
      hovertemplate: `<b>${escape(name)}</b><br>%{text}<extra></extra>`,
    };
  };

  const tailCurves = (client, d, name) => {
    const end = SUPPORT / d.samples, last = d.ns.length - 1, group = { legendgroup: client.label };
    const supported = curve(client, d, name, above, line(client), { keep: (tail) => tail >= end, trace: group });
    const faint = curve(client, d, name, above, line(client, 1), { keep: (tail) => tail <= end, trace: { ...group, showlegend: false, opacity: 0.75 } });
    if (faint.x.length && supported.x.length) {
      faint.x.unshift(supported.x.at(-1));
      faint.y.unshift(supported.y.at(-1));
      faint.text.unshift(supported.text.at(-1));
    }
    const largest = {
      ...group, mode: "markers", showlegend: false, name: escape(name), x: [us(d.ns[last])], y: [1 / d.samples],
      marker: { symbol: "x-thin-open", size: 9, color: color(client), line: { width: 2 } },
      hovertemplate: `<b>${escape(name)}</b><br>largest of ${count(d.samples)}: ${ns(d.ns[last])}<extra></extra>`,
    };
    return [supported, faint, largest];
  };

  const truthLine = (client, y, gone) => {
    const style = { color: color(client), dash: "1.5px,2.5px", width: 2, shape: "hv" };
    const group = { legendgroup: `${client.label} truth`, legendrank: 2000 };
    if (useful(truth(client))) return [curve(client, truth(client), `${client.label}: truth`, y, style, { trace: group })];
    if (client.known_delay_ns === null) return [];
    const at = us(client.known_delay_ns), name = `${client.label}: known delay`;
    return [{ mode: "lines", name: escape(name), x: [at, at], y: gone, line: style, ...group, hovertemplate: `<b>${escape(name)}</b><br>${ns(client.known_delay_ns)}<extra></extra>` }];
  };

  /// Latency that `tail` of the samples exceed at most.
  const valueAt = (d, tail) => {
    const i = d.above.findIndex((n) => n <= tail * d.samples);
    return d.ns[i < 0 ? d.ns.length - 1 : i];
  };
  /// The truths of all clients as one band, from the lowest to the highest at each share.
  const truthBand = (y) => {
    const truths = data.clients.map(truth).filter(useful);
    if (truths.length === 0) return [];
    const least = Math.max(...truths.map((d) => SUPPORT / d.samples));
    const tails = [];
    for (let i = 0; i <= 60; i++) tails.push(1 - i / 66);
    for (let t = 0.1; t >= least; t /= 1.12) tails.push(t);
    const edge = (pick) => tails.map((t) => us(pick(truths.map((d) => valueAt(d, t)))));
    const low = edge((v) => Math.min(...v)), high = edge((v) => Math.max(...v)), shares = tails.map((t) => y(t, 1));
    const text = tails.map((t, i) => `${percentile(+t.toPrecision(3))} ${ns(low[i] * 1e3)} to ${ns(high[i] * 1e3)}`);
    const name = truths.length > 1 ? `truth, lowest to highest of ${truths.length}` : "truth";
    const rim = { mode: "lines", legendgroup: "truth", line: { color: truthInk(), width: 1.4, dash: "1.5px,2.5px" }, hovertemplate: "<b>truth</b><br>%{text}<extra></extra>", text };
    return [
      { ...rim, mode: "lines", hoverinfo: "skip", hovertemplate: undefined, text: undefined, showlegend: false, x: low.concat(high.slice().reverse()), y: shares.concat(shares.slice().reverse()), fill: "toself", fillcolor: "rgba(120,130,140,0.28)", line: { width: 0 } },
      { ...rim, x: low, y: shares, showlegend: false },
      { ...rim, x: high, y: shares, name },
    ];
  };
  /// Whether the truths lie so close together that one band tells more than a line each.
  const coincide = () => {
    const truths = data.clients.map((c) => c.truth).filter(useful);
    return truths.length > 1 && [0.5, 0.1, 0.01, 0.001, 0.0001].every((tail) => {
      const at = truths.filter((d) => d.samples * tail >= SUPPORT).map((d) => valueAt(d, tail));
      return at.length === 0 || Math.max(...at) <= 2 * Math.min(...at);
    });
  };
  const truths = (y, gone) => ({
    band: () => truthBand(y).concat(data.clients.filter((c) => !useful(truth(c))).flatMap((c) => truthLine(c, y, gone))),
    each: () => data.clients.flatMap((c) => truthLine(c, y, gone)), none: () => [],
  })[chosen("truth")]();

  const drawDistributions = () => {
    const scheduled = chosen("from") === "scheduled", log = chosen("axis") === "log";
    controls.querySelector("[name=samples]").closest("fieldset").disabled = scheduled;
    const shown = data.clients.filter((c) => useful(measured(c)));
    const missing = data.clients.filter((c) => !useful(measured(c))).map((c) => c.label);
    const note = byId("distribution-note");
    note.hidden = !scheduled && missing.length === 0;
    note.textContent = (scheduled ? "Of latencies from the scheduled departure, all samples are shown. " : "")
      + (missing.length ? `${scheduled ? "Without such samples" : "Unknown which samples a stall touched, or none there"}: ${missing.join(", ")}.` : "");
    const marks = (y) => controls.elements.intervals.checked ? shown.map((c) => intervals(c, measured(c), y, c.label)) : [];
    const far = 1.15 * Math.max(1, ...shown.map((c) => valueAt(measured(c), 0.001)));
    const firsts = [...shown.map(measured), ...(chosen("truth") === "none" ? [] : data.clients.map(truth).filter(useful))].map((d) => d.ns[0]);
    const near = Math.max(1, 0.8 * Math.min(...firsts, far));
    const title = `latency from the ${scheduled ? "scheduled" : "actual"} departure, µs`;
    const lowest = Math.min(0.01, ...shown.map((c) => 1 / measured(c).samples));
    const tails = shown.flatMap((c) => tailCurves(c, measured(c), c.label));
    draw("ccdf", [...truths(above, [1, lowest]), ...tails, ...marks(above)], layout(latencyAxis(title, log, far), tailAxis("share above", lowest)));
    const bodies = shown.map((c) => curve(c, measured(c), c.label, below, line(c), { trace: { legendgroup: c.label } }));
    draw("cdf", [...truths(below, [0, 1]), ...bodies], layout(latencyAxis(title, log, far, near), axis("share at most", { range: [-0.02, 1.02] })));
  };

  // --- settings of the host ------------------------------------------------------------------------
  const drawProfiles = () => {
    const box = byId("profile-panels");
    if (!box) return;
    const all = data.clients.filter((c) => c.settings && useful(measured(c)));
    const profiles = [...new Set(all.map((c) => c.settings.profile))];
    const reach = all.flatMap((c) => [measured(c), truth(c)].filter(useful));
    const [near, far] = [Math.max(1, 0.8 * Math.min(...reach.map((d) => d.ns[0]))), 1.15 * Math.max(1, ...reach.map((d) => d.ns.at(-1)))];
    const lowest = Math.min(0.01, ...all.map((c) => 1 / measured(c).samples));
    const panels = [...new Set(all.map((c) => c.settings.of))].map((of, n) => [of, `profile-panel-${n}`]);
    // All of them before the first is drawn: a panel is as wide as the others leave it.
    box.innerHTML = panels.map(([of, id]) => `<div><h3>${escape(of)}</h3><div class="plot" id="${id}"></div></div>`).join("");
    panels.forEach(([of, id]) => {
      const traces = all.filter((c) => c.settings.of === of).flatMap((c) => {
        const styled = { ...c, label: c.settings.profile, color: profiles.indexOf(c.settings.profile) % PRINT_PALETTE.length };
        const reference = truthLine(styled, above, [1, lowest]).map((trace) => ({ ...trace, showlegend: false }));
        return [...reference, ...tailCurves(styled, measured(c), styled.label)];
      });
      draw(id, traces, layout(latencyAxis("latency, µs", true, far, near), tailAxis("share above", lowest)));
    });
  };

  // --- error per percentile ------------------------------------------------------------------------
  const LINEAR_NS = 100;
  const symlog = (v) => Math.sign(v) * (Math.abs(v) <= LINEAR_NS ? Math.abs(v) / LINEAR_NS : 1 + Math.log10(Math.abs(v) / LINEAR_NS));
  /// Side by side within a percentile, so that whiskers don't cover each other.
  const place = (i, c) => i + (c - (data.clients.length - 1) / 2) * Math.min(0.11, 0.7 / data.clients.length);
  const ladderAxis = () => axis("", { tickvals: data.ladder.map((_, i) => i), ticktext: data.ladder, range: [-0.5, data.ladder.length - 0.5], showgrid: false });

  const drawErrors = () => {
    const clean = byId("errors-clean").checked;
    const traces = [], values = [0];
    const of = (client) => clean ? client.errors_clean : client.errors;
    data.clients.forEach((c) => of(c).forEach((e) => e.value && values.push(e.value.low_ns, e.value.high_ns)));
    const low = Math.min(...values), high = Math.max(...values);
    const foot = symlog(low) - 0.35;
    data.clients.forEach((client, c) => {
      const known = of(client).map((e, i) => [e, i]).filter(([e]) => e.value);
      const lacking = of(client).map((e, i) => [e, i]).filter(([e]) => !e.value);
      if (known.length === 0 && lacking.length === 0) return;
      const marker = { color: color(client), size: 8, symbol: SYMBOLS[client.symbol] };
      traces.push({
        mode: "lines+markers", name: escape(client.label), legendgroup: client.label, marker,
        x: known.map(([, i]) => place(i, c)), y: known.map(([e]) => symlog(e.value.ns)),
        line: { color: color(client), dash: client.dash, width: 1 },
        error_y: {
          type: "data", symmetric: false, thickness: 1.6, width: 4, color: color(client),
          array: known.map(([e]) => symlog(e.value.high_ns) - symlog(e.value.ns)), arrayminus: known.map(([e]) => symlog(e.value.ns) - symlog(e.value.low_ns)),
        },
        text: known.map(([e, i]) => `${data.ladder[i]}: off by ${ns(e.value.ns)}<br>95%: ${ns(e.value.low_ns)} to ${ns(e.value.high_ns)}`),
        hovertemplate: `<b>${escape(client.label)}</b><br>%{text}<extra></extra>`,
      });
      traces.push({
        mode: "markers", legendgroup: client.label, showlegend: false, marker: { color: color(client), size: 8, symbol: "x-thin-open", line: { width: 2 } },
        x: lacking.map(([, i]) => place(i, c)), y: lacking.map(() => foot),
        text: lacking.map(([e, i]) => `${data.ladder[i]}: n/a (needs ${count(e.needs)})`),
        hovertemplate: `<b>${escape(client.label)}</b><br>%{text}<extra></extra>`,
      });
    });
    const ticks = [0];
    for (let t = 100; t <= 1e10; t *= 10) {
      if (t <= high * 10) ticks.push(t);
      if (-t >= low * 10) ticks.unshift(-t);
    }
    const tick = (v) => v === 0 ? "0" : (v > 0 ? "+" : "−") + ns(Math.abs(v)).replace(/\.0+ /, " ");
    const yaxis = axis("error", {
      tickvals: ticks.map(symlog), ticktext: ticks.map(tick), range: [foot - 0.2, Math.max(symlog(high) + 0.25, 1)],
    });
    const zero = { type: "line", xref: "paper", x0: 0, x1: 1, y0: 0, y1: 0, line: { color: ink(), width: 1.2 } };
    draw("errors", traces, layout(ladderAxis(), yaxis, { shapes: [zero] }));
  };

  // --- spread from run to run ----------------------------------------------------------------------
  const drawSpread = () => {
    const traces = data.clients.map((client, c) => {
      const known = client.spread.map((s, i) => [s, client.latency.quantiles[i].value, i])
        .filter(([s, v]) => s.lowest_ns > 0 && v && v.ns > 0);
      return {
        mode: "markers", name: escape(client.label), x: known.map(([, , i]) => place(i, c)), y: known.map(() => 1),
        marker: { color: color(client), size: 7, symbol: SYMBOLS[client.symbol] },
        error_y: {
          type: "data", symmetric: false, thickness: 3, width: 5, color: color(client),
          array: known.map(([s, v]) => s.highest_ns / v.ns - 1), arrayminus: known.map(([s, v]) => 1 - s.lowest_ns / v.ns),
        },
        text: known.map(([s, v, i]) => `${data.ladder[i]}: ${ns(s.lowest_ns)} to ${ns(s.highest_ns)}<br>pooled ${ns(v.ns)}`),
        hovertemplate: `<b>${escape(client.label)}</b><br>%{text}<extra></extra>`,
      };
    });
    const ratios = data.clients.flatMap((c) => c.spread.flatMap((s, i) => {
      const v = c.latency.quantiles[i].value;
      return s.lowest_ns > 0 && v ? [s.lowest_ns / v.ns, s.highest_ns / v.ns] : [];
    }));
    const reach = Math.max(1.1, ...ratios, ...ratios.map((r) => 1 / r));
    const marks = [1, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 5, 10, 20, 50, 100, 1000].filter((m) => m === 1 || Math.log(m) > Math.log(reach) / 7).slice(0, 5);
    const lower = marks.slice(1).map((m) => 1 / m);
    const yaxis = axis("times the pooled figure", {
      type: "log", ownTicks: true, tickvals: [...lower, ...marks], ticktext: [...marks.slice(1).map((m) => `÷ ${m}`), ...marks.map((m) => m === 1 ? "pooled" : `× ${m}`)],
      range: [Math.log10(Math.min(1 / 1.05, ...ratios)) - 0.02, Math.log10(reach) + 0.02],
    });
    draw("spread", traces, layout(ladderAxis(), yaxis));
  };

  // --- over time -----------------------------------------------------------------------------------
  const FIGURES = { p50_ns: "p50", p99_ns: "p99", max_ns: "largest" };
  const offerTimes = () => {
    const select = byId("time-choice");
    const offer = (label, value) => select.add(new Option(label, value));
    Object.entries(FIGURES).forEach(([key, name]) => offer(`${name} of every client`, `figure:${key}`));
    data.clients.forEach((client, i) => offer(`p50, p99 and largest of ${client.label}`, `client:${i}`));
    select.value = "figure:p99_ns";
    select.addEventListener("change", drawSeries);
  };
  const stepOf = (all) => all.length > 1 ? all[1].at_s - all[0].at_s : 1;
  /// Where each run begins: runs are laid end to end, each as long as the longest trial of any client in it, with a gap between.
  const runBegins = () => {
    const runs = new Map(), trials = data.clients.flatMap((client) => client.trials);
    let offset = 0;
    for (const run of [...new Set(trials.map((trial) => trial.run))].sort((a, b) => a - b)) {
      runs.set(run, offset);
      offset += Math.max(...trials.filter((trial) => trial.run === run).map(({ measured: all }) => (all.length ? all.at(-1).at_s : 0) + 2 * stepOf(all)));
    }
    return runs;
  };
  const endToEnd = (client, side, key, begins) => {
    const out = { x: [], y: [], text: [] };
    for (const trial of client.trials) {
      const offset = begins.get(trial.run);
      for (const p of trial[side]) {
        out.x.push(offset + p.at_s);
        out.y.push(p[key] === null ? null : us(p[key]));
        out.text.push(`run ${trial.run}, ${p.at_s.toFixed(1)} s, ${count(p.samples)} samples<br>${FIGURES[key]} ${p[key] === null ? "n/a" : ns(p[key])}`);
      }
      const all = trial.measured;
      out.x.push(offset + (all.length ? all.at(-1).at_s : 0) + stepOf(all));
      out.y.push(null);
      out.text.push("");
    }
    return out;
  };
  const timeTrace = (begins) => (client, side, key, name, style) => ({
    mode: "lines+markers", name: escape(name), connectgaps: false, ...endToEnd(client, side, key, begins), line: style,
    marker: { size: 4, color: style.color }, hovertemplate: `<b>${escape(name)}</b><br>%{text}<extra></extra>`,
  });
  const drawSeries = () => {
    const [kind, which] = byId("time-choice").value.split(":");
    const begins = runBegins(), trace = timeTrace(begins);
    let traces;
    if (kind === "figure") {
      traces = data.clients.map((c) => trace(c, "measured", which, c.label, { color: color(c), dash: c.dash, width: 1.6 }));
    } else {
      const client = data.clients[+which], dashes = { p50_ns: "solid", p99_ns: "9px,3px", max_ns: "9px,3px,2px,3px" };
      traces = Object.entries(FIGURES).map(([key, name]) => trace(client, "measured", key, name, { color: color(client), dash: dashes[key], width: 1.6 }));
      if (client.trials.some((t) => t.truth.length)) traces.push(trace(client, "truth", "p50_ns", "truth, p50", { color: truthInk(), dash: "1.5px,2.5px", width: 1.6 }));
    }
    traces = traces.filter((t) => t.y.some((v) => v !== null));
    const starts = [...begins];
    const shapes = starts.slice(1).map(([, x]) => ({ type: "line", yref: "paper", y0: 0, y1: 1, x0: x, x1: x, line: { color: quiet(), width: 0.8 } }));
    const annotations = starts.map(([run, x]) => ({ x, y: 1, yref: "paper", xanchor: "left", yanchor: "top", text: `run ${run}`, showarrow: false, font: { size: 11, color: quiet() } }));
    draw("series", traces, layout(axis("seconds of traffic"), latencyAxis("latency, µs", true), { shapes, annotations }));
  };

  // --- stages --------------------------------------------------------------------------------------
  // Sending in warm colours, the path in grey, receiving in cold ones.
  const STAGE_COLORS = [
    ["application → ", "#e69f00"], ["qdisc → ", "#d55e00"], ["driver → ", "#b8460e"], ["card → card", "#999999"], ["card → tap in", "#8a3a10"],
    ["tap in → ", "#7f8a94"], ["tap out → card", "#a7d3f2"], ["tap out → XDP", "#7fc4ee"], ["tap out → ", "#56b4e9"], ["card → ", "#3a8fc2"],
    ["XDP program → ", "#0072b2"], ["stack → ", "#00528a"],
  ];
  const stagePlace = (name) => STAGE_COLORS.findIndex(([begin]) => name.startsWith(begin));
  const stageColor = (name) => (STAGE_COLORS[stagePlace(name)] ?? [, "#cc79a7"])[1];
  const drawStages = () => {
    const form = byId("stage-controls");
    if (!form) return;
    const clients = data.clients.filter((c) => c.stages);
    const select = byId("stage-percentile");
    if (!select.options.length) {
      const most = Math.max(...clients.map((c) => c.stages.shares.length));
      data.ladder.slice(0, most).forEach((name, i) => select.add(new Option(name, i)));
    }
    const index = +select.value, share = form.elements.bars.value === "share";
    const rows = clients.filter((c) => c.stages.shares[index]);
    const names = [...new Set(rows.flatMap((c) => c.stages.names))].sort((a, b) => stagePlace(a) - stagePlace(b));
    const traces = names.map((name) => {
      const trace = { type: "bar", orientation: "h", name, x: [], y: [], text: [], hoverinfo: "text", textposition: "none", marker: { color: stageColor(name), line: { width: 1, color: paper() } } };
      for (const client of rows) {
        const { stages_ns, frames } = client.stages.shares[index];
        const at = client.stages.names.indexOf(name);
        if (at < 0) continue;
        const total = stages_ns.reduce((a, b) => a + b, 0);
        trace.x.push(share ? 100 * stages_ns[at] / total : us(stages_ns[at]));
        trace.y.push(client.label);
        trace.text.push(`<b>${escape(client.label)}</b>, ${name}<br>${ns(stages_ns[at])} of ${ns(total)} (${(100 * stages_ns[at] / total).toFixed(0)} %)<br>mean of ${count(frames)} frames`);
      }
      return trace;
    });
    byId("stage-bars").style.height = `${130 + 38 * rows.length}px`;
    draw("stage-bars", traces, layout(
      axis(share ? "share of the time from application to application, %" : "time from application to application, µs", { rangemode: "tozero" }),
      axis("", { autorange: "reversed", categoryorder: "array", categoryarray: rows.map((c) => c.label) }),
      { barmode: "stack", bargap: 0.35, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" }, hovermode: "closest" },
    ));
  };

  // --- trains --------------------------------------------------------------------------------------
  const TRAIN_FIGURES = {
    head: ["latency of the head, µs", (train) => train.head_ns],
    mean: ["mean latency, µs", (train) => train.mean_ns],
    pace: ["time from a quarter to the end, µs", (train) => train.arrived_ns],
  };
  const drawTrains = () => {
    const form = byId("train-controls");
    if (!form) return;
    const [title, figure] = TRAIN_FIGURES[form.elements.shown.value];
    const traces = data.clients.filter((c) => c.trains.some((t) => figure(t) != null)).map((client) => {
      const seen = client.trains.map((train, index) => [index + 1, figure(train)]).filter(([, v]) => v != null);
      return {
        mode: "markers", name: client.label, x: seen.map(([n]) => n), y: seen.map(([, v]) => us(v)),
        text: seen.map(([n, v]) => `<b>${escape(client.label)}</b>, train ${count(n)}<br>${ns(v)}`), hovertemplate: "%{text}<extra></extra>",
        marker: { color: color(client), symbol: SYMBOLS[client.symbol], size: 4, opacity: 0.75 },
      };
    });
    const log = form.elements.scale.value === "log";
    draw("train-series", traces, layout(axis("train"), axis(title, log ? { type: "log", exponentformat: "none", ...DECADES } : { rangemode: "tozero" })));
  };

  // --- sweeps --------------------------------------------------------------------------------------
  const drawSweep = () => {
    if (!byId("sweep-index")) return;
    const tone = (i) => printing ? PRINT_PALETTE[i % 6] : css(`--s${i % 6}`);
    const lines = data.swept.map((s, i) => ({
      mode: "lines+markers", name: s.client, x: s.sizes, y: s.index_ns, line: { color: tone(i), width: 1.6 },
      marker: { color: tone(i), symbol: SYMBOLS[i % 6], size: s.sizes.map((_, at) => s.peaks.includes(at) ? 11 : 4) },
      hovertemplate: `<b>${escape(s.client)}</b>, %{x} bytes<br>%{y:.3g} ns<extra></extra>`,
    }));
    draw("sweep-index", lines, layout(axis("frame size with FCS, bytes"), axis("σ²/µ, ns", { rangemode: "tozero" }), { showlegend: data.swept.length > 1 }));
    const select = byId("sweep-client");
    if (!select.options.length) data.swept.forEach((s, i) => select.add(new Option(s.client, String(i))));
    const s = data.swept[Number(select.value) || 0];
    const figure = byId("sweep-map").closest("figure");
    figure.hidden = s.gaps_ns.length < 2;
    byId("sweep-controls").hidden = figure.hidden || data.swept.length < 2;
    if (figure.hidden) return;
    const x = s.gaps_ns.map(us);
    const z = s.median_ns.map((row) => row.map((v) => v === null ? null : Math.log10(us(v))));
    const text = s.median_ns.map((row, i) => row.map((v, j) => `${s.sizes[i]} bytes, ${ns(s.gaps_ns[j])} apart<br>${v === null ? "frames were lost, or the gap not kept" : ns(v)}`));
    const all = z.flat().filter((v) => v !== null), from = Math.min(...all), to = Math.max(...all);
    const ticks = Array.from({ length: 5 }, (_, i) => from + (to - from) * i / 4);
    const map = {
      type: "heatmap", x, y: s.sizes, z, text, hovertemplate: "%{text}<extra></extra>", colorscale: "Viridis",
      colorbar: { title: { text: "median, µs", side: "right" }, tickvals: ticks, ticktext: ticks.map((v) => (10 ** v).toPrecision(3)), outlinewidth: 0 },
    };
    const border = s.safe_from.map((at) => at === null || at >= x.length ? null : at === 0 ? x[0] - (x[1] - x[0]) / 2 : (x[at - 1] + x[at]) / 2);
    const edge = { mode: "lines", x: border, y: s.sizes, line: { color: "#ffffff", width: 3 }, hoverinfo: "skip", showlegend: false };
    draw("sweep-map", [map, edge], layout(axis("time between frames, µs"), axis("frame size with FCS, bytes")));
  };

  // --- repetitions ---------------------------------------------------------------------------------
  const FIGURE_DASHES = ["solid", "9px,3px", "3px,3px", "9px,3px,2px,3px"];
  const drawDecay = () => {
    if (!byId("decay")) return;
    const traces = data.clients.flatMap((client) => client.convergence.flatMap((c, index) => {
      const x = c.decay.map((d) => d.batch), y = c.decay.map((d) => Math.sqrt(d.variance_ns2));
      const look = { color: color(client), dash: FIGURE_DASHES[index % FIGURE_DASHES.length] };
      const text = c.decay.map((d) => `<b>${escape(client.label)}</b>, ${c.name}<br>${count(d.batches)} batches of ${count(d.batch)}<br>deviation ${ns(Math.sqrt(d.variance_ns2))}`);
      return [
        { mode: "lines+markers", name: `${client.label}, ${c.name}`, x, y, text, hovertemplate: "%{text}<extra></extra>", line: { ...look, width: 2 }, marker: { color: color(client), symbol: SYMBOLS[client.symbol], size: 6 } },
        { mode: "lines", x, y: x.map((n) => y[0] * Math.sqrt(x[0] / n)), line: { color: quiet(), width: 1 }, hoverinfo: "skip", showlegend: false },
      ];
    }));
    draw("decay", traces, layout(axis("samples of a batch", { type: "log", exponentformat: "none", ...DECADES }), axis("standard deviation, ns", { type: "log", exponentformat: "none", ...DECADES })));
  };

  // --- stalls --------------------------------------------------------------------------------------
  const drawStalls = () => {
    const named = (name, bar, client) => ({ bar, row: escape(`${name}, ${bar.thread}${bar.core === null ? "" : ` on core ${bar.core}`}`), client });
    const all = [...data.platform.map((b) => named(b.label, b, null)), ...data.clients.flatMap((c) => c.stalls.map((b) => named(c.label, b, c)))];
    const rows = [...new Set(all.map((s) => s.row))];
    byId("stall-bars").style.height = `${90 + 24 * rows.length}px`;
    const tone = (s) => s.client ? color(s.client) : quiet();
    const text = all.map(({ bar: b, row }) => `<b>${row}</b>${b.run ? `, run ${b.run}` : ""}<br>${count(b.stalls)} stalls over ${ns(b.threshold_ns)} in ${ns(b.observed_ns)}<br>total ${ns(b.total_ns)}, median ${ns(b.median_ns)}, longest ${ns(b.longest_ns)}<br>${count(b.busy.count)} busy gaps, longest ${ns(b.busy.longest_ns)}`);
    const dots = (x, more) => ({
      mode: "markers", y: all.map((s) => s.row), x: all.map(x), text, hovertemplate: "%{text}<extra></extra>", showlegend: false,
      marker: { color: all.map(tone), size: 9, opacity: 0.85, symbol: all.map((s) => s.client ? SYMBOLS[s.client.symbol] : "line-ns-open"), line: { width: 1.5 } }, ...more,
    });
    const share = dots(({ bar: b }) => b.observed_ns ? 100 * b.total_ns / b.observed_ns : 0);
    const longest = dots(({ bar: b }) => b.longest_ns ? us(b.longest_ns) : null, { xaxis: "x2" });
    const narrow = byId("stall-bars").clientWidth < NARROW;
    const yaxis = axis("", { ticks: "", tickfont: { size: narrow ? 9 : 11.5 }, categoryorder: "array", categoryarray: rows.slice().reverse() });
    const how = layout(axis("share of time, %", { domain: [0, 0.47], rangemode: "tozero", nticks: 6 }), yaxis, {
      xaxis2: { ...latencyAxis("longest stall, µs", true), domain: [0.53, 1] }, margin: { l: 40, r: 16, t: 8, b: 44 },
    });
    draw("stall-bars", all.length ? [share, longest] : [], how);
  };

  const drawLateness = () => {
    const shown = data.clients.filter((c) => useful(c.lateness));
    const lowest = Math.min(0.01, ...shown.map((c) => 1 / c.lateness.samples));
    draw("lateness", shown.flatMap((c) => tailCurves(c, c.lateness, c.label)), layout(latencyAxis("lateness, µs", true), tailAxis("share above", lowest)));
  };

  // --- all of it -----------------------------------------------------------------------------------
  const drawAll = () => [drawDistributions, drawProfiles, drawSweep, drawDecay, drawTrains, drawStages, drawErrors, drawSpread, drawSeries, drawStalls, drawLateness].forEach((d) => d());

  controls.elements.truth.value = coincide() ? "band" : "each";
  if (!data.clients.some((c) => c.scheduled)) controls.querySelector("[name=from]").closest("fieldset").hidden = true;
  controls.addEventListener("change", () => { drawDistributions(); drawProfiles(); });
  byId("errors-clean").addEventListener("change", drawErrors);
  byId("stage-controls")?.addEventListener("change", drawStages);
  byId("stage-controls")?.addEventListener("submit", (event) => event.preventDefault());
  byId("sweep-controls")?.addEventListener("change", drawSweep);
  const trainForm = byId("train-controls");
  trainForm?.addEventListener("change", drawTrains);
  trainForm?.addEventListener("submit", (event) => event.preventDefault());
  if (trainForm && !data.clients.some((c) => c.trains.some((t) => t.mean_ns != null))) trainForm.querySelector("[value=mean]").closest("label").hidden = true;
  controls.addEventListener("submit", (event) => event.preventDefault());
  offerTimes();
  follow(drawAll);
