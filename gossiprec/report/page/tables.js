// Tables that can be sorted and saved.

const ROWS_AT_FIRST = 12;

/** Return a cell as it is read. */
function cellText(value, kind) {
  if (value === null || value === undefined) return UNKNOWN;
  if (kind === "link") return value[1] ? el("a", { href: value[1] }, value[0]) : value[0];
  return kind === "text" ? value : numberText(value, kind === "percent");
}

/** Order two cells; what is not known comes last in either direction. */
function compareCells(a, b, kind, direction) {
  [a, b] = kind === "link" ? [a?.[0], b?.[0]] : [a, b];
  const unknown = (a === null || a === undefined) - (b === null || b === undefined);
  if (unknown || a === null || a === undefined) return unknown;
  return direction * (typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
}

/** Return a table as comma separated text, numbers with all their digits. */
function csvText(table) {
  const field = (value) => {
    const text = String(value ?? "");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const rows = table.rows.map((row) => row.map((value, at) => (table.columns[at].kind === "link" ? value?.[0] : value)));
  return [table.columns.map((column) => column.name), ...rows].map((row) => row.map(field).join(",") + "\n").join("");
}

/** Save text as a file, without asking any network. */
function saveText(name, text, type = "text/csv") {
  const address = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** Return the button that saves a table as CSV. */
function saveCsvButton(table) {
  return el("button", { type: "button", click: () => saveText(`${slug(table.title) || "table"}.csv`, csvText(table)) }, "Save as CSV");
}

/** Return a picture of the page as a file of its own, in the page's present colours, with a title and named colours above it. */
function svgText(svg, title = "", names = []) {
  const copy = svg.cloneNode(true), style = getComputedStyle(svg);
  const box = svg.viewBox.baseVal, width = box.width || svg.clientWidth, height = box.height || svg.clientHeight;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  const above = 20 * ((title ? 1 : 0) + names.length);
  copy.setAttribute("height", height + above);
  copy.setAttribute("viewBox", `${box.x} ${box.y - above} ${width} ${height + above}`);
  [...(title ? [{ name: title, colour: "currentColor" }] : []), ...names].forEach(({ name, colour }, at) => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "text");
    for (const [key, value] of Object.entries({ x: box.x + 4, y: box.y - above + 15 + 20 * at, fill: colour, "font-weight": "bold", "text-anchor": "start", "font-size": 12 })) line.setAttribute(key, value);
    line.textContent = name;
    copy.append(line);
  });
  copy.style.color = style.color;
  copy.style.fontFamily = "sans-serif";
  copy.style.background = getComputedStyle(document.body).backgroundColor;
  for (const tip of copy.querySelectorAll('[aria-label="tip"]')) tip.remove();
  const text = new XMLSerializer().serializeToString(copy);
  return text.replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
}

/** Return the button that saves a picture as SVG; `picture` returns its element or its text. */
function saveSvgButton(title, picture) {
  return el("button", { type: "button", click: () => {
    const found = picture();
    saveText(`${slug(title) || "picture"}.svg`, typeof found === "string" ? found : svgText(found), "image/svg+xml");
  } }, "Save as SVG");
}

/** Draw a picture block: a picture that was drawn before, with its numbers. */
function drawPicture(block) {
  const image = el("img", { src: `data:image/svg+xml;base64,${block.svg}`, alt: block.title });
  const text = () => new TextDecoder().decode(Uint8Array.from(atob(block.svg), (letter) => letter.charCodeAt(0)));
  return el("figure", { class: "picture" }, image, el("div", { class: "controls" }, saveSvgButton(block.title, text), saveCsvButton(block.table)));
}

/** Draw a table block. */
function drawTable(table) {
  const body = el("tbody");
  let order = table.rows.map((_, at) => at), sorted = null, direction = 1, all = table.rows.length <= ROWS_AT_FIRST + 3;
  const fill = () => {
    const shown = all ? order : order.slice(0, ROWS_AT_FIRST);
    body.replaceChildren(...shown.map((at) => el("tr", {}, ...table.rows[at].map((value, column) => {
      const kind = table.columns[column].kind;
      const isName = column === 0 && kind !== "number";
      return el(isName ? "th" : "td", { class: kind === "text" || kind === "link" ? "words" : "figure", scope: isName ? "row" : null }, cellText(value, kind));
    }))));
  };
  const heads = table.columns.map((column, at) => {
    const words = column.kind === "text" || column.kind === "link";
    const button = el("button", { type: "button", click: () => sortBy(at) }, column.name + (column.kind === "percent" ? " (%)" : ""));
    return el("th", { scope: "col", class: words ? "words" : "figure" }, button);
  });
  const sortBy = (at) => {
    direction = sorted === at ? -direction : table.columns[at].kind === "text" ? 1 : -1;
    sorted = at;
    order.sort((a, b) => compareCells(table.rows[a][at], table.rows[b][at], table.columns[at].kind, direction) || a - b);
    heads.forEach((head, place) => (place === at ? head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending") : head.removeAttribute("aria-sort")));
    fill();
  };
  const more = el("button", { type: "button", click: () => { all = true; more.remove(); fill(); } }, `Show all ${numberText(table.rows.length)} rows`);
  const save = saveCsvButton(table);
  fill();
  const scroll = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": table.title || "table" },
    el("table", {}, el("caption", {}, table.title), el("thead", {}, el("tr", {}, ...heads)), body));
  return el("div", { class: "table" }, scroll, table.note ? el("p", { class: "note" }, table.note) : null,
    el("div", { class: "controls" }, all ? null : more, save));
}
