// What to look at: the cells that failed in the last night, the newest and the product's first; and equal failures together.

const BLAME_ORDER = ["product", "harness", "infra", "user", ""];
const FIRST = 12; // rows before "show all"
const MOST_GONE = 50; // equal failures of nights before

/** Show the failing cells of the last night that the filter leaves. */
function showAttention(page) {
  const { report, shown } = page;
  const rows = shown.filter((cell) => cell.tags.has("failing") || cell.tags.has("quarantined")).sort(byUrgency);
  const place = document.getElementById("attention-rows");
  const night = report.nights.length - 1;
  const all = page.everything || rows.length <= FIRST;
  const outage = night >= 0 && report.nights[night].infra_outage;
  document.getElementById("outage").hidden = !outage;
  document.getElementById("attention-table").hidden = rows.length === 0;
  put(place, (all ? rows : rows.slice(0, FIRST)).map((cell) => attentionRow(page, cell, night)));
  document.getElementById("attention-sum").textContent = rows.length ? `${plural(rows.length, "cell")}, ${plural(differentFailures(rows, night), "different failure")}` : "";
  const empty = document.getElementById("attention-empty");
  empty.hidden = rows.length > 0;
  empty.textContent = shown.length < report.cells.length ? "No cell that matches the filter failed in the last night." : "No cell failed in the last night.";
  const more = document.getElementById("attention-more");
  more.hidden = all;
  more.textContent = `Show all ${rows.length}`;
}

/** Count the failures of cells that say something different: those of one cluster count once. */
function differentFailures(cells, night) {
  const found = new Set();
  for (const cell of cells) {
    for (const item of itemsAt(cell, night)) found.add(item.cluster >= 0 ? item.cluster : `${cell.number} ${item.check} ${item.step}`);
  }
  return found.size;
}

function byUrgency(one, other) {
  return urgency(one) - urgency(other) || one.id.localeCompare(other.id);
}

function urgency(cell) {
  const quarantined = cell.tags.has("quarantined") ? 1000 : 0;
  const known = cell.news === "new" ? 0 : 100;
  return quarantined + known + BLAME_ORDER.indexOf(cell.now.blame) * 10;
}

function attentionRow(page, cell, night) {
  const { report } = page;
  const items = itemsAt(cell, night);
  const counted = items.filter((item) => !item.quarantine);
  const first = (counted.length ? counted : items)[0];
  const cluster = items.map((item) => report.clusters[item.cluster]).find((one) => one && one.now.length > 1);
  const field = (name, kind, value) => el("td", { class: value ? kind : `${kind} empty` }, el("span", { class: "label", text: `${name} ` }), value || "–");
  return el("tr", { class: cell.tags.has("quarantined") ? "excused" : null },
    el("td", { class: "mark" }, el("span", { class: `sign ${classOf(cell.now)}`, "aria-hidden": "true", text: signOf(cell.now) })),
    el("th", { scope: "row", class: "what" },
      cellButton(page, cell, night),
      el("p", { class: "message" },
        first ? [el("span", { class: "where", text: `${whatFailed(report, first)}:` }), " ", firstLine(report.messages[first.message])] : wordsOf(cell.now),
        items.length > 1 && el("span", { class: "quiet", text: ` and ${items.length - 1} more` }))),
    field("blame", "plainly", cell.now.blame || "unknown"),
    field("new or known", cell.news === "new" ? "plainly new" : "plainly", newsOf(cell)),
    field("how often", "often", cell.tags.has("quarantined") ? excuseOf(report, cell) : habitOf(cell)),
    field("since", "", cell.since && rangeOf(report, cell.since)),
    field("also in", "", cluster && el("a", { href: "#clusters", onclick: (event) => goTo(event, "clusters"), text: plural(cluster.now.length - 1, "other cell") })));
}

function excuseOf(report, cell) {
  const entry = report.quarantine.find((one) => one.cells.includes(cell.number));
  return entry ? `in quarantine until ${entry.until}` : "in quarantine";
}

/** Make the button that opens a cell. */
function cellButton(page, cell, night, text = cell.id) {
  return el("button", { type: "button", class: "cell-name", onclick: () => openCell(page, cell, night) }, text);
}

