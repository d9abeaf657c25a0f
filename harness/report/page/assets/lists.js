// The quieter lists: what fails sometimes, what got slower, what did not run, what is in quarantine, what is covered.

/** Show all lists for the cells that the filter leaves. */
function showLists(page) {
  const visible = new Set(page.shown.map((cell) => cell.number));
  showFixed(page);
  showFlaky(page);
  showSlower(page, visible);
  showWorse(page);
  showSymptoms(page, visible);
  showNotRun(page, visible);
  showQuarantine(page, visible);
}

function rowsInto(id, rows) {
  put(document.getElementById(`${id}-rows`), rows);
  document.getElementById(id).hidden = rows.length === 0;
}

function showFixed(page) {
  const last = page.report.nights.length - 1;
  rowsInto("fixed", page.shown.filter((cell) => cell.tags.has("fixed")).map((cell) => el("li", {}, cellButton(page, cell, last), cellId(cell))));
}

function showFlaky(page) {
  const last = page.report.nights.length - 1;
  const flaky = page.shown.filter((cell) => cell.habit === "sometimes").sort((one, other) => other.flaky.rate - one.flaky.rate);
  rowsInto("flaky", flaky.map((cell) => el("tr", {},
    el("th", { scope: "row" }, cellButton(page, cell, last), cellId(cell)),
    el("td", { class: "number", text: `${cell.flaky.failed} of ${plural(cell.flaky.n, "run")}` }),
    el("td", { class: "number" }, cell.flaky.enough ? rateBar(cell.flaky) : el("span", { class: "quiet", text: "too few runs for a rate" })),
    el("td", { class: "wide" }, strip(page.report, cell.outcomes, cell.blames, 30)))));
}

/** Draw a rate with its margin, and say it. */
function rateBar(flaky) {
  const x = (share) => (1 + 58 * Math.min(1, share)).toFixed(1);
  return [el("span", { text: `${Math.round(100 * flaky.rate)} %` }),
    svg("svg", { class: "rate", width: 60, height: 10, viewBox: "0 0 60 10", role: "img", "aria-label": rateWords(flaky) },
      svg("line", { class: "scale", x1: 1, x2: 59, y1: 5, y2: 5 }),
      svg("line", { class: "margin", x1: x(flaky.low), x2: x(flaky.high), y1: 5, y2: 5 }),
      svg("circle", { cx: x(flaky.rate), cy: 5, r: 3 }))];
}

/** Draw a history of outcomes as small signs, the newest at the right. */
function strip(report, outcomes, blames, most) {
  const start = Math.max(0, outcomes.length - most);
  const said = { p: "passed", f: "failed", ".": "absent", s: "not run" };
  const counts = {};
  const marks = [...outcomes.slice(start)].map((letter, index) => {
    const outcome = letter === "s" ? "not run" : OUTCOME_OF[letter] || "not run";
    const word = said[letter] || outcome;
    counts[word] = (counts[word] || 0) + 1;
    const result = { outcome, blame: blames ? BLAME_OF[blames[start + index]] || "" : "", attempts: 1 };
    return el("i", { class: classOf(result), text: outcome === "passed" ? "" : signOf(result) });
  });
  const words = Object.entries(counts).map(([word, number]) => `${number} ${word}`).join(", ");
  return el("span", { class: "strip", role: "img", "aria-label": `last ${marks.length} ${unitOf(report)}s: ${words}` }, marks);
}

function showSlower(page, visible) {
  const last = page.report.nights.length - 1;
  const rows = page.report.slower.filter((entry) => visible.has(entry.cell));
  rowsInto("slower", rows.map((entry) => {
    const cell = page.report.cells[entry.cell];
    const step = cell.steps.find((one) => one.name === entry.step);
    const series = (step ? step.seconds : cell.seconds).slice(-60);
    return el("tr", {},
      el("th", { scope: "row" }, cellButton(page, cell, last), cellId(cell)),
      el("td", { class: "number", text: entry.step || "whole cell" }),
      el("td", { class: "number" }, el("b", { text: `${entry.ratio.toFixed(2)}×` })),
      el("td", { class: "number" }, duration(entry.now), " ", el("span", { class: "sub quiet", text: `usually ${duration(entry.usual)} (${plural(entry.n, "run")})` })),
      el("td", { class: "wide" }, sparkline(series, { width: 120 })));
  }));
}

/** Show what fails more often with a value than before, by more than chance; does not depend on the filter. */
function showWorse({ report }) {
  const share = (failed, judged) => `${failed} of ${judged}`;
  rowsInto("worse", report.worse.map((one) => el("tr", {},
    el("th", { scope: "row" }, `${one.axis} `, el("b", { text: one.value })),
    el("td", { text: one.check }),
    el("td", { class: "number", text: share(one.failed, one.judged) }),
    el("td", { class: "number", text: share(one.failed_before, one.judged_before) }),
    el("td", { class: "number", text: one.p < 0.0001 ? "under 0.01 %" : `${(100 * one.p).toFixed(2)} %` }))));
  const against = report.worse.length && report.worse[0].against ? `the ${unitOf(report)}s of tag ${report.worse[0].against}` : `the 30 days before`;
  document.getElementById("worse-said").textContent = `The last ${unitOf(report)} against ${against}, by Fisher's exact test.`;
}

