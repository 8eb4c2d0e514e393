  // Draws the plots of a monitor's log, behind charts.js.
  const first = { color: 0, dash: "solid" };
  const shade = (n) => color({ color: n });
  const time = () => axis("", { type: "date" });
  const upright = () => data.alarms.map((alarm) => ({
    type: "line", yref: "paper", y0: 0, y1: 1, x0: alarm.at, x1: alarm.at, line: { color: alarm.shift ? shade(1) : quiet(), width: 1.2, dash: "4px,3px" },
  }));
  const told = (y) => ({
    mode: "markers", name: "alarm", x: data.alarms.map((a) => a.at), y: data.alarms.map(() => y), text: data.alarms.map((a) => escape(a.text)),
    marker: { symbol: "triangle-down", size: 9, color: shade(1) }, hovertemplate: "%{text}<extra></extra>",
  });
  const hover = (values) => values.map((v) => v === null ? "" : ns(v));
  const known = (values) => values.filter((v) => v !== null);

  const drawLatency = () => {
    const { at, ns: medians } = data.medians;
    const levels = data.intervals.flatMap((i) => [[i.from, i.level], [i.to, i.level]]);
    // A stall in a median would press everything else flat: the axis is that of nearly all of them.
    const sorted = known(medians).toSorted((a, b) => a - b);
    const at_share = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 1;
    const [low, high] = [at_share(0.005), at_share(0.995)];
    const margin = Math.max((high - low) * 0.25, high * 0.002);
    const range = [us(low - margin), us(high + margin)];
    draw("latency", [
      { mode: at.length > 3000 ? "lines" : "lines+markers", name: "median", x: at, y: medians.map((v) => v === null ? null : us(v)), text: hover(medians),
        connectgaps: false, line: { color: color(first), width: 1.4 }, marker: { size: 3 }, hovertemplate: "%{x}<br>%{text}<extra></extra>" },
      { mode: "lines", name: "usual", x: levels.map(([x]) => x), y: levels.map(([, v]) => v === null ? null : us(v)), text: hover(levels.map(([, v]) => v)),
        connectgaps: false, line: { color: ink(), width: 1.4, dash: "6px,3px" }, hovertemplate: "usual %{text}<extra></extra>" },
      ...(data.alarms.length ? [told(range[1])] : []),
    ], layout(time(), axis("latency, µs", { range }), { shapes: upright() }));
  };

  const drawTail = () => {
    const row = (name, key, n, symbol) => ({
      mode: "lines+markers", name, x: data.intervals.map((i) => i.from), y: data.intervals.map((i) => i[key] === null ? null : us(i[key])),
      text: hover(data.intervals.map((i) => i[key])), connectgaps: false, line: { color: shade(n), width: 1.2 }, marker: { size: 4, symbol },
      hovertemplate: `%{x}<br>${name} %{text}<extra></extra>`,
    });
    const traces = [row("p99", "p99", 0, "circle"), row("p99.9", "p999", 1, "square"), row("largest", "max", 2, "diamond")];
    draw("tail", traces.filter((t) => known(t.y).length), layout(time(), latencyAxis("latency, µs", true), { shapes: upright() }));
  };

  const drawLoss = () => {
    const lossy = data.intervals.some((i) => i.lost > 0);
    draw("loss", lossy ? [{
      type: "bar", x: data.intervals.map((i) => i.from), y: data.intervals.map((i) => i.lost), text: data.intervals.map((i) => `${count(i.lost)} of ${count(i.sent)}`),
      textposition: "none", marker: { color: shade(1) }, hovertemplate: "%{x}<br>%{text}<extra></extra>",
    }] : [], layout(time(), axis("frames", { rangemode: "tozero" })));
    if (!lossy) byId("loss").textContent = "None was lost.";
  };

  const drawCapacity = () => {
    if (!byId("capacity")) return;
    const seen = data.convoys.filter((c) => c.bits);
    const gbit = (v) => v / 1e9;
    draw("capacity", seen.length ? [{
      mode: "markers", name: "capacity", x: seen.map((c) => c.at), y: seen.map((c) => gbit(c.bits.value)), marker: { size: 7, color: shade(0) },
      error_y: { type: "data", symmetric: false, array: seen.map((c) => gbit(c.bits.high - c.bits.value)), arrayminus: seen.map((c) => gbit(c.bits.value - c.bits.low)), color: shade(0) },
      hovertemplate: "%{x}<br>%{y:.4g} Gbit/s<extra></extra>",
    }] : [], layout(time(), axis("Gbit/s", { rangemode: "tozero" })));
  };

  const drawDistribution = () => {
    const d = data.latency;
    const y = (n) => n > 0 ? n / d.samples : 1 / d.samples;
    const marks = d.quantiles.filter((q) => q.value);
    draw("ccdf", [
      { mode: "lines", name: "all frames", x: d.ns.map(us), y: d.above.map(y), line: { color: color(first), width: 2, shape: "hv" },
        text: d.ns.map((v, i) => `${percentile(d.above[i] / d.samples)} ${ns(v)}`), hovertemplate: "%{text}<extra></extra>" },
      { mode: "markers", name: "95% intervals", x: marks.map((q) => us(q.value.ns)), y: marks.map((q) => 1 - q.quantile), marker: { size: 6, color: color(first) },
        error_x: { type: "data", symmetric: false, array: marks.map((q) => us(q.value.high_ns - q.value.ns)), arrayminus: marks.map((q) => us(q.value.ns - q.value.low_ns)), color: color(first) },
        text: marks.map((q) => `${percentile(1 - q.quantile)} ${ns(q.value.ns)}`), hovertemplate: "%{text}<extra></extra>" },
    ], layout(latencyAxis("latency, µs", true), tailAxis("share above", Math.min(0.1, 1 / d.samples))));
  };

  follow(() => [drawLatency, drawTail, drawLoss, drawCapacity, drawDistribution].forEach((d) => d()));
