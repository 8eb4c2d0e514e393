  // Draws a matrix of settings, behind charts.js.
  const shade = (n) => color({ color: n % 6 });
  const figure = (v) => Math.abs(v) >= 100 ? v.toFixed(0) : Math.abs(v) >= 10 ? v.toFixed(1) : v.toFixed(2);

  /// Of a long name the beginning: a level may be named, and the cells below have it whole.
  const short = (name, most) => escape(name.length > most ? `${name.slice(0, most - 1)}…` : name);

  /// Boxes for panels, all of them before the first is drawn: a panel is as wide as the others leave it.
  const boxes = (id, titles, kind = "plot") => {
    byId(id).innerHTML = titles.map((title, n) => `<div><h3>${escape(title)}</h3><div class="${kind}" id="${id}-${n}"></div></div>`).join("");
    return titles.map((_, n) => `${id}-${n}`);
  };

  /// Grouped bars; one scale for all panels of a figure.
  const drawBars = ({ id, unit, along, panels }) => {
    const highest = Math.max(...panels.flatMap((p) => p.bars.flatMap((b) => b.values.filter((v) => v).map(([mean, , high]) => Math.min(high, 2 * mean)))), 0);
    const names = [...new Set(panels.flatMap((p) => p.bars.map((b) => b.name)))];
    boxes(`bars-${id}`, panels.map((p) => p.title)).forEach((box, n) => {
      const { groups, bars } = panels[n];
      const traces = bars.map(({ name, level, values }) => ({
        type: "bar", name: short(name, 30), x: groups.map((_, i) => i), y: values.map((v) => v?.[0] ?? null), marker: { color: shade(level) },
        error_y: { visible: values.some((v) => v && v[1] < v[2]), type: "data", symmetric: false, array: values.map((v) => v ? v[2] - v[0] : 0), arrayminus: values.map((v) => v ? v[0] - v[1] : 0), color: ink(), thickness: 1.2, width: 3 },
        text: values.map((v, i) => v ? `${escape(groups[i])}<br>${figure(v[0])} (${figure(v[1])} to ${figure(v[2])}) ${unit}` : ""), textposition: "none",
        hovertemplate: `<b>${escape(name)}</b>, %{text}<extra></extra>`,
      }));
      // An empty place is one that wasn't measured, and no 0.
      const place = (bar, i) => i + (bar - (bars.length - 1) / 2) * 0.8 / bars.length;
      const annotations = bars.flatMap(({ values }, bar) => values.flatMap((v, i) => v ? [] : [{ x: place(bar, i), y: 0, text: "n/a", textangle: -90, showarrow: false, xanchor: "center", yanchor: "bottom", font: { size: 10, color: quiet() } }]));
      draw(box, traces, layout(axis(escape(along), { tickvals: groups.map((_, i) => i), ticktext: groups.map((group) => short(group, 18)) }), axis(unit, { range: [0, 1.08 * highest || 1] }), { annotations, barmode: "group", showlegend: names.length > 1 || names[0] !== "" }));
    });
  };

  /// What each setting does, with its interval.
  const drawEffects = () => {
    const all = data.effects;
    boxes("effects", all.map((e) => `${e.id}, ${e.unit}`), "plot short").forEach((box, n) => {
      const { names, estimates, margins, significant, unit } = all[n];
      const trace = {
        mode: "markers", x: estimates, y: names.map((_, i) => i), showlegend: false,
        marker: { size: 9, color: significant.map((s) => s ? shade(0) : paper()), line: { color: shade(0), width: 2 } },
        error_x: { type: "data", array: margins.map((m) => m ?? 0), color: quiet(), thickness: 1.5 },
        text: estimates.map((e, i) => `${figure(e)}${margins[i] === null ? "" : ` ± ${figure(margins[i])}`} ${unit}`), hovertemplate: "%{text}<extra></extra>",
      };
      const names_ = names.map((name) => name.split(" against ").map((part, i) => `${i ? "against " : ""}${short(part, 26)}`).join("<br>"));
      draw(box, [trace], layout(axis(unit, { zeroline: true, zerolinecolor: quiet() }), axis("", { tickvals: names.map((_, i) => i), ticktext: names_, range: [names.length - 0.4, -0.6], showgrid: false })));
    });
  };

  follow(() => { drawEffects(); data.figures.forEach(drawBars); });
