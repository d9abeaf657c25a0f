// The first thing that is read: whether the last run is fresh, and what it came to.

const HOUR = 3600e3;
const RECENT_DAYS = 14;

/** Say how long ago the last run was; late, in red and in words, when one is overdue. */
function showFreshness(report, now = Date.now()) {
  const { last, every_hours: every, stale_after_hours: limit, missing } = report.freshness;
  const place = document.getElementById("freshness");
  if (!last) {
    place.className = "fresh late";
    put(place, el("strong", { text: "No run has been recorded." }));
    return;
  }
  const ago = (date) => new Date(last) - new Date(date);
  const recent = missing.filter((date) => ago(date) >= 0 && ago(date) < RECENT_DAYS * 24 * HOUR); // the grid shows the older ones
  const since = missing.filter((date) => ago(date) < 0).length;
  const hours = (now - new Date(last).getTime()) / HOUR;
  const late = limit !== null && hours > limit;
  place.className = late ? "fresh late" : "fresh";
  const said = `last run ${span(Math.max(0, hours))} ago`;
  put(place,
    el("span", { class: "mark", "aria-hidden": "true", text: late ? "!" : "●" }),
    el("strong", { text: late ? `${since > 1 ? `${since} nights are missing` : "A night is missing"}: ${said}` : said[0].toUpperCase() + said.slice(1) }),
    late && every && el("span", { text: `; one is due every ${span(every)}` }),
    recent.length > 0 && el("span", { class: "quiet", text: ` · ${plural(recent.length, "night")} missing earlier: ${someOf(recent, 3)}` }));
}

function someOf(list, most) {
  const first = list.slice(-most).join(", ");
  return list.length > most ? `… ${first}` : first;
}

/** Say in one sentence what the last night came to, with a button for each part of it. */
function showHeadline(page) {
  const { report } = page;
  const night = report.nights[report.nights.length - 1];
  const { summary } = report;
  const failing = report.cells.filter((cell) => cell.tags.has("failing"));
  document.getElementById("headline").textContent = sentence(report, failing.length);
  put(document.getElementById("which"), whichNight(report, night));
  const counts = STATES.map(([tag, text]) => ({ tag, text, count: report.cells.filter((cell) => cell.tags.has(tag)).length }));
  put(document.getElementById("counts"), counts.filter((one) => one.count).map((one) => el("button", {
    type: "button", class: `count t-${one.tag}`, "data-state": one.tag,
    onclick: () => change(page, { state: page.choice.state === one.tag ? "" : one.tag }),
  }, el("b", { text: one.count }), ` ${one.text}`)));
  put(document.getElementById("whose"), Object.entries(summary.blames).map(([blame, cells]) => el("button", {
    type: "button", class: "count whose", "data-blame": blame, onclick: () => change(page, { blame: page.choice.blame === blame ? "" : blame }),
  }, el("span", { class: `sign ${classOf({ outcome: "failed", blame })}`, "aria-hidden": "true", text: signOf({ outcome: "failed", blame }) }), el("b", { text: cells }), ` ${blame || "unknown"}`)));
}

function sentence(report, failing) {
  const { summary } = report;
  if (!summary.ran) return `Nothing ran in the last ${unitOf(report)}`;
  if (!failing && summary.cells === 1) return "The only cell ran and did not fail";
  if (!failing) return summary.ran === summary.cells ? `All ${summary.ran} cells ran, none failed` : `${summary.ran} of ${plural(summary.cells, "cell")} ran, none failed`;
  const parts = [summary.new && `${summary.new} new`, summary.known && `${summary.known} seen before`].filter(Boolean);
  const said = summary.ran === 1 ? "The only cell that ran fails" : `${failing} of ${summary.ran} cells ${failing === 1 ? "fails" : "fail"}`;
  return parts.length ? `${said}: ${summary.ran === 1 ? parts.map((part) => part.slice(2)).join(", ") : parts.join(", ")}` : said;
}

function whichNight(report, night) {
  if (!night) return [];
  const parts = [el("time", { datetime: night.started, text: `${unitOf(report) === "night" ? "Night" : "Run"} of ${dateOf(night)}` })];
  parts.push(" · commit ", link(commitAddress(night), short(night.commit), { class: "mono" }));
  if (night.branch) parts.push(" · ", night.branch);
  if (night.url) parts.push(" · ", link(night.url, "pipeline"));
  if (report.selection.tier) parts.push(` · tier ${report.selection.tier}`);
  return parts;
}

/** Show which count is the chosen filter. */
function showCounts(page) {
  for (const button of document.querySelectorAll("#counts button")) {
    button.setAttribute("aria-pressed", String(button.dataset.state === page.choice.state));
  }
  for (const button of document.querySelectorAll("#whose button")) {
    button.setAttribute("aria-pressed", String(button.dataset.blame === page.choice.blame));
  }
}