/** Show lines that somebody knows the meaning of, and what is looked for in vain. */
function showSymptoms(page, visible) {
  const { report } = page;
  const { seen, idle } = report.symptoms;
  const rows = seen.filter((one) => one.cells.some((cell) => visible.has(cell)));
  rowsInto("symptoms", rows.map((one) => el("li", {},
    el("p", {}, el("b", { text: one.name }), `: ${one.means}`),
    el("p", { class: "quiet" }, el("code", { text: one.line })),
    folded(plural(one.cells.length, "cell"), () => cellList(page, one.cells.map((number) => report.cells[number]), report.nights.length - 1)))));
  const place = document.getElementById("symptoms-idle");
  place.hidden = idle.length === 0;
  place.textContent = `Not seen in the last 60 ${unitOf(report)}s: ${idle.join(", ")}`;
  document.getElementById("symptoms").hidden = rows.length === 0 && idle.length === 0;
}

/** Show, folded away, which cells did not run; the line that is in sight says how many, and why. */
function showNotRun(page, visible) {
  const { report } = page;
  const found = report.not_run.filter((entry) => visible.has(entry.cell));
  document.getElementById("notrun").hidden = found.length === 0;
  const head = el("thead", {}, el("tr", {}, ["cell", "why", "last run"].map((text) => el("th", { scope: "col", text }))));
  const rows = () => el("div", { class: "scroll" }, el("table", { class: "list" }, head, el("tbody", { id: "notrun-rows" }, found.map((entry) => notRunRow(report, page, entry)))));
  put(document.getElementById("notrun-fold"), found.length > 0 && folded(`${plural(found.length, "cell")}: ${reasons(found)}`, rows));
}

function reasons(found) {
  const times = new Map();
  for (const { why } of found) times.set(why, (times.get(why) || 0) + 1);
  const most = [...times].sort((one, other) => other[1] - one[1]);
  const said = most.slice(0, 3).map(([why, number]) => (most.length === 1 ? why : `${number} ${why}`));
  return said.join(", ") + (most.length > 3 ? ", …" : "");
}

function notRunRow(report, page, entry) {
  const before = report.nights[entry.last];
  const cell = report.cells[entry.cell];
  return el("tr", {}, el("th", { scope: "row" }, cellButton(page, cell, report.nights.length - 1), cellId(cell)),
    el("td", { text: entry.why }),
    el("td", { text: before ? `${shortDate(before.date)}: ${wordsOf(resultAt(cell, entry.last))}` : "never ran" }));
}

function showQuarantine(page, visible) {
  const { report } = page;
  const last = report.nights.length - 1;
  const rows = report.quarantine.filter((entry) => !entry.cells.length || entry.cells.some((cell) => visible.has(cell)));
  rowsInto("quarantine", rows.map((entry) => el("li", {},
    el("p", {}, el("code", { text: entry.cell }), entry.check ? [" · ", el("code", { text: entry.check })] : " · whole cell"),
    el("p", {}, entry.reason, " ", link(entry.issue, entry.issue || "no issue")),
    el("p", { class: entry.days_left <= 7 || entry.stale ? "due" : "quiet" },
      entry.days_left < 0 ? `expired ${entry.until}, ${plural(-entry.days_left, "day")} ago` : `until ${entry.until}, ${plural(entry.days_left, "day")} left`,
      ` · failed ${entry.failed} of ${plural(entry.ran, "run")}`, entry.stale ? " · nothing failed recently: remove it" : ""),
    entry.cells.length > 0 && folded(plural(entry.cells.length, "cell"), () => cellList(page, entry.cells.map((number) => report.cells[number]), last)))));
}

/** Show what of the plan ran and passed in the last night; does not depend on the filter. */
function showCoverage(report) {
  const { coverage } = report;
  const rows = [["cells", coverage.planned, coverage.ran, coverage.passed], ["pairs of values", coverage.pairs.planned, coverage.pairs.ran, coverage.pairs.passed]];
  put(document.getElementById("coverage-sum"), rows.map((row) => coverageRow(...row)));
  put(document.getElementById("coverage-axes"), coverage.axes.map((axis) => el("tbody", {},
    el("tr", {}, el("th", { colspan: 4, scope: "rowgroup", class: "group", text: axis.name })),
    axis.values.map((one) => coverageRow(one.value, one.planned, one.ran, one.passed)))));
}

function coverageRow(name, planned, ran, passed) {
  const width = (number) => (planned ? (100 * number) / planned : 0);
  return el("tr", {}, el("th", { scope: "row", text: name }),
    el("td", { class: "number", text: `${ran} of ${planned} ran` }), el("td", { class: "number", text: `${passed} passed` }),
    el("td", {}, svg("svg", { class: "bar", width: 100, height: 8, viewBox: "0 0 100 8", "aria-hidden": "true" },
      svg("rect", { class: "all", width: 100, height: 8 }), svg("rect", { class: "ran", width: width(ran), height: 8 }), svg("rect", { class: "ok", width: width(passed), height: 8 }))));
}

/** Show where the history came from, and which lines of it could not be read. */
function showHistory(report) {
  const { history, left_out: leftOut } = report;
  const said = [`${plural(history.records, "record")} from ${history.sources.join(", ") || "nowhere"}`];
  if (history.duplicates) said.push(`${history.duplicates} duplicates`);
  if (history.forgotten) said.push(`${history.forgotten} without details`);
  document.getElementById("history-said").textContent = `${said.join(", ")}.`;
  put(document.getElementById("history-skipped"), history.skipped_total > 0 && [
    el("p", { class: "due", text: `${plural(history.skipped_total, "line")} of the history could not be read:` }),
    el("ul", {}, history.skipped.map((one) => el("li", {}, el("code", { text: `${one.source}:${one.line}` }), ` ${one.why}`)))],
  leftOut.map((text) => el("p", { class: "due", text })));
}
