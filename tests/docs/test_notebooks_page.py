"""The example of docs/notebooks.md runs as it stands and prints what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_example_of_steps_prints_what_the_page_shows(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "notebooks.md").read_text()
    code, shown = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL).groups()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "notebooks.md", "exec"), {})
    assert printed.getvalue() == shown
