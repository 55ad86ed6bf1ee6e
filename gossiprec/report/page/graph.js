// The network of meetings: laid out by d3's forces, coloured by a measure, explored node by node.

const SIDE = 800, TICKS = 220;

/** Return who met whom: a function of (receiver, sender), from rows of bits in base64. */
function metFrom(packed, n) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const row = Math.ceil(n / 8);
  return (receiver, sender) => Boolean(bytes[receiver * row + (sender >> 3)] & (128 >> (sender & 7)));
}

/** Draw a graph block. */
function drawGraph(block) {
  const n = block.n_nodes, met = metFrom(block.met, n), measures = Object.keys(block.values);
  const nodes = d3.range(n).map((id) => ({ id }));
  const links = d3.range(block.links.length / 2).map((at) => ({ source: block.links[2 * at], target: block.links[2 * at + 1] }));
  const svg = d3.create("svg").attr("viewBox", [0, 0, SIDE, SIDE]).attr("tabindex", 0).attr("role", "group").attr("class", "graph")
    .attr("aria-label", `${block.title}: ${n} nodes; arrow keys go from node to node, the text beside it tells their numbers`);
  const moved = svg.append("g"), lines = moved.append("path").attr("class", "links"), chosenLines = moved.append("path").attr("class", "links chosen");
  const radius = Math.max(2.2, Math.min(9, 130 / Math.sqrt(n)));
  const circles = moved.append("g").selectAll("circle").data(nodes).join("circle").attr("r", radius);
  const title = circles.append("title");
  const about = el("div", { class: "about", "aria-live": "polite" }, el("p", { class: "note" }, "Select a node by clicking it or with the arrow keys."));
  const key = el("div", { class: "key" });
  let chosen = null;

  const measure = chooser("Colour", measures, () => paint());
  const attack = Object.keys(block.finders).length > 1 ? chooser("Found at the best report of", Object.keys(block.finders), () => choose(chosen)) : null;
  const number = el("input", { type: "number", min: 0, max: n - 1, id: newId("node"), change: () => choose(Math.max(0, Math.min(n - 1, +number.value))) });
  const percent = (name) => block.shares.includes(name);

  const place = () => {
    const [left, right] = d3.extent(nodes, (node) => node.x), [top, bottom] = d3.extent(nodes, (node) => node.y);
    const scale = (SIDE - 6 * radius) / Math.max(right - left, bottom - top, 1);
    for (const node of nodes) { node.px = SIDE / 2 + scale * (node.x - (left + right) / 2); node.py = SIDE / 2 + scale * (node.y - (top + bottom) / 2); }
    circles.attr("cx", (node) => node.px).attr("cy", (node) => node.py);
    lines.attr("d", links.map((link) => `M${link.source.px.toFixed(1)},${link.source.py.toFixed(1)}L${link.target.px.toFixed(1)},${link.target.py.toFixed(1)}`).join(""));
    if (chosen !== null) choose(chosen);
  };

  const paint = () => {
    const name = measures[measure.place()], values = block.values[name];
    const [low, high] = d3.extent(values.filter((value) => value !== null));
    const shade = d3.scaleSequential([low, high === low ? low + 1 : high], (t) => d3.interpolateViridis(0.05 + 0.9 * t));
    circles.attr("fill", (node) => (values[node.id] === null ? "var(--unknown)" : shade(values[node.id])));
    title.text((node) => `node ${node.id}: ${name} ${numberText(values[node.id], percent(name))}${percent(name) ? " %" : ""}`);
    const unit = percent(name) ? " %" : "";
    key.replaceChildren(el("span", {}, numberText(low, percent(name)) + unit), el("i", { class: "ramp", style: `background:linear-gradient(90deg,${d3.range(0, 1.01, 0.1).map((t) => d3.interpolateViridis(0.05 + 0.9 * t)).join(",")})` }), el("span", {}, numberText(high, percent(name)) + unit),
      ...(values.includes(null) ? [el("i", { class: "patch" }), el("span", {}, "not known")] : []));
  };

  const finders = (id) => {
    const pairs = Object.values(block.finders)[attack ? attack.place() : 0] ?? [];
    const found = [], by = [];
    for (let at = 0; at < pairs.length; at += 2) {
      if (pairs[at + 1] === id) by.push(pairs[at]);
      if (pairs[at] === id) found.push(pairs[at + 1]);
    }
    return { found, by };
  };

  const nodeList = (words, ids) => el("details", { open: ids.length > 0 && ids.length <= 40 }, el("summary", {}, `${words}: ${ids.length}`),
    el("p", { class: "ids" }, ...ids.map((id) => el("button", { type: "button", click: () => choose(id) }, String(id)))));

  const choose = (id) => {
    if (id === null) return;
    chosen = id;
    number.value = id;
    const heard = nodes.filter((node) => met(id, node.id)).map((node) => node.id), told = nodes.filter((node) => met(node.id, id)).map((node) => node.id);
    const { found, by } = finders(id), isMet = new Set([...heard, ...told]), finds = new Set(by);
    circles.attr("class", (node) => (node.id === id ? "here" : finds.has(node.id) ? "finder" : isMet.has(node.id) ? "met" : "other"));
    circles.filter((node) => node.id === id || finds.has(node.id)).raise();
    const here = nodes[id];
    chosenLines.attr("d", links.filter((link) => link.source.id === id || link.target.id === id).map((link) => `M${link.source.px},${link.source.py}L${link.target.px},${link.target.py}`).join(""));
    const known = measures.filter((name) => block.values[name][id] !== null);
    about.replaceChildren(el("h4", {}, `Node ${here.id}`),
      el("dl", {}, ...known.flatMap((name) => [el("dt", {}, name), el("dd", {}, numberText(block.values[name][id], percent(name)) + (percent(name) ? " %" : ""))])),
      nodeList("Heard from", heard), nodeList("Heard by", told),
      ...(Object.keys(block.finders).length ? [nodeList("Found by", by), nodeList("Has found", found)] : []));
  };

  circles.on("click", (event, node) => choose(node.id));
  svg.on("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    choose(chosen === null ? 0 : (chosen + by + n) % n);
  });
  const zoom = d3.zoom().scaleExtent([1, 12]).filter((event) => event.type !== "wheel" || event.ctrlKey).on("zoom", ({ transform }) => moved.attr("transform", transform));
  svg.call(zoom);
  const button = (words, by) => el("button", { type: "button", "aria-label": words, title: words, click: () => svg.call(zoom.scaleBy, by) }, by > 1 ? "+" : "−");

  const forces = d3.forceSimulation(nodes).force("link", d3.forceLink(links).distance(30).strength(0.25)).force("charge", d3.forceManyBody().strength(-40).theta(1.1).distanceMax(400))
    .force("x", d3.forceX().strength(0.06)).force("y", d3.forceY().strength(0.06)).stop();
  let ticked = 0;
  const layOut = () => {
    const until = performance.now() + 40;
    while (ticked < TICKS && performance.now() < until) { forces.tick(); ticked += 1; }
    place();
    if (ticked < TICKS) requestAnimationFrame(layOut);
  };
  place();
  paint();
  requestAnimationFrame(layOut);
  return el("figure", { class: "network" }, el("figcaption", {}, block.title),
    el("div", { class: "controls" }, measure.node, attack?.node, el("span", { class: "control" }, el("label", { for: number.id }, "Node"), number), button("Zoom in", 1.5), button("Zoom out", 1 / 1.5), saveSvgButton(block.title, () => svg.node())),
    el("div", { class: "beside" }, el("div", {}, svg.node(), key), about), el("p", { class: "note" }, block.note));
}
