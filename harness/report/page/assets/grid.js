// The grid: a row for each cell, a column for each night, the newest at the right. One stop of the Tab key; arrows move inside.

const COLUMN = 26; // width of a night, in px, as in the style sheet
const MOST_ROWS = 100; // before "show all": a thousand rows take seconds to draw
const WINDOWS = ["14", "30", "90"]; // more would take long to draw; older nights are reached in steps

/** Return how many nights fit beside the names. */
function fitting() {
  const wide = document.getElementById("grid-scroll").clientWidth || 900;
  const narrow = wide < 640;
  const besides = narrow ? 156 : 330 + 252;
  return Math.max(5, Math.floor((wide - besides) / COLUMN));
}

/** Return the first and the last night that the grid shows. */
function windowOf(page) {
  const { choice, report } = page;
  const width = WINDOWS.includes(choice.show) ? Number(choice.show) : fitting();
  const end = report.nights.findIndex((night) => night.key === choice.end);
  const to = end < 0 ? report.nights.length - 1 : Math.max(end, Math.min(width, report.nights.length) - 1);
  return { from: Math.max(0, to - width + 1), to, width };
}

/** Show the nights before or after those that are shown. */
function shiftWindow(page, by) {
  const { to, width } = windowOf(page);
  const last = page.report.nights.length - 1;
  const end = Math.min(last, Math.max(0, to + by * width));
  change(page, { end: end === last ? "" : page.report.nights[end].key });
}

/** Draw the grid of the cells that the filter leaves. */
function showGrid(page) {
  const { report } = page;
  const { from, to } = windowOf(page);
  const nights = report.nights.slice(from, to + 1);
  const table = document.getElementById("grid");
  const found = sorted(page);
  const rows = page.allRows ? found : found.slice(0, MOST_ROWS);
  table.style.setProperty("--nights", nights.length);
  table.setAttribute("aria-colcount", nights.length + 1);
  table.setAttribute("aria-rowcount", found.length + 1);
  const columns = el("colgroup", {}, el("col", { class: "names" }), el("col", { span: nights.length, class: "night" }), el("col", { class: "side rate" }), el("col", { class: "side" }));
  put(table, columns, gridHead(page, nights), el("tbody", {}, rows.map((cell) => gridRow(page, cell, nights))));
  document.getElementById("grid-empty").hidden = rows.length > 0;
  const more = document.getElementById("grid-more");
  more.hidden = rows.length === found.length;
  more.textContent = `Show all ${found.length} cells`;
  const newest = rows.length && nights.length ? table.tBodies[0].rows[0].cells[nights.length] : null;
  if (newest) newest.tabIndex = 0;
  const scroll = document.getElementById("grid-scroll");
  scroll.scrollLeft = scroll.scrollWidth;
  document.getElementById("show").value = WINDOWS.includes(page.choice.show) ? page.choice.show : "";
  document.getElementById("sort").value = page.choice.sort;
  document.getElementById("older").disabled = from === 0;
  document.getElementById("newer").disabled = to >= report.nights.length - 1;
}

function sorted(page) {
  const order = {
    "": (one, other) => rank(one) - rank(other) || urgency(one) - urgency(other) || one.id.localeCompare(other.id),
    id: (one, other) => one.id.localeCompare(other.id),
    flaky: (one, other) => other.flaky.rate - one.flaky.rate || one.id.localeCompare(other.id),
    seconds: (one, other) => (other.now.seconds || 0) - (one.now.seconds || 0) || one.id.localeCompare(other.id),
  };
  return [...page.shown].sort(order[page.choice.sort] || order[""]);
}

function rank(cell) {
  const order = ["failing", "quarantined", "notrun", "fixed", "sometimes", "slower"];
  const found = order.findIndex((tag) => cell.tags.has(tag));
  return found < 0 ? order.length : found;
}

