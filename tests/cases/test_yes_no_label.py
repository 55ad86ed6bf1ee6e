"""The tip for a column of True and False can be followed, in text and in Parquet."""

from __future__ import annotations

import pytest

from gossiprec.base.errors import DataError
from gossiprec.data.file import DelimitedFile


@pytest.mark.parametrize("name", ["bought.csv", "bought.parquet"])
def test_the_lines_with_true_are_kept(in_case, name):
    folder = in_case("yes_no_label")

    def load(**options):
        return DelimitedFile(DelimitedFile.Options(path=folder / name, **options)).load(0)

    with pytest.raises(DataError, match=r"rating: purchased.* and min_rating: 1; to keep all"):
        load()
    named = {"user": "user_id", "item": "item_id", "rating": "purchased"}
    assert len(load(columns=named, min_rating=1).users) == 10
