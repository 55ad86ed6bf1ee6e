// Lines, steps and dots, drawn by Observable Plot.

/** Number of points up to which each has its name beside it. */
const MOST_NAMES = 20;
const DASHES = ["", "7 2", "7 2 2 2", "3 2", "10 3"];
/** Return the colour of a series. */
const colourOf = (series, place) => (series.faint && series.colour === null ? "var(--faint)" : `var(--c${(series.colour ?? place) % 7})`);

/** Return the points of a chart's visible series on one of its horizontal axes. */
function chartPoints(block, clock, hidden) {
  return block.series.flatMap((series, place) => (hidden.has(place) ? [] : series.y.map((y, at) => ({
    place, at, series, y, x: series.x[Math.min(clock, series.x.length - 1)][at],
    low: series.low[at], high: series.high[at], left: series.left[at], right: series.right[at],
    text: series.texts[at], hollow: series.hollow[at],
  })).filter((point) => point.x !== null && point.y !== null)));
}

/** Return a point in words. */
function pointText(block, point, clock) {
  const number = (value, axis) => (axis.names.length ? axis.names[value] : numberText(value, axis.percent) + (axis.percent ? " %" : ""));
  const ends = point.low === undefined || point.low === null ? "" : ` (${number(point.low, block.y)} to ${number(point.high, block.y)})`;
  const name = [point.text, block.series.length > 1 || !point.text ? point.series.name : ""].filter(Boolean).join(", ");
  const clean = (label) => label.replace(" (%)", "");
  return `${name}\n${clean(block.x[clock].label)}: ${number(point.x, block.x[clock])}\n${clean(block.y.label)}: ${number(point.y, block.y)}${ends}`;
}

/** Return the Plot marks of one series. */
function seriesMarks(block, series, place, points) {
  const kind = series.mark ?? block.mark;
  const stroke = colourOf(series, place);
  const look = { x: "x", y: "y", stroke, strokeWidth: series.faint ? 1.2 : 2, strokeDasharray: series.faint ? "2 3" : DASHES[Math.floor(place / 7) % DASHES.length] };
  const marks = [];
  const banded = points.filter((point) => point.low !== undefined && point.low !== null);
  if (banded.length && kind === "line" && banded.length > 12) marks.push(Plot.areaY(banded, { x: "x", y1: "low", y2: "high", fill: stroke, fillOpacity: 0.16 }));
  else if (banded.length) marks.push(Plot.ruleX(banded, { x: "x", y1: "low", y2: "high", stroke, strokeWidth: 1.2 }));
  const sideways = points.filter((point) => point.left !== undefined && point.left !== null);
  if (sideways.length) marks.push(Plot.ruleY(sideways, { y: "y", x1: "left", x2: "right", stroke, strokeWidth: 1.2 }));
  if (kind === "dot") {
    const many = points.length > 60;
    marks.push(Plot.dot(points, { x: "x", y: "y", r: many ? 2.5 : 4.5, stroke, strokeOpacity: many ? 0.5 : 1, strokeWidth: 1.5, fill: (point) => (point.hollow ? "var(--ground)" : stroke), fillOpacity: many ? 0.35 : 1 }));
    const named = points.filter((point) => point.text);
    if (named.length && named.length <= MOST_NAMES) {
      const middle = d3.mean(d3.extent(points, (point) => point.x));
      for (const [side, textAnchor, dx] of [[(point) => point.x <= middle, "start", 7], [(point) => point.x > middle, "end", -7]]) {
        marks.push(Plot.text(named.filter(side), { x: "x", y: "y", text: "text", textAnchor, dx, dy: -8, fontSize: 11, fill: "currentColor", stroke: "var(--ground)", strokeWidth: 3 }));
      }
    }
  } else {
    marks.push(Plot.line(points, { ...look, curve: kind === "step" ? "step-after" : "linear" }));
    if (points.length <= 12 && !series.faint && kind === "line") marks.push(Plot.dot(points, { x: "x", y: "y", r: 3, fill: stroke }));
  }
  return marks;
}

