// The page: its head, its sections, and what the reader chose.

const DRAW = {
  text: (block) => (block.fixed
    ? el("details", {}, el("summary", {}, block.title), el("pre", { tabindex: 0 }, ...block.paragraphs))
    : el("div", { class: "text" }, block.title ? el("h3", {}, block.title) : null, ...block.paragraphs.map((words) => el("p", {}, words)))),
  tiles: (block) => el("dl", { class: "tiles" }, ...block.tiles.map((tile) => el("div", {}, el("dt", {}, tile.name), el("dd", {}, tile.value), tile.note ? el("dd", { class: "note" }, tile.note) : null))),
  table: drawTable,
  spans: drawSpans,
  chart: drawChart,
  graph: drawGraph,
  picture: drawPicture,
  choice: drawChoice,
};

/** Draw one of several blocks, as chosen. */
function drawChoice(block) {
  const names = Object.keys(block.blocks), inside = el("div");
  const show = (place) => inside.replaceChildren(DRAW[block.blocks[names[place]].kind](block.blocks[names[place]]));
  const choice = chooser(block.label, names, show);
  show(choice.place());
  return el("div", { class: "one-of" }, el("div", { class: "controls" }, choice.node), inside);
}

/** Return the button that goes round the themes: the system's, dark, light. */
function themeButton() {
  const root = document.documentElement, themes = ["system", "dark", "light"];
  const set = (theme) => { root.dataset.theme = theme; button.textContent = `Theme: ${theme}`; kept.set("theme", theme); };
  const button = el("button", { type: "button", click: () => set(themes[(themes.indexOf(root.dataset.theme) + 1) % 3]) });
  set(kept.get("theme") ?? "system");
  return button;
}

/** Return the button that stops and starts the loading of a page that follows a run; null where it does not. */
function reloadButton(seconds) {
  if (!seconds) return null;
  const button = el("button", { type: "button", "aria-pressed": "false", click: () => {
    const held = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(held));
    button.textContent = held ? "Resume refreshing" : "Pause refreshing";
  } }, "Pause refreshing");
  setInterval(() => {
    if (button.getAttribute("aria-pressed") === "true") return;
    kept.set("scroll", scrollY);
    location.reload();
  }, 1000 * seconds);
  setTimeout(() => scrollTo({ top: +kept.get("scroll"), behavior: "instant" }), 300);
  return button;
}

function build(data) {
  const ids = data.sections.map((section, place) => `${slug(section.title)}-${place}`);
  const head = el("header", {}, el("div", { class: "title" }, el("h1", {}, data.title),
    el("p", { class: "note" }, `gossiprec ${data.version}, written ${data.written}`)), el("div", { class: "controls" }, reloadButton(data.reload_s), themeButton()));
  const nav = el("nav", { "aria-label": "Sections" }, el("ul", {}, ...data.sections.map((section, place) => el("li", {}, el("a", { href: `#${ids[place]}` }, section.title)))));
  const main = el("main", { id: "main" });
  document.body.append(el("a", { class: "skip", href: "#main" }, "Skip to the report"), head, nav, main);
  data.sections.forEach((section, place) => {
    const charts = section.blocks.filter((block) => block.kind === "chart").length;
    const inside = el("div", { class: charts > 1 ? "blocks many" : "blocks" });
    main.append(el("section", { id: ids[place], "aria-labelledby": `${ids[place]}-h` }, el("h2", { id: `${ids[place]}-h` }, section.title), section.note ? el("p", { class: "note" }, section.note) : null, inside));
    for (const block of section.blocks) inside.append(DRAW[block.kind](block));
  });
  document.documentElement.dataset.ready = "yes";
}

build(JSON.parse(document.getElementById("data").textContent));
