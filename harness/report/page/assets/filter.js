// Which cells are shown: by text, by state, by whose failure it is, by value of an axis.

const STATES = [
  ["failing", "failing"], ["new", "newly failing"], ["known", "seen before"], ["fixed", "fixed"], ["sometimes", "flaky"],
  ["slower", "slower"], ["notrun", "not run"], ["quarantined", "in quarantine"], ["passing", "passing"],
];

/** Tell whether a cell is to be shown. */
function matches(page, cell) {
  const { choice, report } = page;
  if (choice.state && !cell.tags.has(choice.state)) return false;
  if (choice.blame && !(cell.now.blame === choice.blame && !cell.tags.has("passing"))) return false;
  const words = choice.q.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.every((word) => cell.text.includes(word))) return false;
  const values = valuesOf(report, cell);
  return Object.entries(choice.axes).every(([axis, value]) => {
    const own = values.find((one) => one.axis === axis);
    return !own || own.value === value;
  });
}

/** Fill the filter's controls and follow them. */
function setUpFilter(page) {
  const { report } = page;
  choices("state", "any", STATES.filter(([tag]) => report.cells.some((cell) => cell.tags.has(tag))));
  choices("blame", "any", Object.keys(BLAMES).map((blame) => [blame, blame]));
  const varying = report.axes.filter((axis) => axis.values.length > 1);
  put(document.getElementById("axes"), varying.map((axis) => axisControl(page, axis)));
  document.getElementById("axes-fold").hidden = varying.length === 0;
  const form = document.getElementById("filter");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.elements.q.addEventListener("input", () => change(page, { q: form.elements.q.value }));
  for (const name of ["state", "blame"]) form.elements[name].addEventListener("change", () => change(page, { [name]: form.elements[name].value }));
  document.getElementById("clear").addEventListener("click", () => clearFilter(page));
}

function choices(name, none, options) {
  const select = document.getElementById("filter").elements[name];
  put(select, el("option", { value: "", text: none }), options.map(([value, text]) => el("option", { value, text })));
}

function axisControl(page, axis) {
  const select = el("select", { "data-axis": axis.name, onchange: (event) => chooseValue(page, axis.name, event.target.value) });
  put(select, el("option", { value: "", text: "any" }), axis.values.map((value) => el("option", { value, text: value })));
  return el("label", {}, el("span", { text: axis.name }), select);
}

function chooseValue(page, axis, value) {
  const axes = { ...page.choice.axes };
  if (value) axes[axis] = value;
  else delete axes[axis];
  change(page, { axes });
}

function clearFilter(page) {
  change(page, { q: "", state: "", blame: "", axes: {} });
  document.getElementById("filter").elements.q.focus();
}

/** Show in the controls what is chosen, and how many cells that leaves. */
function showFilter(page) {
  const { choice, report, shown } = page;
  const { elements } = document.getElementById("filter");
  if (elements.q.value !== choice.q) elements.q.value = choice.q;
  elements.state.value = choice.state;
  elements.blame.value = choice.blame;
  for (const select of document.querySelectorAll("#axes select")) select.value = choice.axes[select.dataset.axis] || "";
  const axes = Object.keys(choice.axes).length;
  document.getElementById("axes-count").textContent = axes ? `Axes (${axes} chosen)` : "Axes";
  const filtered = Boolean(choice.q || choice.state || choice.blame || axes);
  document.getElementById("clear").hidden = !filtered;
  const said = filtered ? `${shown.length} of ${plural(report.cells.length, "cell")} shown` : `${report.cells.length > 1 ? "all " : ""}${plural(report.cells.length, "cell")} shown`;
  const place = document.getElementById("shown");
  if (place.textContent !== said) place.textContent = said;
}
