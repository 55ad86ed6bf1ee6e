"""The documentation as a site: it is built without a warning, is whole, and asks nobody else for anything."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.report.browser import Browser, needs_browser, opened

pytestmark = pytest.mark.full

pytest.importorskip("material")
pytest.importorskip("mkdocstrings")

ROOT = Path(__file__).resolve().parents[2]
PAGES = {path.relative_to(ROOT / "docs").with_suffix(".html"): path for path in (ROOT / "docs").rglob("*.md")}
OUTSIDE = {
    Path("readme.html"): ROOT / "README.md",
    Path("contributing.html"): ROOT / "CONTRIBUTING.md",
    Path("changelog.html"): ROOT / "CHANGELOG.md",
    Path("topologies/karate-club.html"): ROOT / "topologies" / "karate-club.md",
}
NAV = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))
COUNTED = ("h1", "h2", "h3", "h4", "li", "table", "tr", "td", "th", "pre", "img", "strong")
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


class Elements(HTMLParser):
    """What a page consists of: elements of its text by name, ids, and what a browser fetches for it."""

    def __init__(self, html, *, whole=False):
        super().__init__()
        self.count, self.ids, self.fetched, self._in_text = Counter(), set(), [], whole
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        told = dict(attributes)
        self._in_text = self._in_text or tag == "article"
        if self._in_text and tag in COUNTED:
            self.count[tag] += 1
        self.ids.add(told.get("id"))
        if tag in FETCHED and told.get("rel") != "canonical":
            self.fetched.append(told.get(FETCHED[tag]) or "")

    def handle_endtag(self, tag):
        self._in_text = self._in_text and tag != "article"


def test_every_page_has_on_the_site_what_it_has_on_github(site):
    github = MarkdownIt("commonmark").enable("table")
    for page, source in (PAGES | OUTSIDE).items():
        if source not in REFERENCE:
            there = Elements(github.render(source.read_text()), whole=True).count
            assert Elements((site / page).read_text()).count == there, page


def test_the_reference_has_an_entry_for_everything_that_its_pages_name(site):
    for source in REFERENCE:
        ids = Elements((site / "reference" / source.with_suffix(".html").name).read_text()).ids
        named = re.findall(r"^::: (\S+)$", source.read_text(), re.MULTILINE)
        assert {name for name in named if name not in ("gossiprec.base.errors", "gossiprec.testing")} <= ids
    assert (
        "gossiprec.testing.check_attack" in ids | Elements((site / "reference/testing.html").read_text()).ids
    )


def test_roles_of_docstrings_are_names_on_the_site(site):
    for page in (site / "reference").glob("*.html"):
        assert not re.search(r":(class|meth|func|data|attr):", page.read_text()), page


def test_nothing_is_fetched_from_elsewhere(site):
    for page in site.rglob("*.html"):
        elsewhere = [url for url in Elements(page.read_text()).fetched if re.match(r"(\w+:)?//", url)]
        assert not elsewhere, page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", sheet.read_text()), sheet


def test_the_navigation_shows_every_title_that_it_is_given(site):
    titles = re.findall(r"^ +- ([^:\n]+):", NAV, re.MULTILINE)
    shown = re.findall(r'<span class="md-ellipsis">\s*([^<]*?)\s*<', (site / "architecture.html").read_text())
    assert {*titles} <= {*shown}


def test_links_out_of_the_folder_lead_to_what_the_site_has(site):
    html = (site / "index.html").read_text()
    assert all(f'href="{page}"' in html for page in ("readme.html", "contributing.html", "changelog.html"))
    assert (site / "analysis/notebooks/first_run.ipynb").is_file()
    assert (site / "license.txt").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.fixture(scope="module")
def served(site):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *about):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_pages_fit_their_window_and_follow_the_system_s_colours(browser, served, width, dark):
    for path in ("index.html", "data.html", "gallery.html", "reference/parts.html"):
        with opened(browser, Path(path), width=width, dark=dark, site=served) as page:
            told = page.ask("""
                await until(() => document.body.dataset.mdColorScheme);
                const root = document.documentElement;
                const lacking = all("article img").filter((one) => one.complete && !one.naturalWidth).length;
                const shade = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3);
                return { wide: root.scrollWidth - root.clientWidth, lacking, light: shade.every((c) => c > 128) };
            """)
            assert told == {"wide": 0, "lacking": 0, "light": not dark}, path


@needs_browser
def test_the_search_finds_a_page(browser, served):
    with opened(browser, Path("index.html"), site=served) as page:
        found = page.ask("""
            const field = one(".md-search__input");
            field.focus();
            field.value = "tensorboard";
            field.dispatchEvent(new KeyboardEvent("keyup", { bubbles: true }));
            field.dispatchEvent(new Event("input", { bubbles: true }));
            await until(() => one(".md-search-result__link"));
            return all(".md-search-result__link").map((link) => link.getAttribute("href"));
        """)
        assert any("tracking.html" in link for link in found)
