// Elements and numbers as text.

/** Return a new element; attributes that are functions are listeners, children are nodes or text. */
function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const UNKNOWN = "–";

/** Return a number as it is read: percentages with one decimal, others with four digits at most. */
function numberText(value, percent = false) {
  if (value === null || value === undefined) return UNKNOWN;
  if (percent) return (100 * value).toFixed(1);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size >= 1e-4 && size < 1e9 ? Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 }) : value.toExponential(2);
}

/** Return text as part of an element's id. */
function slug(text) {
  return text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
}

/** Keep what the reader chose while the page is loaded again; nothing is kept where the browser refuses. */
const kept = {
  get(key) { try { return sessionStorage.getItem(location.pathname + key); } catch { return null; } },
  set(key, value) { try { sessionStorage.setItem(location.pathname + key, value); } catch { /* not kept */ } },
};

let lastId = 0;
/** Return an id that no other element has, the same each time the page is built. */
function newId(what) { return `${what}-${++lastId}`; }

/** Return a labelled choice of one of several names; `chosen` is called with the place of each new one. */
function chooser(label, names, chosen) {
  const id = newId("choice");
  const select = el("select", { id, change: () => { kept.set(id, select.value); chosen(+select.value); } },
    ...names.map((name, place) => el("option", { value: place }, name)));
  const before = +kept.get(id);
  if (before < names.length) select.value = before;
  return { node: el("span", { class: "control" }, el("label", { for: id }, label), select), place: () => +select.value };
}
