"""Pages and their parts, each as Markdown and as HTML: text, headings, grids, pictures, collapsible parts.

All text is escaped here, once: no part accepts HTML.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from string import Template

from gossiprec.runs.run_files import replace_file

try:
    from markdown_it import MarkdownIt
except ModuleNotFoundError:
    raise SystemExit(
        "error: analysis: found no package markdown-it-py, expected it for the pages of results; install it with: "
        "pip install -e '.[analysis]'"
    ) from None


class DocumentBlock(ABC):
    """A part of a page."""

    @abstractmethod
    def markdown(self) -> str:
        """Return the part as Markdown."""

    @abstractmethod
    def html(self) -> str:
        """Return the part as HTML."""


@dataclass(frozen=True)
class ParagraphBlock(DocumentBlock):
    """Paragraphs and lists, written in Markdown; tags in them are shown as text."""

    text: str

    def markdown(self) -> str:
        """Return the text with its tags escaped."""
        return self.text.replace("<", "&lt;")

    def html(self) -> str:
        """Return the text rendered by CommonMark."""
        return str(_commonmark().render(self.text))


@dataclass(frozen=True)
class Heading(DocumentBlock):
    """A heading; `name` is the target of links."""

    level: int
    text: str
    name: str = ""

    def markdown(self) -> str:
        """Return the heading with its number signs."""
        return f"{'#' * self.level} {self.text}"

    def html(self) -> str:
        """Return a heading element with its name."""
        name = f' id="{escape(self.name)}"' if self.name else ""
        return f"<h{self.level}{name}>{escape(self.text)}</h{self.level}>"


@dataclass(frozen=True)
class GridCell:
    """A field of a grid.

    Attributes
    ----------
    text : str
    small : tuple of str
        Lines below it, in small print.
    mark, kind : str
        A sign before the text, and a word for its meaning, which also chooses the colour.
    link : str
        The name of the heading to which the text links.
    """

    text: str
    small: tuple[str, ...] = ()
    mark: str = ""
    kind: str = ""
    link: str = ""

    def markdown(self) -> str:
        """Return the field in one line."""
        text = f"{self.mark} {self.text}".strip()
        return (
            "; ".join(part for part in (text, *self.small) if part).replace("|", "\\|").replace("<", "&lt;")
        )

    def html(self) -> str:
        """Return the content of its table cell."""
        text = escape(self.text)
        if self.link:
            text = f'<a href="#{escape(self.link)}">{text}</a>'
        if self.mark:
            mark = (
                f'<span class="mark" role="img" aria-label="{escape(self.kind)}">{escape(self.mark)}</span>'
            )
            text = f'<span class="value">{mark} {text}</span>'
        return text + "".join(f"<small>{escape(part)}</small>" for part in self.small)


@dataclass(frozen=True)
class GridColumn:
    """A column of a grid, or several under one title."""

    title: str
    parts: tuple[str, ...] = ()

    @property
    def titles(self) -> list[str]:
        """The titles of its parts, each usable without the column's heading."""
        return [f"{self.title}: {part}" for part in self.parts] or [self.title]


