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
function saveText(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
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
  const save = el("button", { type: "button", click: () => saveText(`${slug(table.title) || "table"}.csv`, csvText(table)) }, "Save as CSV");
  fill();
  const scroll = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": table.title || "table" },
    el("table", {}, el("caption", {}, table.title), el("thead", {}, el("tr", {}, ...heads)), body));
  return el("div", { class: "table" }, scroll, table.note ? el("p", { class: "note" }, table.note) : null,
    el("div", { class: "controls" }, all ? null : more, save));
}
