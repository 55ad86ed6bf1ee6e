"""Dislikes do not become positives."""

from __future__ import annotations

import pytest

from gossiprec.base.errors import DataError
from gossiprec.data.file import DelimitedFile


def test_a_column_of_two_words_is_refused_until_columns_are_named(in_case):
    folder = in_case("like_dislike_skipped")

    def load(**options):
        return DelimitedFile(DelimitedFile.Options(path=folder / "thumbs.csv", **options)).load(0)

    with pytest.raises(DataError, match="found the column 'reaction', which may mark the lines that count"):
        load()
    assert len(load(columns={"user": "user_id", "item": "item_id", "time": "time"}).users) == 20
