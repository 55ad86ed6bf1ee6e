"""The page as a file: one piece, nothing from elsewhere, and data that stays data."""

import hashlib
import json
import re
from importlib import resources

import numpy as np
import pytest

from gossiprec.report import (
    BlockChoice,
    Chart,
    ChartAxis,
    ChartSeries,
    Section,
    TableBlock,
    TextParagraphs,
    block_or_choice,
    to_plain_data,
)
from gossiprec.report.page import LIBRARIES, SCRIPTS, render_page, to_script_json

VENDORED = resources.files("gossiprec.report") / "vendored"


def data_in(content):
    found = re.search(rb'<script type="application/json" id="data">(.*?)</script>', content, re.DOTALL)
    return json.loads(found[1])


@pytest.mark.parametrize("name", LIBRARIES)
def test_scripts_of_others_are_the_files_that_were_published(name):
    version, checksum = LIBRARIES[name]
    content = (VENDORED / name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == checksum
    assert f"v{version}".encode() in content[:60]


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_licence_lies_beside_each_script_of_others(name):
    licence = VENDORED / f"{name.partition('.')[0]}.LICENSE.txt"
    assert "Permission to use, copy, modify" in licence.read_text()


def test_every_script_of_the_page_is_embedded_once():
    content = render_page("t", [])
    for name in SCRIPTS:
        text = (resources.files("gossiprec.report") / "page" / name).read_bytes()
        assert content.count(text) == 1
    assert {file.name for file in (resources.files("gossiprec.report") / "page").iterdir()} == {
        *SCRIPTS,
        "page.css",
        "page.html",
    }


def test_nothing_is_loaded_from_elsewhere():
    own = re.sub(
        rb"(?s)<script>.*?</script>",
        b"",
        render_page("t", [Section("s", [TextParagraphs(["http://example.org"])])]),
        count=1,
    )
    assert not re.findall(rb'(?:src|href)="(?!data:)', own)
    assert b"@import" not in own
    assert b"default-src 'none'" in own


def test_text_cannot_end_the_script_that_holds_it():
    evil = "</script><script>alert(1)</script><!-- </SCRIPT"
    assert "<" not in to_script_json({"text": evil})
    content = render_page(evil, [Section(evil, [TextParagraphs([evil])])])
    assert content.count(b"alert(1)</script>") == 0
    assert data_in(content)["sections"][0]["title"] == evil


def test_unknown_numbers_are_null_and_others_have_six_digits():
    series = ChartSeries("a", [np.array([0, 1])], np.array([1 / 3, np.nan]), low=[np.inf, 2.0])
    told = to_plain_data(series)
    assert (told["y"], told["low"], told["x"]) == ([0.333333, None], [None, 2.0], [[0, 1]])


def test_blocks_are_told_apart_by_their_kind():
    chart = Chart("c", [ChartAxis("x")], ChartAxis("y"), [ChartSeries("s", [[1]], [2])])
    told = to_plain_data(
        Section("s", [chart, TableBlock("t", [], []), BlockChoice("of", {"one": TextParagraphs([])})])
    )
    assert [block["kind"] for block in told["blocks"]] == ["chart", "table", "choice"]
    assert told["blocks"][2]["blocks"]["one"]["kind"] == "text"


def test_nothing_is_to_choose_from_a_single_block():
    assert block_or_choice("of", {"a": TextParagraphs(["a"])}) == TextParagraphs(["a"])
    assert block_or_choice("of", {"a": TextParagraphs(["a"]), "b": TextParagraphs(["b"])}).label == "of"
