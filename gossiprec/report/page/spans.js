// Values between two ends, one below the other on a common scale.

/** Return a block of spans as a picture of its own. */
function spansSvg(block, scale, ticks, text) {
  const names = 30 + 7 * Math.max(0, ...block.spans.map((span) => span.name.length)), x = (value) => names + 4 * scale(value);
  const plot = Plot.plot({
    width: names + 720, height: 50 + 26 * block.spans.length, margin: 0, x: { type: "identity" }, y: { type: "identity" },
    style: { background: "#fff", color: "#000", fontSize: "12px", fontFamily: "sans-serif" },
    marks: [
      Plot.text([block.title], { x: 4, y: 12, textAnchor: "start", fontWeight: "bold", text: (words) => words }),
      Plot.ruleX(ticks, { x, y1: 24, y2: 28 + 26 * block.spans.length, stroke: (tick) => (tick === 0 ? "#777" : "#ddd") }),
      Plot.text(ticks, { x, y: 38 + 26 * block.spans.length, text: (tick) => numberText(block.percent ? Math.round(100 * tick) : tick) }),
      ...block.spans.flatMap((span, at) => [
        Plot.text([span.name], { x: 4, y: 38 + 26 * at, textAnchor: "start", text: (words) => words }),
        span.low === null || span.high === null ? null : Plot.ruleY([38 + 26 * at], { x1: x(span.low), x2: x(span.high), strokeWidth: 2 }),
        span.value === null ? null : Plot.dot([span], { x: () => x(span.value), y: () => 38 + 26 * at, r: 4, fill: "#000" }),
        Plot.text([span], { x: names + 420, y: 38 + 26 * at, textAnchor: "start", text: () => `${text(span.value)} (${text(span.low)} to ${text(span.high)})` }),
      ]).filter((mark) => mark !== null),
    ],
  });
  plot.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(plot);
}

/** Draw a block of spans. */
function drawSpans(block) {
  const known = block.spans.flatMap((span) => [span.low, span.value, span.high]).filter((value) => value !== null);
  const scale = d3.scaleLinear([Math.min(0, ...known), Math.max(0, ...known)], [0, 100]).nice(4);
  const ticks = scale.ticks(4);
  const unit = !block.percent ? "" : block.apart ? "\u00a0points" : "\u00a0%";
  const text = (value) => numberText(value, block.percent) + (value === null ? "" : unit);
  const grid = () => ticks.map((tick) => el("i", { class: tick === 0 ? "tick zero" : "tick", style: `left:${scale(tick)}%` }));
  const rows = block.spans.map((span) => {
    const about = `${span.name}: ${block.words[0]} ${text(span.low)}, ${block.words[1]} ${text(span.value)}, ${block.words[2]} ${text(span.high)}`;
    const apart = block.apart && span.low !== null && (span.low > 0 || span.high < 0);
    const track = el("div", { class: `track${apart ? " apart" : ""}${block.apart ? " interval" : ""}`, role: "img", "aria-label": about, title: about }, ...grid());
    if (span.low !== null && span.high !== null) {
      track.append(el("b", { class: "band", style: `left:${scale(Math.min(span.low, span.high))}%;width:${Math.abs(scale(span.high) - scale(span.low))}%` }));
    }
    if (span.value !== null) track.append(el("b", { class: "dot", style: `left:${scale(span.value)}%` }));
    const ends = span.low === null ? "" : block.apart ? ` from ${text(span.low)} to ${text(span.high)}` : ` between ${text(span.low)} and ${text(span.high)}`;
    return el("div", { class: "span" }, el("div", { class: "name" }, span.name), track,
      el("div", { class: "numbers" }, el("strong", {}, text(span.value)), el("span", {}, ends), span.note ? el("small", {}, span.note) : null));
  });
  const axis = el("div", { class: "span axis", "aria-hidden": "true" }, el("div", { class: "name" }),
    el("div", { class: "track" }, ...ticks.map((tick) => el("span", { style: `left:${scale(tick)}%` }, numberText(block.percent ? Math.round(100 * tick) : tick)))), el("div", { class: "numbers" }));
  const kind = block.percent ? "percent" : "number";
  const columns = [{ name: "name", kind: "text" }, ...block.words.map((name) => ({ name, kind }))];
  const table = { title: block.title, columns, rows: block.spans.map((span) => [span.name, span.low, span.value, span.high]), note: "" };
  return el("figure", { class: "spans" }, el("figcaption", {}, block.title), ...rows, axis, block.note ? el("p", { class: "note" }, block.note) : null,
    el("div", { class: "controls" }, saveSvgButton(block.title, () => spansSvg(block, scale, ticks, text)), saveCsvButton(table)));
}
