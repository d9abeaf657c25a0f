// What to look at: what failed in the last night, equal failures in one row with their cells, the newest and the product's first.

const BLAME_ORDER = ["product", "harness", "infra", "user", ""];
const FIRST = 12; // rows before "show all"
const FEW_CELLS = 3; // of a row, which are shown without unfolding
const MOST_CELLS = 200; // of a row; the grid has them all
const FEW_SUSPECTS = 3; // of a failure that no suspect explains for sure
const MOST_GONE = 50; // equal failures of nights before

/** Show the failures of the last night in the cells that the filter leaves. */
function showAttention(page) {
  const { report, shown } = page;
  const night = report.nights.length - 1;
  const cells = shown.filter((cell) => cell.tags.has("failing") || cell.tags.has("quarantined")).sort(byUrgency);
  const groups = equalFailures(report, cells, night);
  const all = page.everything || groups.length <= FIRST;
  document.getElementById("outage").hidden = !(night >= 0 && report.nights[night].infra_outage);
  document.getElementById("attention-table").hidden = groups.length === 0;
  put(document.getElementById("attention-rows"), (all ? groups : groups.slice(0, FIRST)).map((group) => attentionRow(page, group, night)));
  document.getElementById("attention-sum").textContent = groups.length ? `${plural(groups.length, groups.length === 1 ? "failure" : "different failure")} in ${plural(cells.length, "cell")}` : "";
  const empty = document.getElementById("attention-empty");
  empty.hidden = groups.length > 0;
  empty.textContent = shown.length < report.cells.length ? `No cell that matches the filter failed in the last ${unitOf(report)}.` : `No cell failed in the last ${unitOf(report)}.`;
  if (night >= 0 && !groups.length && report.week && shown.length === report.cells.length) empty.append(" ", weekOf(report));
  showSuspects(page, new Set(shown.map((cell) => cell.number)));
  const more = document.getElementById("attention-more");
  more.hidden = all;
  more.textContent = `Show all ${groups.length} failures`;
}

/** Say how much of the matrix the last 7 days judged. */
function weekOf(report) {
  const { nights, cells, pairs, triples, possible } = report.week;
  const share = possible ? `${pairs} of ${possible} pairs of values (${Math.floor((100 * pairs) / possible)} %)` : `${pairs} pairs of values`;
  return `In the last 7 days, ${plural(nights, unitOf(report))} judged ${plural(cells, "different cell")}: ${share} and ${plural(triples, "triple")}.`;
}

/** Show what is named as the cause of failures, before these. */
function showSuspects(page, visible) {
  const { report } = page;
  const named = report.suspects.filter((one) => one.named && one.cells.some((cell) => visible.has(cell)));
  const place = document.getElementById("suspects-rows");
  place.hidden = named.length === 0;
  put(place, named.map((found) => el("li", { class: "cluster" },
    el("p", { class: "message" }, found.suspects[0].around ? "Suspect, not of the matrix: " : "Suspect: ", suspectValues(found.suspects[0]),
      el("span", { class: "quiet", text: ` · ${found.suspects[0].evidence}` })),
    el("p", {}, "fails: ", el("span", { class: "where", text: `${found.what.slice(0, 3).join(", ")}${found.what.length > 3 ? ` and ${found.what.length - 3} more` : ""}` })),
    culpritOf(report, found),
    folded(plural(found.cells.length, "cell"), () => cellList(page, found.cells.map((number) => report.cells[number]), report.nights.length - 1)))));
}

function suspectValues(suspect) {
  return suspect.values.map(({ axis, value }, index) => [index ? " with " : "", `${axis} `, el("b", { text: value })]);
}

