// One night's cells by two axes, such as Kubernetes version and topology.

/** Fill the choice of axes and of the night. */
function setUpVersus(page) {
  const { report } = page;
  for (const name of ["rows", "columns"]) {
    const select = document.getElementById(name);
    put(select, report.axes.map((axis) => el("option", { value: axis.name, text: axis.name })));
    select.addEventListener("change", () => change(page, { [name]: select.value }));
  }
  const nights = document.getElementById("night");
  put(nights, [...report.nights].reverse().map((night) => el("option", { value: night.number, text: dateOf(night) })));
  nights.addEventListener("change", () => chooseNight(page, Number(nights.value)));
  document.getElementById("night-before").addEventListener("click", () => chooseNight(page, page.night - 1));
  document.getElementById("night-after").addEventListener("click", () => chooseNight(page, page.night + 1));
}

function chooseNight(page, number) {
  const last = page.report.nights.length - 1;
  const night = Math.min(last, Math.max(0, number));
  change(page, { night: night === last ? "" : page.report.nights[night].key });
}

/** Return the two axes of the table: the chosen ones, else version and topology, else the first two. */
function versusAxes(page) {
  const names = page.report.axes.map((axis) => axis.name);
  const pick = (chosen, wanted, otherwise) => [chosen, wanted, otherwise, names[0]].find((name) => names.includes(name));
  const rows = pick(page.choice.rows, "kubernetes", names[0]);
  const columns = pick(page.choice.columns, "topology", names[1]);
  return [rows, columns];
}

/** Draw the table of the chosen night. */
function showVersus(page) {
  const { report } = page;
  document.getElementById("versus").hidden = report.axes.length === 0;
  if (!report.axes.length || !report.nights.length) return;
  const [rows, columns] = versusAxes(page);
  const last = report.nights.length - 1;
  document.getElementById("rows").value = rows;
  document.getElementById("columns").value = columns;
  document.getElementById("night").value = page.night;
  document.getElementById("night-before").disabled = page.night === 0;
  document.getElementById("night-after").disabled = page.night === last;
  put(document.getElementById("versus-night"), versusNight(report, report.nights[page.night]));
  const at = grouped(page, rows, columns);
  const [down, across] = [rows, columns].map((name) => report.axes.find((axis) => axis.name === name).values);
  put(document.getElementById("versus-table"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "corner", text: `${rows} ↓  ${columns} →` }), across.map((value) => el("th", { scope: "col", text: value })))),
    el("tbody", {}, [...down].reverse().map((value) => el("tr", {}, el("th", { scope: "row", text: value }),
      across.map((other) => versusCell(page, at.get(`${value}\u0000${other}`) || []))))));
}

function versusNight(report, night) {
  const counts = Object.entries(night.counts).map(([word, number]) => `${number} ${word}`).join(", ");
  return [`${momentOf({ date: night.at })} · `, link(commitAddress(night), short(night.commit), { class: "mono" }), ` · ${counts}`, night.url && [" · ", link(night.url, "pipeline")]];
}

function grouped(page, rows, columns) {
  const at = new Map();
  for (const cell of page.shown) {
    const own = Object.fromEntries(valuesOf(page.report, cell).map((one) => [one.axis, one.value]));
    const key = `${own[rows]}\u0000${own[columns]}`;
    at.set(key, [...(at.get(key) || []), cell]);
  }
  return at;
}

function versusCell(page, cells) {
  if (!cells.length) return el("td", { class: "none" }, spoken("no cell"), el("span", { "aria-hidden": "true", text: "·" }));
  const results = cells.map((cell) => [cell, resultAt(cell, page.night)]);
  const ran = results.filter(([, result]) => result.outcome !== "not run" && result.outcome !== "not started");
  const passed = ran.filter(([, result]) => result.outcome === "passed");
  const said = ran.length ? `${passed.length} of ${ran.length}` : "not run";
  const failed = ran.some(([, result]) => ENDED_BADLY.has(result.outcome));
  return el("td", { class: failed ? "bad" : "" },
    el("span", { class: "tally" }, el("span", { "aria-hidden": "true", text: said }), spoken(ran.length ? `${passed.length} of ${ran.length} passed` : "not run")),
    el("span", { class: "chips" }, results.map(([cell, result]) => el("button", {
      type: "button", class: `chip ${classOf(result)}`, title: `${cell.label}: ${wordsOf(result)}`, "aria-label": `${cell.label}: ${wordsOf(result)}`,
      onclick: () => openCell(page, cell, page.night), text: signOf(result) || "\u00a0",
    }))));
}
