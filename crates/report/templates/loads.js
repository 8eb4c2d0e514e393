  // Draws a sweep over rates and frame sizes, behind charts.js.
  const shade = (n) => color({ color: n % 6 });
  const pps = (v) => v >= 1e6 ? `${+(v / 1e6).toPrecision(4)} Mpps` : v >= 1e3 ? `${+(v / 1e3).toPrecision(4)} kpps` : `${Math.round(v)} pps`;
  const all = (of) => [...new Set(data.clients.flatMap((c) => c.cells.map(of)))].sort((a, b) => a - b);
  const percent = (v) => 100 * v;

  /// A line of one figure, by rate or by size.
  const row = (client, n, cells, x, key, scale, write, dash, name) => {
    const known = cells.filter((c) => c[key]);
    return {
      mode: "lines+markers", name, x: known.map(x), y: known.map((c) => scale(c[key].mean.value)),
      text: known.map((c) => `${c.size} bytes at ${pps(c.fps)}<br>${write(c[key].mean.value)}${c[key].values.length > 1 ? ` (${write(c[key].mean.low)} to ${write(c[key].mean.high)}, ${c[key].values.length} runs)` : ""}`),
      error_y: { type: "data", symmetric: false, thickness: 1.4, width: 4, color: shade(n), array: known.map((c) => scale(c[key].mean.high - c[key].mean.value)), arrayminus: known.map((c) => scale(c[key].mean.value - c[key].mean.low)) },
      line: { color: shade(n), width: 2, dash }, marker: { size: 6, symbol: SYMBOLS[n % 6] },
      hovertemplate: `<b>${escape(client.label)}</b><br>%{text}<extra></extra>`,
    };
  };
  const share = (v) => `${+(100 * v).toPrecision(6)} %`;

  const drawAll = (prefix, keep, x, xaxis) => {
    const lines = (key, scale, write, dash, suffix) => data.clients.map((client, n) =>
      row(client, n, client.cells.filter(keep), x, key, scale, write, dash, `${escape(client.label)}${suffix}`));
    const some = (traces) => traces.filter((t) => t.x.length);
    draw(`${prefix}-stamped`, some(lines("stamped", percent, share, "solid", "")), layout(xaxis(), axis("frames stamped, %", { range: [0, 104] })));
    const own = lines("own_lost", percent, share, "6px,3px", ": own queue").filter((t) => t.y.some((v) => v > 0));
    const lost = some(lines("lost", percent, share, "solid", "").concat(own));
    const most = Math.max(0.01, ...lost.flatMap((t) => t.y.map((v, i) => v + t.error_y.array[i])));
    draw(`${prefix}-lost`, lost, layout(xaxis(), axis("frames dropped, %", { range: [-0.04 * most, 1.1 * most] })));
    draw(`${prefix}-latency`, some(lines("median_ns", us, ns, "solid", "").concat(lines("mean_ns", us, ns, "6px,3px", ": mean"))), layout(xaxis(), axis("latency, µs", { rangemode: "tozero" })));
  };
  const drawRates = () => {
    const size = Number(byId("rate-size").value);
    drawAll("rate", (c) => c.size === size, (c) => c.fps / 1e3, () => axis("rate, kpps", { rangemode: "tozero" }));
  };
  const drawSizes = () => {
    const sizes = all((c) => c.size), rate = Number(byId("size-rate").value);
    drawAll("size", (c) => c.fps === rate, (c) => c.size, () => axis("frame size with FCS, bytes", { type: "log", ownTicks: true, tickvals: sizes, ticktext: sizes.map(String) }));
  };
  all((c) => c.size).forEach((size) => byId("rate-size").add(new Option(`${size} bytes`, size)));
  all((c) => c.fps).forEach((fps) => byId("size-rate").add(new Option(pps(fps), fps)));
  byId("rate-controls").addEventListener("input", drawRates);
  byId("size-controls").addEventListener("input", drawSizes);
  follow(() => { drawRates(); drawSizes(); });