/** Say since which commit a suspect fails: the one that bisection found, else those between its nights. */
function culpritOf(report, { culprit, since }) {
  if (culprit) {
    const owners = culprit.owners ? ` · owners: ${culprit.owners}` : "";
    return el("p", {}, "since ", el("b", { text: culprit.title }), el("span", { class: "quiet", text: ` · ${culprit.author}, ${culprit.date}${owners}` }));
  }
  if (!since) return el("p", { class: "quiet", text: "not known to have passed before" });
  const range = since.good === since.bad ? ["same commit ", el("code", { text: short(since.bad) }), " passed before"]
    : ["commits ", link(since.url, `${short(since.good)}..${short(since.bad)}`, { class: "mono" })];
  return el("p", { class: "quiet" }, `since ${shortDate(noonOf(since.date))}, `, range);
}

function byUrgency(one, other) {
  return urgency(one) - urgency(other) || one.id.localeCompare(other.id);
}

function urgency(cell) {
  const quarantined = cell.tags.has("quarantined") ? 1000 : 0;
  const known = cell.news === "new" ? 0 : 100;
  return quarantined + known + BLAME_ORDER.indexOf(cell.now.blame) * 10;
}

/** Return the failure that a cell is listed under: its first one that is not in quarantine. */
function firstFailure(cell, night) {
  const items = itemsAt(cell, night);
  return items.find((item) => !item.quarantine) || items[0];
}

/** Put cells together that failed alike: the same message, the same blame. Cells and rows keep their order. */
function equalFailures(report, cells, night) {
  const groups = new Map();
  for (const cell of cells) {
    const first = firstFailure(cell, night);
    const alike = !first ? "" : first.cluster >= 0 ? `cluster ${first.cluster}` : `${first.check} ${first.step} ${report.messages[first.message]}`;
    const key = [cell.now.outcome, cell.now.blame, alike].join("\u0000");
    if (!groups.has(key)) groups.set(key, { first, cells: [] });
    groups.get(key).cells.push(cell);
  }
  return [...groups.values()].sort((one, other) => urgency(one.cells[0]) - urgency(other.cells[0]) || other.cells.length - one.cells.length);
}

function attentionRow(page, { first, cells }, night) {
  const { report } = page;
  const { now } = cells[0];
  const excused = cells[0].tags.has("quarantined");
  const field = (name, kind, value) => el("td", { class: kind }, el("span", { class: "label", text: `${name} ` }), value);
  const often = excused ? tally(cells, (cell) => excuseOf(report, cell)) : tally(cells, habitOf);
  return el("tr", { class: excused ? "excused" : null },
    el("td", { class: "mark" }, el("span", { class: `sign ${classOf(now)}`, "aria-hidden": "true", text: signOf(now) })),
    el("th", { scope: "row", class: "what" },
      el("p", { class: "message" }, first ? [el("b", { text: `${whatFailed(report, first)}:` }), " ", firstLine(report.messages[first.message])] : wordsOf(now)),
      besides(report, cells, first, night),
      cellsOfFailure(page, cells, night)),
    field("blame", "plainly blamed", now.blame || (excused ? first?.blame : "") || "unknown"),
    field("new", cells.some((cell) => cell.news === "new") && !excused ? "plainly new" : "plainly", tally(cells, newsOf)),
    field("history", "often", often),
    field("since", "since", sinceOf(report, cells)));
}

/** Say once what all cells have in common, else how many have what; nothing but the two most frequent. */
function tally(cells, say) {
  const times = new Map();
  for (const cell of cells) times.set(say(cell), (times.get(say(cell)) || 0) + 1);
  if (times.size === 1) return [...times.keys()][0];
  const most = [...times].sort((one, other) => other[1] - one[1]);
  return [most.slice(0, 2).map(([text, number]) => el("span", { class: "sub", text: `${number} × ${text}` })),
    most.length > 2 && el("span", { class: "sub quiet", text: `and ${cells.length - most[0][1] - most[1][1]} more` })];
}

