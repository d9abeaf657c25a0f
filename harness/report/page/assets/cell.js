// One cell in one night: why it failed, how long each step took against its own past, and how to run it again.

/** Open a cell, and keep that in the address: going back closes it. */
function openCell(page, cell, night) {
  change(page, { cell: cell.id, night: night === page.report.nights.length - 1 ? "" : page.report.nights[night].key }, { entry: !page.choice.cell });
}

/** Follow the dialog's own controls. */
function setUpCell(page) {
  const dialog = document.getElementById("cell");
  dialog.addEventListener("close", () => page.choice.cell && change(page, { cell: "" }));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.getElementById("cell-close").addEventListener("click", () => dialog.close());
  document.getElementById("cell-before").addEventListener("click", () => stepNight(page, -1));
  document.getElementById("cell-after").addEventListener("click", () => stepNight(page, 1));
}

function stepNight(page, by) {
  const cell = page.report.cells.find((one) => one.id === page.choice.cell);
  const to = nextRun(page.report, cell, page.night, by);
  if (to >= 0) openCell(page, cell, to);
}

function nextRun(report, cell, night, by) {
  for (let n = night + by; n >= 0 && n < report.nights.length; n += by) if (cell.outcomes[n] !== ".") return n;
  return -1;
}

/** Show the chosen cell, or close the dialog when none is. */
function showCell(page) {
  const dialog = document.getElementById("cell");
  const cell = page.report.cells.find((one) => one.id === page.choice.cell);
  if (!cell || !page.report.nights.length) {
    if (dialog.open) dialog.close();
    return;
  }
  const night = page.report.nights[page.night];
  put(document.getElementById("cell-title"), valuesOf(page.report, cell).map((one) => el("span", { class: "axis" }, el("small", { text: `${one.axis} ` }), el("span", { text: one.value }), " ")));
  document.getElementById("cell-id").textContent = cell.id;
  document.getElementById("cell-before").disabled = nextRun(page.report, cell, page.night, -1) < 0;
  document.getElementById("cell-after").disabled = nextRun(page.report, cell, page.night, 1) < 0;
  document.getElementById("cell-night").textContent = dateOf(night);
  const body = document.getElementById("cell-body");
  put(body, cellVerdict(page, cell), cellFailures(page, cell), lastFailure(page, cell), cellCommand(cell), cellSteps(page, cell), cellPast(page, cell), cellChecks(page, cell));
  if (!dialog.open) {
    dialog.showModal();
    body.scrollTop = 0;
  }
}

function part(title, ...children) {
  return el("section", {}, el("h3", { text: title }), children);
}

function cellVerdict(page, cell) {
  const { report, night } = page;
  const result = resultAt(cell, night);
  const job = jobAddress(report, cell, night);
  const logs = cell.logs[night] || [];
  return el("section", { class: "verdict" },
    el("p", { class: "result" }, el("span", { class: `sign ${classOf(result)}`, "aria-hidden": "true", text: signOf(result) || "·" }),
      el("b", { text: wordsOf(result) }), result.seconds ? ` in ${duration(result.seconds)}` : ""),
    (cell.attempts[night] || []).length > 1 && el("p", { class: "quiet", text: cell.attempts[night].map((one) => `attempt ${one.number} ${one.outcome}${one.blame ? ` (${one.blame})` : ""}`).join(", ") }),
    el("dl", { class: "facts" },
      fact("new or seen before", newsOf(cell), cell.news === "new" ? "new" : ""), fact("history", habitOf(cell)),
      cell.since && fact("since", rangeOf(report, cell.since)), fact("flakiness", rateWords(cell.flaky))),
    !cell.planned && el("p", { class: "due", text: "This cell is no longer in the plan." }),
    el("p", { class: "links" }, job && link(job, "job"), report.nights[night].url && link(report.nights[night].url, "pipeline"),
      link(commitAddress(report.nights[night]), `commit ${short(report.nights[night].commit)}`),
      logs.map((one) => one.url || mayFollow(one.path) ? link(one.url || one.path, one.label) : el("span", { text: `${one.label}: ${one.path}` }))));
}

function cellFailures(page, cell) {
  const items = itemsAt(cell, page.night);
  if (!items.length) return null;
  const causes = causesOf(items);
  const title = causes.length < items.length ? `${plural(causes.length, "cause")}, ${plural(items.length, "failure")}` : plural(items.length, "failure");
  return part(title, causes.map((equal) => causeOf(page.report, cell, equal)));
}

/** Show what failed last in a cell that did not run in this night. */
function lastFailure(page, cell) {
  const { report, night } = page;
  if (!["not run", "not started"].includes(resultAt(cell, night).outcome)) return null;
  const last = cell.failures.filter((failure) => failure.night < night && failure.items.length).at(-1);
  return last ? part(`Last failure: ${dateOf(report.nights[last.night])}`, causesOf(last.items).map((equal) => causeOf(report, cell, equal))) : null;
}

/** Put failures together that have one cause. */
function causesOf(items) {
  const groups = new Map();
  for (const item of items) groups.set(item.cause, [...(groups.get(item.cause) || []), item]);
  return [...groups.values()];
}

function causeOf(report, cell, [item, ...others]) {
  const message = report.messages[item.message] ?? "";
  const cluster = report.clusters[item.cluster];
  const also = cluster ? cluster.cells.filter((number) => number !== cell.number).length : 0;
  const about = [item.stage && `after ${item.stage}`, item.blame && `blame: ${item.blame}`, { new: "new", known: "seen before" }[item.news], item.quarantine && "in quarantine", also && `seen in ${plural(also, "other cell")} too`];
  return el("article", { class: `failure ${item.quarantine ? "o-quarantined" : `o-failed b-${item.blame in BLAMES ? item.blame : "unknown"}`}` },
    el("h4", { text: whatFailed(report, item) }),
    el("p", { class: "quiet" }, about.filter(Boolean).join(" · "), item.quarantine && [" · ", link(item.quarantine, item.quarantine)]),
    message && el("pre", { tabindex: 0, text: message }),
    others.length > 0 && folded(`${plural(others.length, "more failure")} of this cause`, () => el("ul", { class: "checks" }, others.map((other) => el("li", { text: whatFailed(report, other) })))));
}

