// Small drawings: a series of durations over nights.

/** Draw durations as a line with the last (or chosen) one marked; nothing with fewer than two values. */
function sparkline(series, { width = 120, height = 24, mark = series.length - 1, label = "" } = {}) {
  const points = series.map((value, index) => [index, value]).filter(([, value]) => value !== null && value !== undefined);
  if (points.length < 2) return null;
  const values = points.map(([, value]) => value);
  const least = Math.min(...values);
  const most = Math.max(...values);
  const middle = (least + most) / 2;
  const low = Math.min(least, 0.7 * middle); // so that a small unrest looks small
  const high = Math.max(most, 1.3 * middle);
  const x = (index) => 2 + (index / Math.max(1, series.length - 1)) * (width - 6);
  const y = (value) => height - 3 - (high > low ? (value - low) / (high - low) : 0.5) * (height - 6);
  const path = points.map(([index, value], at) => `${at ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const marked = points.find(([index]) => index === mark);
  const said = label || `from ${duration(least)} to ${duration(most)}`;
  return svg("svg", { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said },
    svg("path", { d: path }),
    marked && svg("circle", { cx: x(marked[0]).toFixed(1), cy: y(marked[1]).toFixed(1), r: 2.5 }));
}

/** Draw durations with a scale: for one cell, large enough to read. */
function durationPlot(report, series, { from, mark, width = 640, height = 130 }) {
  const points = [];
  for (let n = from; n < series.length; n += 1) if (series[n] !== null && series[n] !== undefined) points.push([n, series[n]]);
  if (points.length < 2) return el("p", { class: "quiet", text: "Too few runs for a plot." });
  const left = 88, right = 10, top = 10, bottom = 22;
  const high = Math.max(...points.map(([, value]) => value)) * 1.1;
  const x = (n) => left + ((n - from) / Math.max(1, series.length - 1 - from)) * (width - left - right);
  const y = (value) => height - bottom - (value / high) * (height - top - bottom);
  const lines = [0, high / 2, high].map((value) => [
    svg("line", { class: "scale", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
    svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, duration(value)),
  ]);
  const ends = [from, series.length - 1].map((n, index) =>
    svg("text", { x: x(n), y: height - 5, "text-anchor": index ? "end" : "start" }, shortDate(report.nights[n].date)));
  const path = points.map(([n, value], at) => `${at ? "L" : "M"}${x(n).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const marked = points.find(([n]) => n === mark);
  const lows = points.map(([, value]) => value);
  const said = `durations of ${plural(points.length, "run")}, from ${duration(Math.min(...lows))} to ${duration(Math.max(...lows))}`;
  return svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said },
    lines, ends, svg("path", { d: path }), marked && svg("circle", { cx: x(marked[0]), cy: y(marked[1]), r: 3.5 }));
}
