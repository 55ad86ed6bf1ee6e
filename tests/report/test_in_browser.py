"""The page in a real browser: it draws without a complaint, its controls work, and it asks no network for anything."""

from xml.etree import ElementTree

import pytest

from gossiprec.report.page import write_report
from tests.figures.small_runs import write_run
from tests.figures.test_study_figures import write_study
from tests.report.browser import Browser, needs_browser, opened

pytestmark = [needs_browser, pytest.mark.full]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def run_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    runs = [write_run(folder / "run", observers=("single", "coalition-5%")).path]
    write_report(runs, folder / "run.html")
    return folder / "run.html"


@pytest.fixture(scope="module")
def study_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    write_report([write_study(folder / "s")], folder / "study.html")
    return folder / "study.html"


@pytest.fixture
def run(browser, run_page):
    with opened(browser, run_page) as page:
        yield page


@pytest.fixture
def study(browser, study_page):
    with opened(browser, study_page) as page:
        yield page


CHART = 'named("figure.chart", "Average attack accuracy")'


def test_a_complaint_or_a_request_of_a_page_is_noticed(browser, tmp_path):
    page = tmp_path / "page.html"
    for wrong, told in {
        "console.error('oh')": "oh",
        "fetch('http://127.0.0.1:9/x')": "127.0.0.1",
        "lacking()": "lacking",
    }.items():
        page.write_text(f"<script>document.documentElement.dataset.ready = 1; {wrong}</script>")
        with pytest.raises(AssertionError, match=told), opened(browser, page) as at:
            at.ask("await wait(200)")


@pytest.mark.parametrize("width", [400, 1280])
def test_every_chart_is_drawn_and_the_page_is_no_wider_than_its_window(browser, run_page, width):
    with opened(browser, run_page, width=width) as page:
        told = page.ask("""
            const empty = all(".plot").filter((plot) => !plot.querySelector("svg path, svg circle")).length;
            const root = document.documentElement;
            return { charts: all(".plot").length, empty, wide: root.scrollWidth - root.clientWidth };
        """)
    assert told["charts"] >= 5
    assert (told["empty"], told["wide"]) == (0, 0)


def test_a_table_is_sorted_by_a_click_on_its_head_both_ways(run):
    column = (
        '[...named(".table", "Nodes").querySelectorAll("tbody tr")].map((row) => row.cells[2].textContent)'
    )
    head = '[...named(".table", "Nodes").querySelectorAll("thead button")][2]'
    run.click(head)
    assert run.ask(f"return {column}") == ["0.7", "0.2", "0.1", "0"]
    assert run.ask(f'return {head}.parentElement.getAttribute("aria-sort")') == "descending"
    run.click(head)
    assert run.ask(f"return {column}") == ["0", "0.1", "0.2", "0.7"]


@pytest.mark.parametrize("direction", [1, -1])
def test_unknown_cells_come_last_in_either_direction(run, direction):
    order = f"[3, null, 1].sort((a, b) => compareCells(a, b, 'number', {direction}))"
    assert run.ask(f"return {order}") == ([1, 3, None] if direction > 0 else [3, 1, None])


def test_a_table_is_saved_as_csv_with_all_its_digits(run):
    run.ask('URL.createObjectURL = (blob) => { window.saved = blob; return "#"; }')
    run.click('named(".table", "Nodes").querySelector(".controls button:last-child")')
    lines = run.ask("return await saved.text()").splitlines()
    assert lines[0].startswith("node,in contacts,betweenness,")
    assert lines[4].startswith("3,3,0.7,0.5,0")


def test_text_of_a_table_is_quoted_where_it_must_be(run):
    rows = '[["a,b", 1.5], ["say \\"no\\"", null]]'
    table = f'{{ columns: [{{ name: "t", kind: "text" }}, {{ name: "n", kind: "number" }}], rows: {rows} }}'
    assert run.ask(f"return csvText({table})") == 't,n\n"a,b",1.5\n"say ""no""",\n'


def test_the_clock_changes_the_horizontal_axis_and_stays_over_a_reload(run):
    label = (
        f'[...{CHART}.querySelectorAll("svg text")].some((text) => text.textContent.includes("virtual time"))'
    )
    assert run.ask(f"return {label}") is False
    run.ask(
        f'const select = {CHART}.querySelector("select"); select.value = 1; select.dispatchEvent(new Event("change"))'
    )
    assert run.ask(f"return {label}") is True
    run.load("Page.reload")
    assert run.ask(f"return {label}") is True


def test_a_line_is_hidden_by_its_name(run):
    lines = f"return {CHART}.querySelectorAll('svg [aria-label=\"line\"] path').length"
    before = run.ask(lines)
    run.click(f'{CHART}.querySelector(".legend button")')
    assert run.ask(lines) == before - 1
    assert run.ask(f'return {CHART}.querySelector(".legend button").getAttribute("aria-pressed")') == "false"


def test_arrow_keys_tell_the_numbers_of_a_chart(run):
    run.ask(f'{CHART}.querySelector("svg").focus()')
    run.press("ArrowRight", "ArrowRight")
    assert (
        run.ask(f'return {CHART}.querySelector(".said").textContent') == "single nodes; round: 1; AAC: 25.0 %"
    )
    assert "25.0" in run.ask(
        f"return await until(() => {CHART}.querySelector('[aria-label=\"tip\"] text')?.textContent)"
    )


