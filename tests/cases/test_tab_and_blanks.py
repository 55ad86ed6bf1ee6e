"""Lines of a tab and blanks can be split in two ways: they are refused until the delimiter is stated."""

from __future__ import annotations

import pytest

from gossiprec.base.errors import DataError
from gossiprec.data.file import DelimitedFile


def test_the_file_is_refused_until_the_delimiter_is_stated(in_case):
    path = in_case("tab_and_blanks") / "mixed.txt"
    with pytest.raises(
        DataError, match=r"line 1: found lines that a tab and blanks would split .*the option delimiter"
    ):
        DelimitedFile(DelimitedFile.Options(path=path)).load(0)
    data = DelimitedFile(DelimitedFile.Options(path=path, delimiter=" ")).load(0)
    assert (data.n_users, data.user_names[0], int(data.times[0])) == (12, "1", 1370797926)
