// What the reader chose lives in the address after the #, so that a filtered page can be sent to somebody.

const AXIS = "axis.";

/** Read the choice from the address. Keys it does not know are kept out; axes are in `axes`. */
function readChoice() {
  const given = new URLSearchParams(location.hash.replace(/^#/, ""));
  const choice = { axes: {} };
  for (const name of ["q", "state", "blame", "night", "cell", "show", "end", "sort", "rows", "columns", "figures"]) choice[name] = given.get(name) || "";
  for (const [key, value] of given) {
    if (key.startsWith(AXIS) && value) choice.axes[key.slice(AXIS.length)] = value;
  }
  return choice;
}

/** Write the choice into the address; as a new entry of the history when going back should undo it. */
function writeChoice(choice, { entry = false } = {}) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(choice)) {
    if (name !== "axes" && value) given.set(name, value);
  }
  for (const [name, value] of Object.entries(choice.axes)) given.set(AXIS + name, value);
  const text = given.toString();
  const address = text ? `#${text}` : "#";
  if (`#${text}` === (location.hash || "#")) return;
  if (entry) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}