/** Return the Plot scale options of an axis. */
function scaleOptions(axis, of) {
  const options = { label: null, nice: !axis.log, grid: of === "y", percent: axis.percent };
  if (axis.log) options.type = "log";
  if (axis.zero && !axis.log) options.zero = true;
  if (axis.names.length) { options.nice = false; options.domain = [-0.5, axis.names.length - 0.5]; }
  return options;
}

/** Return where the ticks of an axis stand and what they say; those of whole numbers stand at whole numbers. */
function ticksOf(axis, about, whole = false) {
  if (axis.names.length) return { ticks: axis.names.map((_, at) => at), tickFormat: (at) => axis.names[at], tickRotate: axis.names.join("").length > 60 ? -30 : 0 };
  return axis.ticks.length ? { ticks: axis.ticks, tickFormat: (value) => numberText(value) } : whole ? { ticks: about, tickFormat: (value) => (Number.isInteger(value) ? numberText(value) : "") } : { ticks: about };
}

/** Draw a chart block: its controls, the picture, and its numbers as a table. */
function drawChart(block) {
  const hidden = new Set();
  const picture = el("div", { class: "plot" }), said = el("p", { class: "said", "aria-live": "polite" }), opened = el("div", { class: "opened" });
  const clock = block.x.length > 1 ? chooser("Clock", block.x.map((axis) => axis.label), () => draw()) : null;
  let svg = null, points = [], current = -1;
  const place = () => (clock ? clock.place() : 0);
  const draw = () => {
    const width = picture.clientWidth || 640, axis = block.x[place()];
    points = chartPoints(block, place(), hidden);
    const title = (point) => pointText(block, point, place());
    const focus = Plot.pointer({ x: "x", y: "y", maxRadius: 60 });
    const options = {
      width, height: Math.max(220, Math.min(340, width * 0.55)), marginLeft: 48, marginBottom: 44, marginRight: 16, marginTop: 30,
      style: { fontSize: "12px", background: "transparent", color: "inherit", overflow: "visible", fontFamily: "inherit" },
      x: scaleOptions(axis, "x"), y: scaleOptions(block.y, "y"),
      marks: [
        Plot.axisY({ label: block.y.label, labelArrow: "none", tickSize: 0, ...ticksOf(block.y, 6) }),
        Plot.axisX({ label: axis.label, labelAnchor: "center", labelArrow: "none", labelOffset: 38, ...ticksOf(axis, width < 480 ? 4 : 8, !axis.percent && points.every((point) => Number.isInteger(point.x))) }),
        Plot.ruleX(Object.values(block.upright), { x: (value) => value, stroke: "var(--faint)", strokeDasharray: "2 3" }),
        ...block.series.flatMap((series, at) => seriesMarks(block, series, at, points.filter((point) => point.place === at))),
        Plot.dot(points, { ...focus, r: 5, fill: "none", stroke: "var(--ink)", strokeWidth: 1.5 }),
        Plot.tip(points, { ...focus, title, fontSize: 12, fill: "var(--ground)", stroke: "var(--faint)" }),
      ],
    };
    svg = Plot.plot(options);
    svg.setAttribute("tabindex", 0);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${block.title || block.y.label}: ${block.y.label} against ${axis.label}; arrow keys go from point to point, the numbers are in the table below`);
    svg.addEventListener("keydown", step);
    svg.addEventListener("click", () => open(svg.value));
    picture.replaceChildren(svg);
  };
  const step = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Enter" && current >= 0) open(points[current]);
    if (by === undefined || !points.length) return;
    event.preventDefault();
    current = Math.max(0, Math.min(points.length - 1, current + by));
    pointAt(points[current]);
  };
  const pointAt = (point) => {
    const box = svg.getBoundingClientRect(), shrink = box.width / svg.width.baseVal.value;
    const at = { clientX: box.left + shrink * svg.scale("x").apply(point.x * (block.x[place()].percent ? 100 : 1)), clientY: box.top + shrink * svg.scale("y").apply(point.y * (block.y.percent ? 100 : 1)) };
    svg.dispatchEvent(new PointerEvent("pointermove", { ...at, pointerType: "mouse", bubbles: true }));
    said.textContent = pointText(block, point, place()).replaceAll("\n", "; ");
  };
  const open = (point) => {
    const table = point && block.details[point.text];
    if (table) opened.replaceChildren(drawTable(table));
  };
  const exported = () => svgText(svg, block.title, block.series.length < 2 ? [] : block.series.map((series, at) => ({ name: series.name, colour: colourOf(series, at) })).filter((_, at) => !hidden.has(at)));
  const legend = block.series.length < 2 ? null : el("div", { class: "legend", role: "group", "aria-label": "Lines shown" },
    ...block.series.map((series, at) => {
      const button = el("button", { type: "button", "aria-pressed": "true", click: () => {
        hidden[hidden.has(at) ? "delete" : "add"](at);
        button.setAttribute("aria-pressed", String(!hidden.has(at)));
        draw();
      } }, el("i", { style: `--swatch:${colourOf(series, at)}`, class: series.faint ? "faint" : (series.mark ?? block.mark) }), series.name);
      return button;
    }));
  const figure = el("figure", { class: "chart" }, block.title ? el("figcaption", {}, block.title) : null,
    el("div", { class: "controls" }, clock?.node, legend), picture, said,
    Object.keys(block.upright).length ? el("p", { class: "note" }, `Dotted upright: ${Object.keys(block.upright).join(", ")}.`) : null,
    block.note ? el("p", { class: "note" }, block.note) : null, opened,
    el("div", { class: "controls" }, saveSvgButton(block.title || block.y.label, exported), saveCsvButton(chartTable(block))), numbersOf(block));
  onWidth(picture, draw);
  return figure;
}

/** Return the numbers of a chart as a table that is drawn when it is opened. */
function numbersOf(block) {
  const inside = el("div");
  return el("details", { toggle: () => { if (!inside.hasChildNodes()) inside.append(drawTable(chartTable(block))); } }, el("summary", {}, "Numbers"), inside);
}

/** Return the table of a chart's points. */
function chartTable(block) {
  const clean = (axis) => axis.label.replace(" (%)", "");
  const kind = (axis) => (axis.names.length ? "text" : axis.percent ? "percent" : "number");
  const points = block.x.map((_, clock) => chartPoints(block, clock, new Set()));
  const banded = points[0].some((point) => point.low !== undefined), texts = points[0].some((point) => point.text);
  const columns = [{ name: "line", kind: "text" }, ...(texts ? [{ name: "point", kind: "text" }] : []),
    ...block.x.map((axis) => ({ name: clean(axis), kind: kind(axis) })), { name: clean(block.y), kind: kind(block.y) },
    ...(banded ? ["from", "to"].map((name) => ({ name, kind: kind(block.y) })) : [])];
  const cell = (axis, value) => (axis.names.length ? axis.names[value] : value);
  const rows = points[0].map((point, at) => [point.series.name, ...(texts ? [point.text ?? null] : []),
    ...block.x.map((axis, clock) => cell(axis, points[clock][at]?.x)), point.y, ...(banded ? [point.low ?? null, point.high ?? null] : [])]);
  return { title: block.title || block.y.label, columns, rows, note: "" };
}

/** Call `draw` now that an element has a width, and whenever it gets another one. */
function onWidth(element, draw) {
  let before = 0;
  new ResizeObserver(() => requestAnimationFrame(() => {
    const width = element.clientWidth;
    if (width && Math.abs(width - before) > 1) { before = width; draw(); }
  })).observe(element);
}