/** Say what may be the cause, what else failed in the cells, and how old the failure is. */
function besides(report, cells, first, night) {
  const cluster = first && report.clusters[first.cluster];
  const suspected = suspectsOf(report, cells);
  const others = otherFailures(report, cells, first, night);
  const older = cluster && cluster.runs > cells.length && report.nights[cluster.first];
  return [
    suspected?.by_chance && el("p", { class: "quiet", text: `most likely by chance (${Math.round(100 * suspected.chance)} %)` }),
    suspected && !suspected.by_chance && suspected.suspects.slice(0, suspected.named ? 1 : FEW_SUSPECTS).map((one) => suspectLine(suspected, one)),
    others.slice(0, 2).map(([what, number]) => el("p", { class: "quiet", text: `also failed${cells.length > 1 ? ` in ${number} of them` : ""}: ${what}` })),
    others.length > 2 && el("p", { class: "quiet", text: `and ${plural(others.length - 2, "more cause")}` }),
    older && el("p", { class: "quiet", text: `seen in ${plural(cluster.runs, "run")} of ${plural(cluster.cells.length, "cell")} since ${shortDate(older.date)}` }),
  ];
}

/** Return what may explain the failure of these cells: of those that these cells had alone, what most of them had. */
function suspectsOf(report, cells) {
  const numbers = new Set(cells.map((cell) => cell.number));
  return report.suspects.find((one) => (one.suspects.length || one.by_chance) && one.cells.every((cell) => numbers.has(cell)));
}

function suspectLine(found, one) {
  const sure = `${Math.round(100 * one.share)} %`;
  return el("p", { class: "quiet suspect" }, found.named ? "suspect: " : `perhaps (${sure}): `, one.around ? "not the matrix, but " : "", suspectValues(one), `; ${one.evidence}`);
}

function otherFailures(report, cells, first, night) {
  const times = new Map();
  for (const cell of cells) {
    const main = firstFailure(cell, night);
    const others = itemsAt(cell, night).filter((item) => item !== main && (item.cluster < 0 || item.cluster !== first.cluster));
    const said = new Set(causesOf(others).map(([item, ...equal]) => `${whatFailed(report, item)}${equal.length ? ` and ${equal.length} more of this cause` : ""}`));
    for (const what of said) times.set(what, (times.get(what) || 0) + 1);
  }
  return [...times].sort((one, other) => other[1] - one[1]);
}

function cellsOfFailure(page, cells, night) {
  const differ = (say) => new Set(cells.map(say)).size > 1; // what all say alike stands in the row
  const said = (cell) => [differ(newsOf) && newsOf(cell), differ(habitOf) && habitOf(cell), flakyOf(cell)].filter(Boolean).join(" · ");
  const list = () => el("ul", { class: "cells" }, cells.slice(0, MOST_CELLS).map((cell) => el("li", {},
    cellButton(page, cell, night), cellId(cell), said(cell) && el("span", { class: "quiet", text: said(cell) }))),
  cells.length > MOST_CELLS && el("li", { class: "quiet", text: `and ${cells.length - MOST_CELLS} more: see the grid` }));
  return cells.length <= FEW_CELLS ? list() : folded(plural(cells.length, "cell"), list);
}

function excuseOf(report, cell) {
  const entry = report.quarantine.find((one) => one.cells.includes(cell.number));
  return entry ? `in quarantine until ${entry.until}` : "in quarantine";
}

/** Make the button that opens a cell: its values, by which people know it. */
function cellButton(page, cell, night) {
  return el("button", { type: "button", class: "cell-name", title: cell.id, onclick: () => openCell(page, cell, night) }, cell.label);
}

/** Make what the command line calls a cell. */
function cellId(cell) {
  return cell.label === cell.id ? null : el("code", { class: "id", text: cell.id });
}

/** Make a list of cells. */
function cellList(page, cells, night) {
  return el("ul", { class: "cells" }, cells.map((cell) => el("li", {}, cellButton(page, cell, night), cellId(cell))));
}

function fact(name, value, kind = "") {
  return el("div", { class: kind }, el("dt", { text: name }), el("dd", {}, value));
}

function newsOf(cell) {
  if (cell.now.outcome === "quarantined") return "quarantined";
  return { new: "new", known: "seen before", fixed: "fixed" }[cell.news] || "–";
}

