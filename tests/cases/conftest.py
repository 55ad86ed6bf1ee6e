"""Inputs of reported faults, with the right values in the tests; they lie next to the project."""

from __future__ import annotations

from pathlib import Path

import pytest

CASES = Path(__file__).parents[2].parent / "shared" / "cases"


@pytest.fixture
def in_case(monkeypatch):
    """Return a function that enters the folder of a case and returns it; the test is skipped where it is absent."""

    def enter(name: str) -> Path:
        folder = CASES / name
        if not folder.is_dir():
            pytest.skip(f"no {folder}")
        monkeypatch.chdir(folder)
        return folder

    return enter
