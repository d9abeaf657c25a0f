// Nodes, built from text only: no string is ever parsed as HTML, and a link goes nowhere but to the web or to a file beside the page.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. Attributes: class, text, on<event>, and any other by its name; false and null are left out. */
function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an element of a drawing. */
function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") node.setAttribute("class", value);
    else if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Put these children into a node in place of what is there. */
function put(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

/** Tell whether an address may be followed: http, https, or a file named relative to the page. */
function mayFollow(address) {
  if (/[\u0000-\u0020\\]/.test(address) || address === "" || address.startsWith("//")) return false;
  return /^https?:\/\/[^/]/i.test(address) || !/^[^/?#]*:/.test(address);
}

/** Make a part that is folded away; what is in it is made when it is opened for the first time. */
function folded(summary, make, attributes = {}) {
  const fold = el("details", attributes, el("summary", { text: summary }));
  fold.addEventListener("toggle", () => fold.append(...[make()].flat(Infinity)), { once: true });
  return fold;
}

/** Make a link, or plain text that says so when the address may not be followed. */
function link(address, text, attributes = {}) {
  if (!address) return el("span", { ...attributes, text });
  if (!mayFollow(address)) {
    return el("span", { ...attributes, title: "not a link: its address is neither http, https nor a file beside this page", text });
  }
  return el("a", { ...attributes, href: address, rel: "noopener noreferrer", text });
}

/** Text for screen readers only. */
function spoken(text) {
  return el("span", { class: "spoken", text });
}

/** Say something through the live region. */
function announce(text) {
  document.getElementById("live").textContent = text;
}
