"""Lists that begin with ``user:item`` hold the first item, too."""

from __future__ import annotations

import pytest

from gossiprec.base.errors import DataError
from gossiprec.data.file import DelimitedFile


def load(folder, **options):
    return DelimitedFile(DelimitedFile.Options(path=folder / "colon.txt", form="lists", **options)).load(0)


def test_no_item_is_lost(in_case):
    data = load(in_case("lists_with_colon"))
    assert (data.n_users, len(data.users), data.user_names[0]) == (12, 72, "1")
    assert [data.item_names[item] for item in data.items[data.users == 0]] == [
        "29",
        "27",
        "22",
        "18",
        "16",
        "25",
    ]


def test_a_delimiter_that_leaves_all_items_in_one_cell_is_refused(in_case):
    folder = in_case("lists_with_colon")
    with pytest.raises(
        DataError, match=r"line 1: found one item per line, .* set delimiter: ' ' and user_delimiter: ':'"
    ):
        load(folder, delimiter=":")
    assert len(load(folder, delimiter=" ", user_delimiter=":").users) == 72
