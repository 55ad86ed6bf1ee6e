"""Parts of a page as Markdown and as HTML."""

from __future__ import annotations

import pytest

from analysis.papers.document import (
    Collapsible,
    Grid,
    GridCell,
    GridColumn,
    Heading,
    ImageBlock,
    ParagraphBlock,
    html_page,
    markdown_page,
)

NASTY = 'a | <b> & "c"'
ESCAPED = "a | &lt;b&gt; &amp; &quot;c&quot;"


@pytest.mark.parametrize(
    "block",
    [
        Heading(2, NASTY, NASTY),
        Grid(
            NASTY,
            [GridColumn(NASTY), GridColumn(NASTY, (NASTY,))],
            [[GridCell(NASTY, (NASTY,), NASTY, NASTY, NASTY)] * 2],
            heads=0,
        ),
        Collapsible(NASTY, (Heading(2, NASTY),)),
        ImageBlock(NASTY, NASTY, NASTY),
        ParagraphBlock(NASTY),
    ],
)
def test_whatever_is_shown_is_escaped(block):
    assert ESCAPED in block.html()
    assert "<b>" not in block.html()


def test_a_grid_is_one_line_of_titles_in_markdown_and_two_in_html():
    grid = Grid(
        "t", [GridColumn("row"), GridColumn("AAC", ("print", "ours"))],
        [[GridCell("a"), GridCell("5"), GridCell("6", ("n = 1",), "✓", "within")]],
    )  # fmt: skip
    assert grid.markdown().splitlines() == [
        "| row | AAC: print | AAC: ours |",
        "| --- | --- | --- |",
        "| a | 5 | ✓ 6; n = 1 |",
    ]
    html = grid.html()
    assert '<th scope="col" rowspan="2">row</th><th scope="colgroup" colspan="2">AAC</th>' in html
    assert '<th scope="row">a</th><td>5</td>' in html
    said = '<span class="mark" role="img" aria-label="within">✓</span>'
    assert f'<td class="within"><span class="value">{said} 6</span><small>n = 1</small></td>' in html


def test_a_column_of_one_part_needs_no_second_title():
    grid = Grid("t", [GridColumn("row"), GridColumn("what")], [])
    assert grid.html().count("<tr>") == 1


def test_a_bar_or_a_tag_in_a_field_does_not_end_it():
    grid = Grid("t", [GridColumn("a")], [[GridCell("x | <y>")]])
    assert grid.markdown().splitlines()[-1] == "| x \\| &lt;y> |"


def test_a_fold_opens_without_a_script():
    fold = Collapsible("more", (ParagraphBlock("*here*"),))
    assert fold.html() == "<details><summary>more</summary>\n<p><em>here</em></p>\n\n</details>"
    assert fold.markdown() == "<details><summary>more</summary>\n\n*here*\n\n</details>"


def test_a_page_links_to_its_named_headings_and_to_pages_of_its_own_kind():
    blocks = [
        Heading(2, "Table 1: it", "table1"),
        Heading(2, "Unnamed"),
        ParagraphBlock("see [findings](findings.md)"),
    ]
    page = html_page("A & B", blocks)
    assert "<title>A &amp; B</title>" in page
    assert '<nav aria-label="On this page"><a href="#table1">Table 1</a></nav>' in page
    assert 'href="findings.html"' in page
    assert markdown_page("A & B", blocks) == (
        "# A & B\n\n## Table 1: it\n\n## Unnamed\n\nsee [findings](findings.md)\n"
    )
