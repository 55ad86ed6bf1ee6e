"""A hook of MkDocs: what pages link to outside of docs/ becomes part of the site, under links that hold on GitHub, too.

Markdown becomes pages (``../CONTRIBUTING.md``: ``contributing.md``), anything else a file to download.
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
"""What a link of Markdown leads to, without its anchor; not to other sites."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is linked from pages, and from what is thereby added."""
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
    """Let links lead to where their files lie on the site."""
    places = {Path(str(file.abs_src_path)): file.src_uri for file in files}
    path = Path(str(page.file.abs_src_path))
    here = Path(page.file.src_uri).parent
    leads = {told: places[found] for told, found in _links(path, markdown) if found in places}

    def moved(link: re.Match[str]) -> str:
        return Path(os.path.relpath(leads[link[0]], here)).as_posix() if link[0] in leads else link[0]

    return LINK.sub(moved, markdown)


def _links(page: Path, markdown: str) -> Iterator[tuple[str, Path]]:
    """Yield what links say and the files that they mean; of a folder its README."""
    for told in LINK.findall(markdown):
        found = (page.parent / told).resolve()
        found = found / "README.md" if found.is_dir() else found
        if found.is_file() and found.is_relative_to(ROOT):
            yield told, found


def _place(path: Path) -> str:
    """Return where a file from outside lies on the site: the few at the top of the clone have names in lower case."""
    inside = path.relative_to(ROOT)
    return (
        inside.as_posix()
        if len(inside.parts) > 1
        else inside.name.lower() + ("" if inside.suffix else ".txt")
    )