function gridHead(page, nights) {
  const months = [];
  for (const night of nights) {
    const name = monthOf(night.date);
    if (months.length && months[months.length - 1].name === name) months[months.length - 1].count += 1;
    else months.push({ name, count: 1 });
  }
  return el("thead", {},
    el("tr", { class: "months", "aria-hidden": "true" }, el("td", { class: "corner" }), months.map((month) => el("td", { colspan: month.count }, el("span", { text: month.count * COLUMN > 8 * month.name.length || months.length === 1 ? month.name : "" }))), el("td", { colspan: 2, class: "side" })),
    el("tr", {}, el("th", { scope: "col", class: "corner", text: "cell" }),
      nights.map((night) => el("th", { scope: "col", class: columnClass(page, night), "aria-label": columnWords(page, night), title: columnWords(page, night), text: DAY.format(night.date) })),
      el("th", { scope: "col", class: "side", text: "flaky", title: "flaky failures of all conclusive runs" }), el("th", { scope: "col", class: "side", text: "duration" })));
}

function columnClass(page, night) {
  return [night.number === page.night ? "chosen" : "", night.gap.length ? "gap" : "", night.infra_outage ? "outage" : ""].join(" ").trim() || null;
}

function columnWords(page, night) {
  const counts = Object.entries(night.counts).map(([word, number]) => `${number} ${word}`).join(", ");
  return `${dateOf(night)}: ${counts}${night.infra_outage ? "; the infrastructure was down" : ""}${night.gap.length ? `; missing before: ${night.gap.join(", ")}` : ""}`;
}

function gridRow(page, cell, nights) {
  const spark = sparkline(cell.seconds.slice(nights[0]?.number ?? 0, (nights[nights.length - 1]?.number ?? 0) + 1), { width: 84, height: 20, label: " " });
  return el("tr", { "data-cell": cell.number },
    el("th", { scope: "row" }, el("button", { type: "button", class: "cell-name", tabindex: -1, "data-open": cell.number, title: cell.id, text: cell.label })),
    nights.map((night) => gridCell(page, cell, night)),
    el("td", { class: "side number", title: rateWords(cell.flaky) }, cell.flaky.n ? `${cell.flaky.failed}/${cell.flaky.n}` : "–"),
    el("td", { class: "side" }, spark && el("span", { "aria-hidden": "true" }, spark), el("span", { class: "number", text: cell.now.seconds ? duration(cell.now.seconds) : "–" })));
}

function gridCell(page, cell, night) {
  const result = resultAt(cell, night.number);
  const gap = night.gap.length ? " gap" : "";
  const chosen = night.number === page.night ? " chosen" : "";
  return el("td", {
    class: `at ${classOf(result)}${gap}${chosen}`, tabindex: -1, "data-night": night.number,
    "aria-label": `${night.short}: ${wordsOf(result)}`, text: signOf(result),
  });
}