function fact(name, value, kind = "") {
  return el("div", { class: kind }, el("dt", { text: name }), el("dd", {}, value));
}

function newsOf(cell) {
  if (cell.now.outcome === "quarantined") return "quarantined";
  return { new: "new", known: "known", fixed: "fixed" }[cell.news] || "–";
}

/** Return whether a cell fails always or sometimes, and how often it failed by chance before. */
function habitOf(cell) {
  const began = cell.streak > 1 ? `${cell.streak} in a row` : "just began";
  const said = { never: "not recently", new: began, always: `always: ${cell.streak} in a row`, sometimes: "sometimes" }[cell.habit] || cell.habit;
  return [said, cell.flaky.failed > 0 && [" ", el("span", { class: "sub quiet", text: `flaky in ${cell.flaky.failed} of ${plural(cell.flaky.n, "run")}` })]];
}

/** Return the commits between which a failure came, with a link to compare them. */
function rangeOf(report, range) {
  const bad = report.nights[range.bad];
  const when = bad ? SHORT.format(bad.date) : "";
  const between = range.between > 0 && el("span", { class: "sub quiet", text: ` ${plural(range.between, "night")} between inconclusive` });
  const commit = el("code", { text: short(range.bad_commit) });
  if (range.good < 0) return [when, " ", el("span", { class: "sub" }, "at ", commit, ", never passed before"), between];
  if (range.good_commit === range.bad_commit && range.bad_commit) {
    return [when, " ", el("span", { class: "sub" }, commit, " also passed"), between];
  }
  return [when, " ", el("span", { class: "sub" }, link(range.url, `${short(range.good_commit)}..${short(range.bad_commit)}`, { class: "mono" })), between];
}

/** Show failures that say the same, and where. */
function showClusters(page) {
  const { report, shown } = page;
  const visible = new Set(shown.map((cell) => cell.number));
  const last = report.nights.length - 1;
  const rows = report.clusters.filter((cluster) => cluster.cells.some((cell) => visible.has(cell)))
    .sort((one, other) => other.now.length - one.now.length || other.last - one.last || other.runs - one.runs);
  const now = rows.filter((cluster) => cluster.now.length);
  const gone = rows.filter((cluster) => !cluster.now.length);
  put(document.getElementById("cluster-rows"), now.map((cluster) => clusterRow(page, cluster, last)));
  put(document.getElementById("gone-rows"), gone.slice(0, MOST_GONE).map((cluster) => clusterRow(page, cluster, last)));
  document.getElementById("gone").hidden = gone.length === 0;
  document.getElementById("gone-count").textContent = `${plural(gone.length, "failure")} of earlier nights${gone.length > MOST_GONE ? `, the latest ${MOST_GONE}` : ""}`;
  document.getElementById("clusters").hidden = rows.length === 0;
}

function clusterRow(page, cluster, last) {
  const { report } = page;
  const where = cluster.now.length ? cluster.now : cluster.cells;
  const days = [cluster.first, cluster.last].map((night) => report.nights[night]).filter(Boolean).map((night) => SHORT.format(night.date));
  return el("li", { class: cluster.now.length ? "cluster" : "cluster gone" },
    el("p", { class: "message" }, el("span", { class: "where", text: `${cluster.what.slice(0, 3).join(", ")}:` }), " ", firstLine(report.messages[cluster.message])),
    el("p", { class: "quiet" },
      el("b", { text: cluster.now.length ? `${plural(cluster.now.length, "cell")} in the last night` : "not in the last night" }),
      ` · ${Object.entries(cluster.blames).map(([blame, runs]) => `${blame || "unknown"} ${runs}`).join(", ")}`,
      ` · ${plural(cluster.runs, "run")} of ${plural(cluster.cells.length, "cell")}, ${[...new Set(days)].join(" to ")}`),
    el("details", {}, el("summary", { text: cluster.now.length ? "cells in the last night" : "cells" }),
      el("ul", { class: "names" }, where.map((number) => report.cells[number]).filter(Boolean)
        .map((cell) => el("li", {}, cellButton(page, cell, cluster.now.length ? last : cluster.last))))));
}
