// How fast clusters are: each figure as a small plot over the nights, for each value of an axis.

const MOST_PLOTTED = 60; // nights

/** Fill the choice of the axis. */
function setUpFigures(page) {
  const select = document.getElementById("figures-axis");
  const axes = page.report.axes.map((axis) => axis.name);
  put(select, axes.map((name) => el("option", { value: name, text: name })));
  select.addEventListener("change", () => change(page, { figures: select.value }));
}

/** Draw the plots for the cells that the filter leaves. */
function showFigures(page) {
  const { report } = page;
  const cells = page.shown.filter((cell) => cell.figures.length > 0);
  document.getElementById("figures").hidden = !cells.length;
  if (!cells.length) return;
  const names = report.axes.map((axis) => axis.name);
  const name = [page.choice.figures, "kubernetes", names[0]].find((one) => names.includes(one));
  document.getElementById("figures-axis").value = name;
  const groups = figureGroups(report, cells, name);
  put(document.getElementById("figures-said"), figuresSaid(page, new Set(cells.map((cell) => cell.number))));
  put(document.getElementById("figures-table"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col", text: "figure" }), [...groups.keys()].map((value) => el("th", { scope: "col", text: value })))),
    el("tbody", {}, report.figures.kinds.map((kind, number) => figureRow(kind, number, [...groups.values()])).filter(Boolean)));
}

/** Return the cells by their value of an axis, in the axis's order. */
function figureGroups(report, cells, name) {
  const at = report.axes.findIndex((axis) => axis.name === name);
  const groups = new Map();
  report.axes[at].values.forEach((value, number) => {
    const found = cells.filter((cell) => cell.values[at] === number);
    if (found.length) groups.set(value, found);
  });
  return groups;
}

function figureRow(kind, number, groups) {
  const columns = groups.map((cells) => figureSeries(cells, number).slice(-MOST_PLOTTED));
  if (columns.every((series) => series.every((value) => value === null))) return null;
  const slo = kind.slo ? ` (SLO ${figureAmount(kind, kind.slo)})` : "";
  return el("tr", {}, el("th", { scope: "row" }, kind.label, el("span", { class: "sub quiet", text: `${kind.higher ? "more is better" : "less is better"}${slo}` })),
    columns.map((series) => figureCell(kind, series)));
}

function figureCell(kind, series) {
  const known = series.filter((value) => value !== null);
  if (!known.length) return el("td", { class: "quiet", text: "–" });
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const said = `${kind.label}: ${plural(known.length, "run")}, from ${figureAmount(kind, least)} to ${figureAmount(kind, most)}`;
  return el("td", {}, el("span", { class: "number", text: figureAmount(kind, known[known.length - 1]) }), " ", sparkline(series, { width: 110, label: said }));
}

/** Return a kind's series over the nights: the median of these cells. */
function figureSeries(cells, number) {
  const every = cells.map((cell) => cell.figures.find((one) => one.kind === number)).filter(Boolean).map((one) => one.values);
  const nights = Math.max(0, ...every.map((values) => values.length));
  return Array.from({ length: nights }, (_, night) => {
    const found = every.map((values) => values[night]).filter((value) => value !== null && value !== undefined).sort((a, b) => a - b);
    return found.length ? found[found.length >> 1] : null;
  });
}

function figuresSaid(page, visible) {
  const { figures } = page.report;
  const last = page.report.nights.length - 1;
  const line = (entry, text) => el("li", {}, cellButton(page, page.report.cells[entry.cell], last), ` ${text}`);
  const slower = figures.slower.filter((entry) => visible.has(entry.cell));
  const over = figures.over.filter((entry) => visible.has(entry.cell));
  const young = figures.young ? `, ${figures.young} with too few runs before them` : "";
  return [
    el("p", { class: slower.length ? "due" : "quiet", text: `${slower.length || "None"} of ${figures.compared} compared figures ${slower.length === 1 ? "is" : "are"} slower than usual by more than the noise${young}.` }),
    slower.length > 0 && el("ul", { id: "figures-slower" }, slower.map((entry) => line(entry, entry.said))),
    over.length > 0 && el("ul", { id: "figures-over" }, over.map((entry) => line(entry, `over the SLO: ${entry.said}`))),
  ];
}

/** Return an amount with its unit, as people read it. */
function figureAmount(kind, value) {
  if (kind.unit === "s" && value < 1) return `${Number((value * 1000).toPrecision(3))} ms`;
  const digits = value >= 1000 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
  return `${digits} ${kind.unit}`.trim();
}
