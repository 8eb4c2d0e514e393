  // Draws a host taken apart, behind charts.js.
  const PAPER_INK = () => quiet();
  const shade = (n) => color({ color: n % 6 });
  const place = (v) => us(Math.max(v, 1));

  const drawSpans = () => {
    const rows = data.rows, names = rows.map((r) => escape(r.label)), traces = [];
    // The value below which a share of the samples is.
    const at = (curve, share) => curve.ns[curve.above.findIndex((a) => a <= (1 - share) * curve.samples)] ?? curve.ns.at(-1);
    rows.forEach((row, n) => {
      const { curve } = row, [low, high] = [curve.ns[0], curve.ns.at(-1)];
      const [median, late] = [at(curve, 0.5), at(curve, 0.999)];
      traces.push({
        mode: "lines+markers", x: [low, median, late, high].map(place), y: [n, n, n, n], showlegend: false, line: { color: shade(n), width: 3 },
        marker: { size: [0, 11, 13, 0], symbol: ["circle", "circle", "line-ns-open", "circle"], color: shade(n), line: { width: 2, color: shade(n) } },
        text: [`smallest ${ns(low)}`, `median ${ns(median)}`, `p99.9 ${ns(late)}`, `largest ${ns(high)}`], hovertemplate: `<b>${names[n]}</b><br>%{text}<extra></extra>`,
      });
      if (row.paper) traces.push({
        mode: "lines+markers", x: row.paper.map(place), y: [n + 0.3, n + 0.3, n + 0.3, n + 0.3], showlegend: false, line: { color: PAPER_INK(), width: 1 },
        marker: { size: [0, 6, 8, 0], symbol: ["circle", "circle", "line-ns-open", "circle"], color: PAPER_INK(), line: { width: 1, color: PAPER_INK() } },
        text: ["smallest", "median", "p99.9", "largest"].map((what, i) => `${what} ${ns(row.paper[i])}`), hovertemplate: `<b>the paper's ${names[n].split(" ")[0]}</b><br>%{text}<extra></extra>`,
      });
    });
    draw("spans", traces, layout(
      axis("time, µs", { type: "log", exponentformat: "none", ...DECADES }),
      axis("", { tickvals: names.map((_, i) => i), ticktext: names, range: [names.length - 0.4, -0.6], showgrid: false }),
      { margin: { l: innerWidth < NARROW ? 110 : 230, r: 16, t: 8, b: 44 } },
    ));
  };

  /// Bars of parts, one after another; parts of one name have one colour.
  const stacks = (id, bars) => {
    if (!byId(id)) return;
    const parts = [...new Set(bars.flatMap((b) => b.shares.map((s) => s.name)))];
    const traces = parts.map((part, n) => {
      const of = bars.map((b) => b.shares.find((s) => s.name === part));
      const whole = bars.map((b) => b.shares.reduce((sum, s) => sum + s.ns, 0));
      return {
        type: "bar", orientation: "h", name: escape(part), y: bars.map((b) => escape(b.label)), x: of.map((s) => us(s?.ns ?? 0)),
        marker: { color: shade(n), line: { color: paper(), width: 1 } }, text: of.map((s, i) => s && s.ns > 0.06 * Math.max(...whole) ? ns(s.ns) : ""),
        textposition: "inside", insidetextanchor: "middle", customdata: of.map((s, i) => s ? `${ns(s.ns)}, ${(100 * s.ns / whole[i]).toFixed(0)} %<br>${escape(s.from)}` : ""),
        hovertemplate: `<b>${escape(part)}</b><br>%{customdata}<extra></extra>`,
      };
    });
    draw(id, traces, layout(axis("time, µs", { rangemode: "tozero" }), axis("", { autorange: "reversed", showgrid: false }), { barmode: "stack", legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" }, margin: { l: 130, r: 16, t: 8, b: 44 } }));
  };

  const drawTails = () => {
    const traces = data.rows.map((row, n) => ({
      mode: "lines", name: escape(row.label), x: row.curve.ns.map(place), y: row.curve.above.map((a) => Math.max(a, 1) / row.curve.samples),
      text: row.curve.ns.map((v, i) => `${percentile(row.curve.above[i] / row.curve.samples)} ${ns(v)}`),
      line: { color: shade(n), width: 2, dash: ["solid", "8px,3px", "2px,3px"][Math.floor(n / 6) % 3], shape: "hv" }, hovertemplate: `<b>${escape(row.label)}</b><br>%{text}<extra></extra>`,
    }));
    const lowest = Math.min(0.01, ...data.rows.map((r) => 1 / r.curve.samples));
    draw("tails", traces, layout(axis("time, µs", { type: "log", exponentformat: "none", ...DECADES }), tailAxis("share above", lowest)));
  };

  follow(() => { drawSpans(); stacks("request-bars", data.requests); stacks("network-bars", data.networks); drawTails(); });
