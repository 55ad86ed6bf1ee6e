"""A column of labels is not skipped without a word."""

from __future__ import annotations

import pytest

from gossiprec.base.errors import DataError
from gossiprec.data.file import DelimitedFile

NAMED = {"user": "user_id:token", "item": "item_id:token"}


def make(folder, **options):
    return DelimitedFile(DelimitedFile.Options(path=folder / "clicks.inter", **options))


def test_labels_are_refused_until_it_is_said_what_they_mean(in_case):
    folder = in_case("label_column")
    with pytest.raises(
        DataError, match="line 1: found the column 'label:float', which may mark the lines that count"
    ):
        make(folder).load(0)
    labelled = {"columns": NAMED | {"rating": "label:float"}}
    with pytest.raises(DataError, match=r"found ratings of 0 and 1 only.* set min_rating: 1"):
        make(folder, **labelled).load(0)
    lines = (folder / "clicks.inter").read_text().split("\n")
    ones = sum(line.endswith("\t1") for line in lines)
    assert len(make(folder, **labelled, min_rating=1).load(0).users) == ones
    skipped = make(folder, columns=NAMED).load(0)
    assert len(skipped.users) == 96
    assert "skipped: label:float" in skipped.source_summary
