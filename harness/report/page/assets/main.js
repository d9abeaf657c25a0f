// Starts the page, and draws it again when the reader chooses something else.

/** Take over a changed choice: write it into the address and draw. */
function change(page, changed, { entry = false } = {}) {
  page.choice = { ...page.choice, ...changed };
  writeChoice(page.choice, { entry });
  draw(page);
}

/** Draw what the choice asks for; what did not change is left as it is. */
function draw(page) {
  const { report, choice } = page;
  const last = report.nights.length - 1;
  const found = report.nights.findIndex((night) => night.key === choice.night);
  page.night = found < 0 ? last : found;
  page.shown = report.cells.filter((cell) => matches(page, cell));
  const key = (names) => JSON.stringify(names.map((name) => choice[name]));
  const filter = key(["q", "state", "blame", "axes"]);
  once(page, "filter", filter, () => {
    showFilter(page);
    showCounts(page);
    showAttention(page);
    showGone(page);
    showLists(page);
  });
  once(page, "grid", filter + key(["show", "sort", "end"]) + page.night + windowOf(page).from, () => keepingFocus(() => {
    showGrid(page);
    showValues(page);
  }));
  once(page, "figures", filter + key(["figures"]), () => showFigures(page));
  once(page, "versus", filter + key(["rows", "columns"]) + page.night, () => showVersus(page));
  once(page, "cell", `${choice.cell} ${page.night}`, () => showCell(page));
}

function once(page, name, key, show) {
  if (page.drawn[name] === key) return;
  page.drawn[name] = key;
  show();
}

/** Run what redraws the grid, and give the focus back to the place that had it. */
function keepingFocus(redraw) {
  const at = document.activeElement && document.activeElement.closest("#grid td.at");
  const place = at && [at.closest("tr").dataset.cell, at.dataset.night];
  redraw();
  if (!place) return;
  const again = placeInGrid(...place);
  if (again) again.focus({ preventScroll: true });
}

/** Go to a part of the page without losing the choice in the address. */
function goTo(event, id) {
  event.preventDefault();
  const part = document.getElementById(id);
  part.scrollIntoView();
  part.tabIndex = -1;
  part.focus({ preventScroll: true });
}

function setUpPage(page) {
  setUpFilter(page);
  setUpGrid(page);
  setUpVersus(page);
  setUpFigures(page);
  setUpCell(page);
  for (const anchor of document.querySelectorAll("a[data-go]")) anchor.addEventListener("click", (event) => goTo(event, anchor.dataset.go));
  document.getElementById("attention-more").addEventListener("click", () => {
    page.everything = true;
    showAttention(page);
  });
  document.getElementById("grid-more").addEventListener("click", () => {
    page.allRows = true;
    showGrid(page);
  });
  const follow = () => {
    page.choice = readChoice();
    draw(page);
  };
  addEventListener("popstate", follow);
  addEventListener("hashchange", follow);
  let waiting = 0;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => draw(page), 150);
  });
  setInterval(() => showFreshness(page.report), 60e3);
}

async function main() {
  const report = modelOf(await unpack(document.getElementById("document").textContent));
  const page = { report, choice: readChoice(), drawn: {}, shown: [], night: 0, everything: false, allRows: false };
  setUpPage(page);
  showFreshness(report);
  showHeadline(page);
  showLegend(report);
  showCoverage(report);
  showHistory(report);
  draw(page);
  document.documentElement.dataset.state = "drawn";
}

document.documentElement.classList.add("ready"); // hides the plain table, for readers without scripts
main().catch((error) => {
  document.documentElement.classList.remove("ready");
  const place = document.getElementById("trouble");
  place.hidden = false;
  place.textContent = `This page could not be displayed: ${error.message}. The table below shows the last run; report.json has all data.`;
  document.documentElement.dataset.state = "failed";
  console.error(error);
});
