// Values between two ends, one below the other on a common scale.

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
  return el("figure", { class: "spans" }, el("figcaption", {}, block.title), ...rows, axis, block.note ? el("p", { class: "note" }, block.note) : null);
}
