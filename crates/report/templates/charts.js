  // What the scripts of all pages draw with: numbers, styles, axes. Latencies come in nanoseconds, are drawn in µs.
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const NARROW = 640;
  // An interval needs n with (1-tail)^n <= 2.5%, so a tail of 3.69/n is the last that a sample supports.
  const SUPPORT = -Math.log(0.025);
  let printing = false;

  // --- numbers -------------------------------------------------------------------------------------
  const ns = (v) => {
    const size = Math.abs(v), sign = v < 0 ? "−" : "";
    if (size < 1e3) return `${sign}${Math.round(size)} ns`;
    const [scale, unit] = size < 999.5e3 ? [1e3, "µs"] : size < 999.5e6 ? [1e6, "ms"] : [1e9, "s"];
    const x = size / scale;
    return `${sign}${x.toFixed(x < 9.995 ? 2 : x < 99.95 ? 1 : 0)} ${unit}`;
  };
  const us = (v) => v / 1e3;
  const count = (n) => n.toLocaleString("en-US");
  const escape = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const percentile = (tail) => tail <= 0 ? "largest" : `p${+((1 - tail) * 100).toPrecision(10)}`;

  // --- styles --------------------------------------------------------------------------------------
  const PRINT_PALETTE = ["#0072b2", "#d55e00", "#00845f", "#b04a86", "#b07c00", "#3a8fc2"];
  const color = (client) => printing ? PRINT_PALETTE[client.color] : css(`--s${client.color}`);
  const ink = () => printing ? "#1b1f24" : css("--ink");
  const quiet = () => printing ? "#5b6570" : css("--quiet");
  const rule = () => printing ? "#d9dee3" : css("--rule");
  const paper = () => printing ? "#ffffff" : css("--paper");
  const truthInk = () => printing ? "#4b5560" : css("--truth");
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "star"];
  const line = (client, width = 2.2) => ({ color: color(client), dash: client.dash, width, shape: "hv" });

  const axis = (title, more = {}) => ({
    title: { text: title, standoff: 8 }, gridcolor: rule(), linecolor: quiet(), tickcolor: quiet(), zeroline: false,
    showline: true, ticks: "outside", automargin: true, ...more,
  });
  const layout = (xaxis, yaxis, more = {}) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, 'Segoe UI', 'Liberation Sans', sans-serif", size: 12.5, color: ink() },
    margin: { l: 58, r: 16, t: 8, b: 44 }, hovermode: "closest",
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, itemwidth: 40 },
    hoverlabel: { align: "left" }, xaxis, yaxis,
    modebar: { orientation: "v", bgcolor: "rgba(0,0,0,0)", color: quiet(), activecolor: ink() }, ...more,
  });
  const CONFIG = { displaylogo: false, displayModeBar: matchMedia("(hover: none)").matches ? false : "hover", responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  const draw = (id, traces, how) => {
    const box = byId(id);
    how.width = printing ? 680 : undefined;
    how.autosize = !printing;
    if (traces.length === 0) {
      box.textContent = "Nothing to draw.";
      box.style.height = "auto";
      return;
    }
    Plotly.react(box, traces, how, CONFIG);
    fitTicks(box);
    if (!box.fits) box.on("plotly_relayout", () => fitTicks(box));
    box.fits = true;
  };
  /// Adapts the labels of log axes to what is in view.
  const fitTicks = (box) => {
    const changes = {};
    for (const name of ["xaxis", "xaxis2", "yaxis"]) {
      const it = box.layout[name];
      if (it?.type !== "log" || it.ownTicks || !it.range) continue;
      const { tickmode, tickvals = null, ticktext = null, dtick = null, minor } = ticks(it.range);
      const wanted = { tickmode, tickvals, ticktext, dtick, minor };
      if (it.tickmode !== tickmode || String(it.tickvals ?? "") !== String(tickvals ?? "")) {
        Object.entries(wanted).forEach(([key, value]) => { changes[`${name}.${key}`] = value; });
      }
    }
    if (Object.keys(changes).length) Plotly.relayout(box, changes);
  };

  // --- latency axes --------------------------------------------------------------------------------
  const DECADES = { tickmode: "linear", dtick: 1, minor: { dtick: "D1", showgrid: false, ticks: "outside", ticklen: 3 } };
  /// Labels at every decade, or at 1, 2 and 5 times it where few decades are in view.
  const ticks = ([from, to]) => {
    if (to - from >= 1.6) return DECADES;
    const all = [];
    for (let d = Math.floor(from); d <= to; d++) [1, 2, 5].forEach((m) => all.push(+(m * 10 ** d).toPrecision(3)));
    const tickvals = all.filter((v) => Math.log10(v) >= from && Math.log10(v) <= to);
    return tickvals.length < 2 ? { tickmode: "auto", minor: { ticks: "" } } : { tickmode: "array", tickvals, ticktext: tickvals.map(String), minor: { ticks: "" } };
  };
  const latencyAxis = (title, log, largestNs, lowestNs) => axis(title, {
    type: log ? "log" : "linear", exponentformat: "none",
    ...(log ? { ...DECADES, ...(lowestNs ? { range: [Math.log10(us(lowestNs)), Math.log10(us(largestNs))] } : {}) }
      : { range: [0, us(largestNs)], rangemode: "nonnegative" }),
  });
  const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const tailAxis = (title, lowest) => {
    const decades = Array.from({ length: Math.max(2, Math.ceil(-Math.log10(lowest))) + 1 }, (_, i) => i);
    const name = (d) => d === 0 ? "1" : `10⁻${SUPERSCRIPT[d]}  ${percentile(10 ** -d)}`;
    return axis(title, {
      type: "log", ownTicks: true, tickvals: decades.map((d) => 10 ** -d), ticktext: decades.map(name),
      range: [-(decades.length - 1) - 0.05, 0.05],
    });
  };

  // --- facts ---------------------------------------------------------------------------------------
  const search = () => {
    const wanted = byId("fact-search").value.trim().toLowerCase();
    let found = 0;
    document.querySelectorAll("details.facts").forEach((group) => {
      let any = false;
      group.querySelectorAll("tr").forEach((row) => {
        row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
        any ||= !row.hidden;
        found += row.hidden ? 0 : 1;
      });
      group.hidden = !any;
      group.open = wanted !== "" && any;
    });
    byId("fact-count").textContent = wanted === "" ? "" : `${count(found)} found`;
  };
  byId("fact-search").addEventListener("input", search);

  // --- the chart library ---------------------------------------------------------------------------
  const unpack = async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  const loadCharts = async () => {
    const script = document.createElement("script");
    script.textContent = await unpack(byId("charts").textContent);
    document.head.append(script);
  };
  /// Draws, and draws again whenever colours or the medium change.
  const follow = (drawAll) => {
    drawAll();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    let folded = [];
    const print = (now) => () => {
      printing = now;
      if (now) folded = [...document.querySelectorAll("details:not([open])")];
      folded.forEach((details) => { details.open = now; });
      drawAll();
    };
    window.addEventListener("beforeprint", print(true));
    window.addEventListener("afterprint", print(false));
  };
  try {
    await loadCharts();
  } catch (reason) {
    document.querySelectorAll(".plot").forEach((box) => {
      box.textContent = `This browser can't unpack the chart library (${reason}). All figures are in the tables too.`;
      box.style.height = "auto";
    });
    return;
  }