@dataclass(frozen=True)
class Grid(DocumentBlock):
    """A table.

    Attributes
    ----------
    label : str
        Its name for screen readers.
    columns : sequence of GridColumn
    rows : sequence of sequence of GridCell
    heads : int
        Number of first columns that are row headings.
    """

    label: str
    columns: Sequence[GridColumn]
    rows: Sequence[Sequence[GridCell]]
    heads: int = 1

    def markdown(self) -> str:
        """Return a table with one line of titles."""
        titles = [title for column in self.columns for title in column.titles]
        lines = [titles, ["---"] * len(titles), *([entry.markdown() for entry in row] for row in self.rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def html(self) -> str:
        """Return a table that scrolls by itself if it is too wide, also by keys."""
        body = "\n".join(f"<tr>{''.join(self._fields(row))}</tr>" for row in self.rows)
        return (
            f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(self.label)}"><table>\n'
            f"<thead>{self._head()}</thead>\n<tbody>\n{body}\n</tbody></table></div>"
        )

    def _head(self) -> str:
        if not any(column.parts for column in self.columns):
            titles = (f'<th scope="col">{escape(column.title)}</th>' for column in self.columns)
            return f"<tr>{''.join(titles)}</tr>"
        above = (
            f'<th scope="colgroup" colspan="{len(column.parts)}">{escape(column.title)}</th>'
            if column.parts
            else f'<th scope="col" rowspan="2">{escape(column.title)}</th>'
            for column in self.columns
        )
        below = (f'<th scope="col">{escape(part)}</th>' for column in self.columns for part in column.parts)
        return f"<tr>{''.join(above)}</tr><tr>{''.join(below)}</tr>"

    def _fields(self, row: Iterable[GridCell]) -> Iterable[str]:
        for place, entry in enumerate(row):
            kind = f' class="{escape(entry.kind.replace(" ", "-"))}"' if entry.kind else ""
            tag, more = ("th", ' scope="row"') if place < self.heads else ("td", kind)
            yield f"<{tag}{more}>{entry.html()}</{tag}>"


GridRow = list[GridCell | str]
"""The fields of a line of a table; a field without marks is its text."""


def make_grid(
    label: str, columns: Iterable[GridColumn | str], rows: Iterable[Sequence[GridCell | str]], heads: int = 1
) -> Grid:
    """Return a table, given its columns or their titles, and its fields or their text."""
    titles = [GridColumn(column) if isinstance(column, str) else column for column in columns]
    fields = [[GridCell(entry) if isinstance(entry, str) else entry for entry in row] for row in rows]
    return Grid(label, titles, fields, heads)


@dataclass(frozen=True)
class ImageBlock(DocumentBlock):
    """A picture with its caption, and the file of its numbers."""

    source: str
    caption: str
    numbers: str

    def markdown(self) -> str:
        """Return the picture above its caption."""
        return f"![{self.caption}]({self.source})\n\n{self.caption} ([numbers]({self.numbers}))"

    def html(self) -> str:
        """Return a figure."""
        caption = f'{escape(self.caption)} (<a href="{escape(self.numbers)}">numbers</a>)'
        return (
            f'<figure><img src="{escape(self.source)}" alt="{escape(self.caption)}">'
            f"<figcaption>{caption}</figcaption></figure>"
        )


@dataclass(frozen=True)
class Collapsible(DocumentBlock):
    """Parts that are hidden until the reader opens them."""

    title: str
    blocks: Sequence[DocumentBlock] = field(default_factory=tuple)

    def markdown(self) -> str:
        """Return the HTML tags that Markdown allows for it."""
        inner = "\n\n".join(block.markdown() for block in self.blocks)
        return f"<details><summary>{escape(self.title)}</summary>\n\n{inner}\n\n</details>"

    def html(self) -> str:
        """Return an element that opens and closes without a script."""
        inner = "\n".join(block.html() for block in self.blocks)
        return f"<details><summary>{escape(self.title)}</summary>\n{inner}\n</details>"


@cache
def _commonmark() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False})


def markdown_page(title: str, blocks: Sequence[DocumentBlock]) -> str:
    """Return a page as Markdown."""
    parts = [block.markdown() for block in (Heading(1, title), *blocks)]
    return "\n\n".join(part for part in parts if part) + "\n"


def html_page(title: str, blocks: Sequence[DocumentBlock]) -> str:
    """Return a page as HTML, with links to its named headings; references to ``x.md`` become ``x.html``."""
    named = [block for block in blocks if isinstance(block, Heading) and block.name]
    links = (f'<a href="#{escape(one.name)}">{escape(one.text.partition(":")[0])}</a>' for one in named)
    template, style = (
        Path(__file__).with_name(f"page.{end}").read_text(encoding="utf-8") for end in ("html", "css")
    )
    return Template(template).substitute(
        title=escape(title),
        style=style,
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
