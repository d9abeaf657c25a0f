// The report's document, unpacked, with the questions that the page asks of it.

const OUTCOME_OF = {
  p: "passed", f: "failed", q: "quarantined", i: "interrupted", u: "unfinished", c: "unchecked", n: "not started", ".": "not run",
};
const BLAME_OF = { p: "product", i: "infra", h: "harness", u: "user" };
const USUAL_OF = 20; // how many runs before one say what is usual for it
const FEWEST = 3; // with fewer runs before, nothing is usual

/** Unpack the document that the page carries: JSON, compressed, in base64. */
async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** Make the model of a document: the document itself with dates parsed and every cell's tags. */
function modelOf(report) {
  const last = report.nights.length - 1;
  const dates = new Map();
  for (const night of report.nights) dates.set(night.date, (dates.get(night.date) || 0) + 1);
  report.nights.forEach((night, number) => {
    night.number = number;
    night.shared = dates.get(night.date) > 1;
    night.at = new Date(night.started);
    night.date = /^\d{4}-\d\d-\d\d$/.test(night.date) ? noonOf(night.date) : new Date(night.started);
    night.key = night.pipeline || night.run || night.started;
    night.short = shortDateOf(night);
    night.gap = gapBefore(report, night);
  });
  const slower = new Set(report.slower.map((entry) => entry.cell));
  const missed = new Map(report.not_run.map((entry) => [entry.cell, entry]));
  report.cells.forEach((cell, number) => {
    cell.number = number;
    cell.now = resultAt(cell, last);
    cell.label = labelOf(report, cell);
    cell.tags = tagsOf(cell, { slower: slower.has(number), missed: missed.has(number) });
    cell.text = [cell.id, ...valuesOf(report, cell).map((value) => value.value), ...messagesOf(report, cell, last)].join(" ").toLowerCase();
  });
  tellApart(report.cells);
  return report;
}

/** Return the moment that stands for a day, YYYY-MM-DD. */
function noonOf(day) {
  return new Date(`${day}T12:00:00Z`);
}

/** Return a cell's values of the axes that have several: what a person knows it by. */
function labelOf(report, cell) {
  const varying = valuesOf(report, cell).filter((_, index) => report.axes[index].values.length > 1);
  return varying.length ? varying.map((one) => one.value).join("\u00a0· ") : cell.id;
}

/** Add the end of its id to what several cells would be called. */
function tellApart(cells) {
  const times = new Map();
  for (const cell of cells) times.set(cell.label, (times.get(cell.label) || 0) + 1);
  for (const cell of cells) if (times.get(cell.label) > 1 && cell.label !== cell.id) cell.label += `\u00a0· ${cell.id.split("-").pop()}`;
}

/** Return the dates between a night and the one before on which one was due and none came. */
function gapBefore(report, night) {
  const before = report.nights[night.number - 1];
  if (!before) return [];
  const [start, end] = [before, night].map((one) => one.date.toISOString().slice(0, 10));
  return report.freshness.missing.filter((date) => date > start && date < end);
}

function tagsOf(cell, { slower, missed }) {
  const tags = new Set();
  const { outcome } = cell.now;
  if (ENDED_BADLY.has(outcome)) tags.add("failing");
  if (outcome === "passed") tags.add("passing");
  if (outcome === "quarantined") tags.add("quarantined");
  if (missed || outcome === "not started" || outcome === "not run") tags.add("notrun");
  if (cell.news && outcome !== "not run" && outcome !== "quarantined") tags.add(cell.news); // what it says is of the cell's latest run, whichever night
  if (cell.habit === "sometimes") tags.add("sometimes");
  if (slower) tags.add("slower");
  return tags;
}

/** Return what a cell came to in a night. */
function resultAt(cell, night) {
  const outcome = OUTCOME_OF[cell.outcomes[night]] || "not run";
  const attempts = cell.attempts[night];
  return { outcome, blame: BLAME_OF[cell.blames[night]] || "", attempts: attempts ? attempts.length : 1, seconds: cell.seconds[night] };
}

/** Return a cell's axes and values; one that is not known is "?". */
function valuesOf(report, cell) {
  return report.axes.map((axis, index) => ({ axis: axis.name, value: axis.values[cell.values[index]] ?? "?" }));
}

/** Return what failed in a night, in words. */
function itemsAt(cell, night) {
  const found = cell.failures.find((failure) => failure.night === night);
  return found ? found.items : [];
}

function messagesOf(report, cell, night) {
  return itemsAt(cell, night).map((item) => `${whatFailed(report, item)} ${report.messages[item.message] ?? ""}`);
}

/** Return the name of the step or the check that failed. */
function whatFailed(report, item) {
  if (item.check >= 0) return report.checks[item.check] ?? "a check";
  return item.step ? `step ${item.step}` : "the cell";
}

/** Return the line of a message that says what went wrong. */
function firstLine(message) {
  return (message || "").split("\n").map((line) => line.trim()).find((line) => line) || "";
}

/** Return the median of the runs before a night, and of how many; null with too few. */
function usualBefore(series, night) {
  const before = [];
  for (let n = night - 1; n >= 0 && before.length < USUAL_OF; n -= 1) {
    if (series[n] !== null && series[n] !== undefined) before.push(series[n]);
  }
  if (before.length < FEWEST) return null;
  before.sort((a, b) => a - b);
  const middle = before.length >> 1;
  return { seconds: before.length % 2 ? before[middle] : (before[middle - 1] + before[middle]) / 2, runs: before.length };
}

/** Return the address of a cell's job in a night, or nothing. */
function jobAddress(report, cell, night) {
  const { project_url: project } = report.nights[night];
  return project && cell.jobs[night] ? `${project}/-/jobs/${cell.jobs[night]}` : "";
}

function commitAddress(night) {
  return night.project_url && night.commit ? `${night.project_url}/-/commit/${night.commit}` : "";
}