/** Show, folded away, how each value of the matrix fared over the nights: their cells may differ, their values do not. */
function showValues(page) {
  const { report, shown } = page;
  const { from, to } = windowOf(page);
  const nights = report.nights.slice(from, to + 1);
  const varied = report.axes.flatMap((axis, number) => (axis.values.length > 1 ? axis.values.map((value, index) => ({ axis, number, value, index })) : []));
  const place = document.getElementById("values");
  place.hidden = varied.length === 0 || nights.length === 0;
  put(place, !place.hidden && folded(`Values over ${unitOf(report)}s: failed of those that ran`, () => el("div", { class: "scroll" }, el("table", { class: "list" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col", text: "value" }), nights.map((night) => el("th", { scope: "col", title: columnWords(page, night), text: DAY.format(night.date) })))),
    el("tbody", {}, varied.map((one) => valueRow(shown.filter((cell) => cell.values[one.number] === one.index), one, nights)))))));
}

function valueRow(cells, { axis, value }, nights) {
  return el("tr", {}, el("th", { scope: "row" }, `${axis.name} `, el("b", { text: value })), nights.map((night) => {
    const results = cells.map((cell) => resultAt(cell, night.number)).filter((result) => ["passed", "failed"].includes(result.outcome));
    const failed = results.filter((result) => result.outcome === "failed").length;
    return el("td", { class: "number" }, results.length > 0 && (failed ? el("b", { text: `${failed}/${results.length}` }) : `0/${results.length}`));
  }));
}

/** Return in words how often something failed and was well again by itself, with the sample and the margin. */
function rateWords(flaky) {
  if (!flaky.n) return "no conclusive run yet";
  const counted = `flaky in ${flaky.failed} of ${plural(flaky.n, "run")}`;
  if (!flaky.enough) return `${counted}: too few for a rate`;
  return `${counted}; recent rate ${Math.round(100 * flaky.rate)} % (between ${Math.round(100 * flaky.low)} and ${Math.round(100 * flaky.high)} %)`;
}

/** Explain the signs that this history has. */
function showLegend(report) {
  const found = new Map();
  for (const cell of report.cells) {
    for (let night = 0; night < report.nights.length; night += 1) {
      const { outcome, blame } = resultAt(cell, night);
      const result = { outcome, blame: outcome === "failed" ? blame : "", attempts: 1 };
      if (outcome !== "not run") found.set(`${outcome} ${result.blame}`, result);
    }
  }
  const order = Object.keys(OUTCOMES);
  const results = [...found.values()].sort((one, other) => order.indexOf(one.outcome) - order.indexOf(other.outcome) || one.blame.localeCompare(other.blame));
  results.push({ outcome: "not run", blame: "", attempts: 1 });
  if (report.cells.some((cell) => Object.keys(cell.attempts).length)) results.splice(1, 0, { outcome: "passed", blame: "", attempts: 2 });
  put(document.getElementById("legend"), results.map((result) => el("li", {}, el("i", { class: classOf(result), text: signOf(result) }), wordsOf(result))));
}

/** Follow mouse and keyboard in the grid: one listener for all of it. */
function setUpGrid(page) {
  const table = document.getElementById("grid");
  table.addEventListener("click", (event) => {
    const at = event.target.closest("td.at");
    const name = event.target.closest("[data-open]");
    if (at) openAt(page, at);
    else if (name) openCell(page, page.report.cells[Number(name.dataset.open)], page.report.nights.length - 1);
  });
  table.addEventListener("keydown", (event) => onGridKey(page, event));
  table.addEventListener("focusin", (event) => {
    const at = event.target.closest("td.at");
    if (!at) return;
    for (const other of table.querySelectorAll("td.at[tabindex='0']")) other.tabIndex = -1;
    at.tabIndex = 0;
  });
  document.getElementById("show").addEventListener("change", (event) => change(page, { show: event.target.value }));
  document.getElementById("older").addEventListener("click", () => shiftWindow(page, -1));
  document.getElementById("newer").addEventListener("click", () => shiftWindow(page, 1));
  document.getElementById("sort").addEventListener("change", (event) => change(page, { sort: event.target.value }));
}

function openAt(page, at) {
  const row = at.closest("tr");
  openCell(page, page.report.cells[Number(row.dataset.cell)], Number(at.dataset.night));
}

function onGridKey(page, event) {
  const at = event.target.closest("td.at");
  if (!at || event.altKey || event.metaKey) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    openAt(page, at);
    return;
  }
  const to = beyondEdge(page, at, event.key) || neighbour(at, event.key, event.ctrlKey);
  if (!to) return;
  event.preventDefault();
  to.focus();
  to.scrollIntoView({ block: "nearest", inline: "nearest" });
}

/** At an edge of the grid with more nights beyond, show those and return the place of the next night. */
function beyondEdge(page, at, key) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
  const { from, to } = windowOf(page);
  const night = Number(at.dataset.night) + step;
  if (!step || (night >= from && night <= to) || night < 0 || night >= page.report.nights.length) return null;
  const row = at.closest("tr").dataset.cell;
  shiftWindow(page, step);
  return placeInGrid(row, night);
}

function placeInGrid(row, night) {
  return document.querySelector(`#grid tr[data-cell="${CSS.escape(row)}"] td[data-night="${CSS.escape(night)}"]`);
}

function neighbour(at, key, control) {
  const row = at.closest("tr");
  const rows = [...row.parentElement.rows];
  const column = at.cellIndex;
  const last = row.querySelectorAll("td.at").length;
  const y = rows.indexOf(row);
  const moves = {
    ArrowLeft: [y, Math.max(1, column - 1)], ArrowRight: [y, Math.min(last, column + 1)],
    ArrowUp: [Math.max(0, y - 1), column], ArrowDown: [Math.min(rows.length - 1, y + 1), column],
    PageUp: [Math.max(0, y - 10), column], PageDown: [Math.min(rows.length - 1, y + 10), column],
    Home: [control ? 0 : y, 1], End: [control ? rows.length - 1 : y, last],
  };
  const move = moves[key];
  return move ? rows[move[0]].cells[move[1]] : null;
}
