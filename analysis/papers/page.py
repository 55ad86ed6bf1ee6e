"""A page from its parts: as Markdown, and as one HTML file that needs no other file and no script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from analysis.papers.document import DocumentBlock, Heading
from gossiprec.runs.atomic_write import replace_file

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
$style</style>
</head>
<body>
<header>
$opening
<nav aria-label="On this page">$links</nav>
</header>
<main>
$body
</main>
</body>
</html>
""")


def markdown_page(title: str, blocks: Sequence[DocumentBlock]) -> str:
    """Return a page as Markdown."""
    parts = [block.markdown() for block in (Heading(1, title), *blocks)]
    return "\n\n".join(part for part in parts if part) + "\n"


def html_page(title: str, blocks: Sequence[DocumentBlock]) -> str:
    """Return a page as HTML, with links to its named headings; references to ``x.md`` become ``x.html``."""
    named = [block for block in blocks if isinstance(block, Heading) and block.name]
    links = (f'<a href="#{escape(one.name)}">{escape(one.text.partition(":")[0])}</a>' for one in named)
    return _PAGE.substitute(
        title=escape(title),
        style=Path(__file__).with_name("page.css").read_text(encoding="utf-8"),
        opening=Heading(1, title).html(),
        links=" ".join(links),
        body=re.sub(r'href="(\w+)\.md"', r'href="\1.html"', "\n".join(block.html() for block in blocks)),
    )


def write_pages(folder: Path, pages: Mapping[str, tuple[str, Sequence[DocumentBlock]]]) -> list[Path]:
    """Write each page, given by file name, title and parts, as Markdown and HTML; return the paths."""
    written = []
    for name, (title, blocks) in pages.items():
        for suffix, content in ((".md", markdown_page(title, blocks)), (".html", html_page(title, blocks))):
            written.append(folder / f"{name}{suffix}")
            replace_file(written[-1], content.encode())
    return written
