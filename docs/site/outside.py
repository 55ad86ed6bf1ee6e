"""A hook of MkDocs: files outside of docs/ that pages link to are on the site, and roles of docstrings are names there.

The same links work on GitHub.

Markdown becomes a page (``../CONTRIBUTING.md``: ``contributing.md``), any other file a download.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")
"""Pattern of the target of a Markdown link, without its anchor; links to other sites do not match."""

ROLE = re.compile(r":(?:class|meth|func|data|attr|mod|exc|obj):<code>(~?)([^<]+)</code>")
"""Pattern of a role of a docstring as a page shows it, such as ``:class:`~gossiprec.runs.Run```."""


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace the roles of docstrings by names: the last part of a path that begins with ``~``."""
    return ROLE.sub(lambda role: f"<code>{role[2].rpartition('.')[2] if role[1] else role[2]}</code>", html)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that pages link to, and the files that these link to."""
    waiting = [Path(str(file.abs_src_path)) for file in files.documentation_pages()]
    known = {*waiting, *(Path(str(file.abs_src_path)) for file in files)}
    while waiting:
        page = waiting.pop()
        for _, found in _links(page, page.read_text(encoding="utf-8")):
            if found not in known and not found.is_relative_to(config.docs_dir):
                known.add(found)
                files.append(File.generated(config, _place(found), abs_src_path=str(found)))
                waiting += [found] if found.suffix == ".md" else []
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace the targets of links by the places of their files on the site."""
    places = {Path(str(file.abs_src_path)): file.src_uri for file in files}
    path = Path(str(page.file.abs_src_path))
    here = Path(page.file.src_uri).parent
    targets = {link: places[found] for link, found in _links(path, markdown) if found in places}

    def moved(link: re.Match[str]) -> str:
        return Path(os.path.relpath(targets[link[0]], here)).as_posix() if link[0] in targets else link[0]

    return LINK.sub(moved, markdown)


def _links(page: Path, markdown: str) -> Iterator[tuple[str, Path]]:
    """Yield the target of each link and its file; the file of a folder is its README."""
    for link in LINK.findall(markdown):
        found = (page.parent / link).resolve()
        found = found / "README.md" if found.is_dir() else found
        if found.is_file() and found.is_relative_to(ROOT):
            yield link, found


def _place(path: Path) -> str:
    """Return the path on the site of a file from outside; files at the top of the clone get names in lower case."""
    inside = path.relative_to(ROOT)
    return (
        inside.as_posix()
        if len(inside.parts) > 1
        else inside.name.lower() + ("" if inside.suffix else ".txt")
    )