function cellCommand(cell) {
  const button = el("button", { type: "button", text: "Copy", onclick: () => copy(cell.command, button) });
  return part("Run it again", el("div", { class: "command" }, el("code", { text: cell.command }), button));
}

/** Copy text to the clipboard; where the page may not, select it. */
async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    announce("The command is on the clipboard.");
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Selected";
    announce("The command is selected: copy it with Ctrl+C.");
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

function cellSteps(page, cell) {
  const { report, night } = page;
  const rows = cell.steps.filter((step) => step.seconds[night] !== null && step.seconds[night] !== undefined);
  if (!rows.length) return null;
  const most = Math.max(...rows.map((step) => Math.max(step.seconds[night], usualBefore(step.seconds, night)?.seconds || 0)), 1);
  const isLast = night === report.nights.length - 1;
  return part("Steps", el("table", { class: "steps" },
    el("thead", {}, el("tr", {}, ["step", "took", "usually", "", `earlier ${unitOf(report)}s`].map((text) => el("th", { scope: "col", text })))),
    el("tbody", {}, rows.map((step) => stepRow(step, night, most, isLast)))));
}

function stepRow(step, night, most, isLast) {
  const took = step.seconds[night];
  const usual = usualBefore(step.seconds, night);
  const notable = isLast && step.trend && step.trend.notable;
  const ratio = usual && usual.seconds > 0 ? took / usual.seconds : null;
  return el("tr", { class: notable ? "notable" : null },
    el("th", { scope: "row", text: step.name }),
    el("td", { class: "number", text: duration(took) }),
    el("td", { class: "number", title: usual ? `median of ${plural(usual.runs, "run")} before` : "too few earlier runs" },
      usual ? `${duration(usual.seconds)}` : "–", ratio && Math.abs(ratio - 1) >= 0.1 && el("span", { class: "ratio", text: ` ${ratio.toFixed(1)}×` }), notable && el("b", { text: step.trend.ratio > 1 ? " slower" : " faster" })),
    el("td", { class: "bars" }, stepBar(took, usual, most)),
    el("td", { class: "wide" }, sparkline(step.seconds.slice(Math.max(0, night - 59), night + 1), { width: 110, height: 18 })));
}

function stepBar(took, usual, most) {
  const x = (seconds) => ((100 * seconds) / most).toFixed(1);
  return svg("svg", { class: "bar", width: 100, height: 10, viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "ran", y: 1, width: x(took), height: 8 }), usual && svg("rect", { class: "usual", x: Math.min(98.5, x(usual.seconds)), width: 1.5, height: 10 }));
}

function cellPast(page, cell) {
  const { report, night } = page;
  const from = Math.max(0, report.nights.length - 90);
  const squares = report.nights.slice(from).filter((one) => cell.outcomes[one.number] !== ".").map((one) => {
    const result = resultAt(cell, one.number);
    return el("button", { type: "button", class: `chip small ${classOf(result)}`, title: `${dateOf(one)}: ${wordsOf(result)}`, "aria-label": `${dateOf(one)}: ${wordsOf(result)}`,
      "aria-current": one.number === night ? "true" : null, onclick: () => openCell(page, cell, one.number), text: signOf(result) });
  });
  return part(report.nights.length - from === 1 ? `Its only ${unitOf(report)}` : `Last ${report.nights.length - from} ${unitOf(report)}s`, el("div", { class: "past" }, squares), durationPlot(report, cell.seconds, { from, mark: night, width: innerWidth < 700 ? 340 : 640 }));
}

function cellChecks(page, cell) {
  const { report } = page;
  if (!cell.checks.length && !cell.passed_checks.length && !cell.not_run_checks.length) return null;
  const failed = cell.checks.filter((one) => one.outcome === "failed").length;
  const passed = cell.passed_checks.length + cell.checks.filter((one) => one.outcome === "passed").length;
  const names = (numbers) => el("ul", { class: "checks" }, numbers.map((number) => el("li", { text: report.checks[number] ?? "" })));
  return part("Checks of its last run",
    el("p", { class: "quiet", text: `${failed} failed, ${passed} passed, ${cell.not_run_checks.length} not run` }),
    cell.checks.length > 0 && el("table", { class: "steps" }, el("thead", {}, el("tr", {}, ["ever failed", "", "flaky in", `last 30 ${unitOf(report)}s`].map((text) => el("th", { scope: "col", text })))),
      el("tbody", {}, cell.checks.map((one) => el("tr", {}, el("th", { scope: "row", text: report.checks[one.check] ?? "" }),
        el("td", { text: one.outcome }), el("td", { class: "number", title: rateWords(one.flaky), text: `${one.flaky.failed} of ${one.flaky.n}` }), el("td", { class: "wide" }, strip(report, one.history, "", 30)))))),
    cell.not_run_checks.length > 0 && el("details", {}, el("summary", { text: `${cell.not_run_checks.length} not run, and why` }),
      el("ul", { class: "checks" }, cell.not_run_checks.map(([check, reason]) => el("li", {}, report.checks[check] ?? "", el("span", { class: "quiet", text: ` ${firstLine(report.messages[reason])}` }))))),
    cell.passed_checks.length > 0 && el("details", {}, el("summary", { text: `${cell.passed_checks.length} never failed` }), names(cell.passed_checks)));
}