def test_the_mouse_tells_the_numbers_of_a_chart(run):
    run.click(f"{CHART}.querySelector('svg [aria-label=\"dot\"] circle')")
    told = run.ask(
        f"return await until(() => {CHART}.querySelector('[aria-label=\"tip\"] text')?.textContent)"
    )
    assert "AAC: 10.0" in told


def test_a_click_on_a_node_tells_whom_it_met(run):
    run.ask("await wait(1500)")  # until the network has come to rest
    run.click('all("svg.graph circle").find((circle) => circle.__data__.id === 1)')
    told = run.ask('return one(".about").textContent')
    assert told.startswith("Node 1")
    assert "Heard from: 202Heard by: 0" in told


def test_a_click_on_a_node_tells_who_found_it(run):
    run.ask('one("svg.graph").focus()')
    run.press("ArrowRight")
    assert "Found by: 221Has found: 0" in run.ask('return one(".about").textContent')
    finders = 'all("svg.graph circle.finder").map((circle) => circle.__data__.id).sort()'
    assert run.ask(f"return {finders}") == [1, 2]


def test_arrow_keys_go_from_node_to_node(run):
    run.ask('one("svg.graph").focus()')
    run.press("ArrowRight", "ArrowLeft")
    assert run.ask('return one(".about h4").textContent') == "Node 2"


def test_a_choice_shows_another_block(run):
    run.ask("""
        const select = named(".one-of", "Measure of position").querySelectorAll("select")[1];
        select.value = 1;
        select.dispatchEvent(new Event("change"));
        await until(drawn);
    """)
    told = run.ask('return named(".one-of", "Measure of position").querySelector("figcaption").textContent')
    assert told.endswith("leakage against in contacts")


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_follows_the_system_until_a_theme_is_chosen(browser, run_page, dark):
    ground = "return getComputedStyle(document.body).backgroundColor"
    on_dark, on_light = "rgb(20, 24, 30)", "rgb(255, 255, 255)"
    with opened(browser, run_page, dark=dark) as page:
        page.ask("sessionStorage.clear()")
        assert page.ask(ground) == (on_dark if dark else on_light)
        page.click('named("button", "Theme")')
        assert page.ask(ground) == on_dark
        page.click('named("button", "Theme")')
        assert page.ask(ground) == on_light
        page.ask("sessionStorage.clear()")


def test_everything_that_can_be_clicked_can_be_reached_by_keyboard_and_has_a_name(run):
    bad = run.ask("""
        const bad = all("button, select, input, a, summary").filter((found) => found.tabIndex < 0
          || !(found.textContent.trim() || found.labels?.length || found.getAttribute("aria-label")));
        return bad.map((found) => found.outerHTML);
    """)
    assert bad == []


def test_controls_are_not_printed_and_charts_are(run):
    run.call("Emulation.setEmulatedMedia", media="print")
    shown = "const shown = (found) => found && getComputedStyle(found).display !== 'none';"
    told = run.ask(
        f'{shown} return [shown(one("nav")), shown(one(".table button")), shown(one(".plot svg"))]'
    )
    assert told == [False, False, True]


def test_a_page_that_follows_a_run_loads_itself_again_unless_it_is_held(browser, tmp_path):
    write_report([write_run(tmp_path / "run").path], tmp_path / "page.html", reload_s=1.0)
    with opened(browser, tmp_path / "page.html") as page:
        page.click('named("button", "Pause refreshing")')
        page.ask("window.first = true")
        assert page.ask("await wait(1500); return window.first") is True
        page.ask("scrollTo({ top: 700, behavior: 'instant' }); named('button', 'Resume refreshing').click()")
        page.loaded()
        told = page.ask(
            "named('button', 'Pause refreshing').click(); await wait(400); return [window.first ?? 0, scrollY]"
        )
        assert told == [0, 700]


def test_a_study_opens_the_runs_behind_a_point(study):
    study.ask('named("figure.chart", "max_aac").querySelector("svg").focus()')
    study.press("ArrowRight", "Enter")
    rows = 'named("figure.chart", "max_aac").querySelectorAll(".opened tbody tr")'
    assert study.ask(f"return [...{rows}].map((row) => row.cells[0].textContent)") == ["1", "2", "3"]


def test_a_study_shows_differences_with_their_intervals(study):
    told = study.ask("""
        const spans = named("figure.spans", "difference from fanout 2");
        return [".track[aria-label]", ".apart"].map((one) => spans.querySelectorAll(one).length);
    """)
    assert told == [4, 4]


def test_every_figure_of_a_study_is_saved_as_a_picture_and_as_numbers(study):
    told = study.ask("""
        const made = []; URL.createObjectURL = (blob) => { made.push(blob); return "#"; };
        const texts = () => Promise.all(made.splice(0).map((one) => one.text()));
        const press = async (name) => {
          for (const one of document.querySelectorAll("figure button")) if (one.textContent === name) one.click();
          return await texts();
        };
        return [document.querySelectorAll("figure").length, await press("Save as SVG"), await press("Save as CSV")];
    """)
    figures, pictures, tables = told
    assert len(pictures) == len(tables) == figures == 3
    for picture in pictures:
        ElementTree.fromstring(picture)
        assert "var(--" not in picture
    assert all("," in table.splitlines()[0] and len(table.splitlines()) > 1 for table in tables)


def test_points_of_a_study_have_their_names_beside_them(study):
    named = study.ask(
        'return [...named("figure.chart", "against").querySelectorAll("svg text")].map((one) => one.textContent)'
    )
    assert sum("fanout" in text for text in named) >= 4