/** Return how often a cell failed of late. */
function habitOf(cell) {
  if (cell.streak > 1) return `failed ${cell.streak} runs in a row`;
  if (cell.habit === "new") return cell.since && cell.since.good < 0 ? "failed in its only run" : "passed the run before";
  return { never: "did not fail lately", sometimes: "fails now and then" }[cell.habit] || cell.habit;
}

function flakyOf(cell) {
  return cell.flaky.failed > 0 ? `flaky in ${cell.flaky.failed} of ${plural(cell.flaky.n, "run")}` : "";
}

/** Say between which commits the failure came; for several cells, what most of them say. */
function sinceOf(report, cells) {
  const ranges = new Map();
  for (const cell of cells) {
    const key = cell.since ? `${cell.since.good} ${cell.since.bad}` : "";
    if (!ranges.has(key)) ranges.set(key, { since: cell.since, number: 0 });
    ranges.get(key).number += 1;
  }
  const found = [...ranges.values()].filter((one) => one.since).sort((one, other) => other.number - one.number);
  if (!found.length) return "–";
  if (ranges.size === 1) return rangeOf(report, found[0].since);
  return [found.slice(0, 2).map((one) => el("div", { class: "range" }, `${one.number} × `, rangeOf(report, one.since))),
    found.length > 2 && el("span", { class: "sub quiet", text: `and ${plural(found.length - 2, "other date")}` })];
}

/** Return the commits between which a failure came, with a link to compare them. */
function rangeOf(report, range) {
  const [good, bad] = [report.nights[range.good], report.nights[range.bad]];
  const when = bad ? shortDate(bad.date) : "";
  const between = range.between > 0 && el("span", { class: "sub quiet", text: ` ${plural(range.between, unitOf(report))} between ${range.between === 1 ? "says" : "say"} nothing` });
  const commit = el("code", { text: short(range.bad_commit) });
  if (range.good < 0) return [when, " ", el("span", { class: "sub" }, "at commit ", commit, "; no run passed before"), between];
  if (range.good_commit === range.bad_commit && range.bad_commit) {
    return [when, " ", el("span", { class: "sub" }, "same commit ", commit, ` passed on ${good ? shortDate(good.date) : `a ${unitOf(report)} before`}`), between];
  }
  return [when, " ", el("span", { class: "sub" }, "commits ", link(range.url, `${short(range.good_commit)}..${short(range.bad_commit)}`, { class: "mono" })), between];
}

/** Show, folded away, the failures that were there in nights before and are not there now. */
function showGone(page) {
  const { report, shown } = page;
  const visible = new Set(shown.map((cell) => cell.number));
  const gone = report.clusters.filter((cluster) => !cluster.now.length && cluster.cells.some((cell) => visible.has(cell)))
    .sort((one, other) => other.last - one.last || other.runs - one.runs);
  const place = document.getElementById("gone");
  place.hidden = gone.length === 0;
  const said = `${plural(gone.length, "failure")} of earlier ${unitOf(report)}s${gone.length > MOST_GONE ? `, the latest ${MOST_GONE}` : ""}`;
  put(place, gone.length > 0 && folded(said, () => el("ul", { id: "gone-rows", class: "clusters" }, gone.slice(0, MOST_GONE).map((cluster) => goneRow(page, cluster)))));
}

function goneRow(page, cluster) {
  const { report } = page;
  const days = [cluster.first, cluster.last].map((night) => report.nights[night]).filter(Boolean).map((night) => shortDate(night.date));
  return el("li", { class: "cluster gone" },
    el("p", { class: "message" }, el("span", { class: "where", text: `${cluster.what.slice(0, 3).join(", ")}:` }), " ", firstLine(report.messages[cluster.message])),
    el("p", { class: "quiet" }, `not in the last ${unitOf(report)}`,
      ` · ${Object.entries(cluster.blames).map(([blame, runs]) => `blame ${blame || "unknown"}: ${plural(runs, "run")}`).join(", ")}`,
      ` · ${[...new Set(days)].join(" to ")}`),
    folded(plural(cluster.cells.length, "cell"), () => cellList(page, cluster.cells.map((number) => report.cells[number]).filter(Boolean), cluster.last)));
}
