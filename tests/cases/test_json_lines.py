"""JSON is refused by its name."""

from __future__ import annotations

import pytest

from gossiprec.base.errors import DataError
from gossiprec.data.file import DelimitedFile


@pytest.mark.parametrize("name", ["a.jsonl", "b.json", "c.json"])
@pytest.mark.parametrize("form", ["pairs", "lists"])
def test_json_is_refused_by_name(in_case, name, form):
    with pytest.raises(DataError, match=r"found JSON; expected delimited text.*; convert it to CSV"):
        DelimitedFile(DelimitedFile.Options(path=in_case("json_lines") / name, form=form)).load(0)
