  // Draws the graphs of a suite of benchmarks, behind charts.js.
  const DASHES = ["solid", "8px,3px", "2px,3px", "12px,3px,3px,3px"];
  const shade = (n) => color({ color: n % 6 });
  const bytes = (sizes) => [...new Set(data.clients.flatMap((c) => c.sizes.filter(sizes).map((s) => s.frame_size)))].sort((a, b) => a - b);
  const pps = (v) => v >= 1e6 ? `${+(v / 1e6).toPrecision(4)} Mpps` : v >= 1e3 ? `${+(v / 1e3).toPrecision(4)} kpps` : `${Math.round(v)} pps`;
  const sizeAxis = (sizes) => axis("frame size, bytes", { type: "log", ownTicks: true, tickvals: sizes, ticktext: sizes.map(String) });
  const whiskers = (repeated, scale, ink) => ({
    type: "data", symmetric: false, thickness: 1.4, width: 4, color: ink,
    array: repeated.map((r) => scale(r.mean.high - r.mean.value)), arrayminus: repeated.map((r) => scale(r.mean.value - r.mean.low)),
  });

  const drawThroughput = () => {
    if (!byId("throughput-plot")) return;
    const sizes = bytes(() => true), traces = [];
    const theories = new Map(data.clients.map((c) => [JSON.stringify(c.sizes.map((s) => [s.frame_size, s.line_fps])), c.sizes]));
    theories.forEach((theory) => traces.push({
      mode: "lines+markers", name: "line", x: theory.map((s) => s.frame_size), y: theory.map((s) => s.line_fps), text: theory.map((s) => pps(s.line_fps)),
      line: { color: quiet(), width: 1.4 }, marker: { size: 4 }, hovertemplate: "%{x} bytes<br>line %{text}<extra></extra>",
    }));
    data.clients.forEach((client, n) => {
      const short = client.sizes.filter((s) => s.offered_fps !== null && s.offered_fps < 0.99 * s.line_fps);
      if (short.length) traces.push({
        mode: "lines+markers", name: `${escape(client.label)}: offered`, x: short.map((s) => s.frame_size), y: short.map((s) => s.offered_fps),
        text: short.map((s) => pps(s.offered_fps)), line: { color: shade(n), width: 1.2, dash: "1.5px,3px" }, marker: { size: 3 },
        hovertemplate: "%{x} bytes<br>offered %{text}<extra></extra>",
      });
      const goals = [...new Set(client.sizes.flatMap((s) => s.throughput.map((t) => t.loss_ratio)))];
      goals.forEach((goal, g) => {
        const found = client.sizes.map((s) => [s.frame_size, s.throughput.find((t) => t.loss_ratio === goal)]).filter(([, t]) => t?.fps);
        traces.push({
          mode: "lines+markers", name: escape(client.label) + (goals.length > 1 ? `, losing ${goal * 100} %` : ""),
          x: found.map(([size]) => size), y: found.map(([, t]) => t.fps.mean.value), text: found.map(([, t]) => pps(t.fps.mean.value)),
          error_y: whiskers(found.map(([, t]) => t.fps), (v) => v, shade(n)),
          line: { color: shade(n), width: 2.2, dash: DASHES[g % DASHES.length] }, marker: { size: 7, symbol: SYMBOLS[n % 6] },
          hovertemplate: `<b>${escape(client.label)}</b><br>%{x} bytes<br>%{text}<extra></extra>`,
        });
      });
    });
    draw("throughput-plot", traces, layout(sizeAxis(sizes), axis("frames per second", { type: "log", exponentformat: "SI" })));
  };

  const drawLoss = () => {
    if (!byId("loss-plot")) return;
    const sizes = bytes((s) => s.loss.length), traces = [];
    data.clients.forEach((client, n) => client.sizes.filter((s) => s.loss.length).forEach((s) => {
      const loss = [...s.loss].sort((a, b) => a.fps - b.fps), c = sizes.indexOf(s.frame_size);
      traces.push({
        mode: "lines+markers", name: `${data.clients.length > 1 ? `${escape(client.label)}, ` : ""}${s.frame_size} bytes`,
        x: loss.map((l) => 100 * l.fps / s.line_fps), y: loss.map((l) => 100 * l.share.mean.value), text: loss.map((l) => pps(l.fps)),
        error_y: whiskers(loss.map((l) => l.share), (v) => 100 * v, shade(c)),
        line: { color: shade(c), width: 2, dash: DASHES[(n + Math.floor(c / 6)) % DASHES.length] }, marker: { size: 6, symbol: SYMBOLS[n % 6] },
        hovertemplate: `<b>${s.frame_size} bytes</b><br>%{text}, %{x:.1f} % of the line<br>lost %{y:.3f} %<extra></extra>`,
      });
    }));
    draw("loss-plot", traces, layout(axis("load, % of the line", { range: [0, 102] }), axis("frames lost, %", { range: [-2, 102] })));
  };

  const controls = byId("latency-controls");
  const chosen = (name) => controls.elements[name].value;
  const drawLatency = () => {
    if (!controls) return;
    const size = Number(chosen("size")), figure = chosen("figure"), traces = [], tails = [];
    data.clients.forEach((client, n) => {
      const found = client.sizes.find((s) => s.frame_size === size);
      [false, true].forEach((loopback) => {
        const rows = (found?.latency ?? []).filter((l) => l.loopback === loopback && l[figure]);
        if (rows.length) traces.push({
          mode: "lines+markers", name: escape(client.label) + (loopback ? ", loopback" : ""), x: rows.map((l) => l.percent), y: rows.map((l) => us(l[figure].mean.value)),
          text: rows.map((l) => `${ns(l[figure].mean.value)}<br>95%: ${ns(l[figure].mean.low)} to ${ns(l[figure].mean.high)}<br>${pps(l.fps)}`),
          error_y: whiskers(rows.map((l) => l[figure]), us, shade(n)), line: { color: shade(n), width: 2.2, dash: loopback ? "6px,3px" : "solid" },
          marker: { size: 7, symbol: SYMBOLS[n % 6] }, hovertemplate: `<b>${escape(client.label)}</b> at %{x} %<br>%{text}<extra></extra>`,
        });
      });
      client.curves.filter((c) => c.size === size && c.samples > 0).forEach((curve) => {
        const loads = [...new Set(client.curves.map((c) => c.percent))];
        tails.push({
          mode: "lines", name: `${data.clients.length > 1 ? `${escape(client.label)}, ` : ""}${curve.percent} %${curve.loopback ? ", loopback" : ""}`,
          x: curve.ns.map(us), y: curve.above.map((a) => a > 0 ? a / curve.samples : 1 / curve.samples),
          text: curve.ns.map((v, i) => `${percentile(curve.above[i] / curve.samples)} ${ns(v)}`),
          line: { color: shade(data.clients.length > 1 ? n : loads.indexOf(curve.percent)), width: curve.loopback ? 1.3 : 2.2, dash: curve.loopback ? "6px,3px" : DASHES[data.clients.length > 1 ? loads.indexOf(curve.percent) % 4 : 0], shape: "hv" },
          hovertemplate: "%{text}<extra></extra>",
        });
      });
    });
    draw("latency-plot", traces, layout(axis("load, % of the throughput", { range: [0, 104] }), axis("latency, µs", { rangemode: "tozero" })));
    const lowest = Math.min(0.01, ...data.clients.flatMap((c) => c.curves.filter((k) => k.size === size && k.samples > 0).map((k) => 1 / k.samples)));
    draw("latency-tail", tails, layout(axis("latency, µs", { type: "log", exponentformat: "none", ...DECADES }), tailAxis("share above", lowest)));
  };

  if (controls) {
    const choose = byId("latency-size");
    bytes((s) => s.latency.length).forEach((size) => choose.add(new Option(`${size} bytes`, size)));
    controls.addEventListener("input", drawLatency);
  }
  follow(() => { drawThroughput(); drawLoss(); drawLatency(); });
