"""Titles and kinds of items: which file, which encoding, and what stays of them whatever is done to the split."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from small_data import dataset, pack, real

from gossiprec.base.errors import DataError
from gossiprec.data import load_split

RATINGS = "1::10::5::1\n1::9::4::2\n1::400::4::3\n2::9::3::4\n2::10::3::5\n"
MOVIES = "9::Misérables, Les (1995)::Drama|Musical\n10::2001: A  Space Odyssey (1968)::Sci-Fi\n77::Other (1990)::War\n"
U_DATA = "1\t1\t5\t10\n2\t3\t4\t20\n1\t2\t3\t30\n2\t1\t2\t40\n"


def movies_of(rows):
    """Return u.item: ids with titles, and places of genres, *unknown* being the first."""
    flags = {
        number: "|".join("1" if place in places else "0" for place in range(19)) for number, _, places in rows
    }
    return "".join(
        f"{number}|{title}|01-Jan-1995||http://x|{flags[number]}\n" for number, title, _ in rows
    ).encode("latin-1")


def texts_1m(folder, movies=MOVIES):
    pack(folder / "ratings.dat", RATINGS)
    if movies is not None:
        pack(folder / "movies.dat", movies.encode("latin-1"))
    return dataset("movielens-1m", path=folder).load(0).item_texts


def texts_100k(folder, rows):
    pack(folder / "u.data", U_DATA)
    pack(folder / "u.item", movies_of(rows))
    return dataset("movielens-100k", path=folder).load(0).item_texts


def texts_of_file(folder, text, **options):
    pack(folder / "rows.tsv", "ann\tred\nbob\tblue\nann\tblue\n")
    path = pack(folder / "texts.tsv", text)
    return dataset(
        "file", path=folder / "rows.tsv", columns=("user", "item"), item_texts=path, **options
    ).load(0)


def test_titles_of_movielens_1m_lose_their_year_and_gain_their_genres(tmp_path):
    expected = ("misérables, les drama musical", "2001: a space odyssey sci-fi", "")
    assert texts_1m(tmp_path) == expected
    assert dataset("movielens-1m", path=tmp_path / "ratings.dat").load(0).item_texts == expected

    with zipfile.ZipFile(tmp_path / "ml-1m.zip", "w") as archive:
        archive.writestr("ml-1m/ratings.dat", RATINGS)
        archive.writestr("ml-1m/movies.dat", MOVIES.encode("latin-1"))
    assert dataset("movielens-1m", path=tmp_path / "ml-1m.zip").load(0).item_texts == expected


def test_without_a_file_of_titles_there_are_no_texts_and_no_error(tmp_path):
    assert texts_1m(tmp_path, movies=None) is None
    pack(tmp_path / "u.data", U_DATA)
    assert dataset("movielens-100k", path=tmp_path).load(0).item_texts is None


def test_flags_of_movielens_100k_are_genres_and_the_movie_without_a_title_has_no_text(tmp_path):
    rows = [(1, "Nénette et Boni (1996)", {1, 18}), (2, "unknown", {0}), (3, "Z (1969)", {0, 3})]
    assert texts_100k(tmp_path, rows) == ("nénette et boni action western", "", "z animation")


def test_a_flag_that_is_none_is_refused(tmp_path):
    pack(tmp_path / "u.data", U_DATA)
    lines = movies_of([(1, "A", {1}), (2, "B", {1})]).decode().splitlines()
    pack(tmp_path / "u.item", "\n".join([lines[0], lines[1][:-1] + "x"]))
    with pytest.raises(DataError, match=r"u.item: line 2: found 'x'; expected 0 or 1 as Western"):
        dataset("movielens-100k", path=tmp_path).load(0)


def test_a_file_has_texts_as_it_has_interactions(tmp_path):
    assert texts_of_file(tmp_path, "blue\tLe Café (1999)\ngreen\tnobody's\n").item_texts == ("le café", "")
    text = 'blue\t"tab\tinside"\nred\tRÖT\n'.encode("latin-1")
    assert texts_of_file(tmp_path, text, encoding="latin-1").item_texts == ("tab inside", "röt")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("red\ta\nblue\tCafé\n".encode("latin-1"), "texts.tsv: line 2: found bytes that are not UTF-8 text"),
        (
            "red\ta\nblue\tb\nred\tc\n",
            "texts.tsv: line 3: found item 'red' again; expected one text for each item",
        ),
        ("red a\n", "texts.tsv: line 1: found 1 columns; expected 2 (item, text)"),
        (
            "1\ta\n2\tb\n",
            "texts.tsv: found texts of 2 items, such as '1'; expected those of the data, such as 'blue'",
        ),
        ("", "texts.tsv: found no row"),
    ],
)
def test_texts_that_do_not_fit_are_refused(tmp_path, text, words):
    with pytest.raises(DataError) as caught:
        texts_of_file(tmp_path, text)
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_of_texts_that_is_not_there_is_refused(tmp_path):
    pack(tmp_path / "rows.tsv", "ann\tred\n")
    options = {"columns": ("user", "item"), "item_texts": tmp_path / "gone.tsv"}
    with pytest.raises(DataError, match=r"gone.tsv: no such file"):
        dataset("file", path=tmp_path / "rows.tsv", **options).load(0)


@pytest.mark.parametrize("rule", ["leave_last_k", "random", "last", "files", "published"])
def test_every_split_and_fewer_users_keep_the_texts_and_names(tmp_path, rule):
    items = range(12)
    rows = [(user, item) for user in range(5) for item in items if (user + item) % 4]
    pack(tmp_path / "rows.tsv", "".join(f"u{user}\ti{item:02}\n" for user, item in rows))
    pack(tmp_path / "texts.tsv", "".join(f"i{item:02}\ttext {item}\n" for item in items))
    given = {"path": tmp_path / "rows.tsv", "columns": ("user", "item"), "item_texts": tmp_path / "texts.tsv"}
    data, options = "file", {"test": 1} if rule == "leave_last_k" else {}
    if rule == "files":
        options = {part: pack(tmp_path / f"{part}.tsv", "") for part in ("train", "test")}
        for part, of_part in (("train", rows[::2]), ("test", rows[1::2])):
            pack(options[part], "".join(f"u{user}\ti{item:02}\n" for user, item in of_part))
    if rule == "published":
        data, given = "movielens-100k", {"path": tmp_path}
        pack(tmp_path / "u.data", "".join(f"{u + 1}\t{i + 1}\t1\t1\n" for u, i in rows))
        pack(tmp_path / "u.item", movies_of([(item + 1, f"text {item}", set()) for item in items]))
        pack(tmp_path / "ua.base", "".join(f"{u + 1}\t{i + 1}\n" for u, i in rows[::2]))
        pack(tmp_path / "ua.test", "".join(f"{u + 1}\t{i + 1}\n" for u, i in rows[1::2]))

    for limit in (None, 2):
        split = load_split(data, given, rule, options, 1, limit_users=limit)
        assert split.n_users == (limit or 5)
        assert split.item_texts == tuple(f"text {item}" for item in items)
        assert split.item_names == tuple(str(i + 1) if rule == "published" else f"i{i:02}" for i in items)


def test_data_without_texts_have_splits_without_texts():
    split = load_split("synthetic", {"users": 9, "items": 40, "interactions": 90}, "random", {}, 1)
    assert split.item_texts is None


@pytest.mark.realdata
@pytest.mark.full
def test_all_movies_of_movielens_have_a_text_but_one_without_a_title():
    for name, folder, n_items, without in (
        ("movielens-1m", "ml-1m", 3706, 0),
        ("movielens-100k", "ml-100k", 1682, 1),
    ):
        texts = dataset(name, path=real(folder)).load(0).item_texts
        assert (len(texts), texts.count("")) == (n_items, without)
        assert texts[0] == "toy story animation children's comedy"
        assert np.mean(["(19" in text for text in texts]) == 0


def test_texts_in_utf8_are_not_read_as_latin_1(tmp_path):
    ratings = "1::1::5::978300760\n2::2::4::978300761\n"
    for encoding in ("latin-1", "utf-8"):
        pack(tmp_path / "ratings.dat", ratings)
        pack(tmp_path / "movies.dat", "1::Amélie (2001)::Comedy\n2::Léon (1994)::Crime\n".encode(encoding))
        assert dataset("movielens-1m", path=tmp_path).load(1).item_texts == ("amélie comedy", "léon crime")
    table = pack(tmp_path / "a.csv", "user,item\n1,1\n2,2\n")
    texts = pack(tmp_path / "t.csv", "item,text\n1,Amélie\n2,Léon\n")
    with pytest.raises(DataError, match="found UTF-8 text, but encoding: latin-1; expected only one of them"):
        dataset("file", path=table, item_texts=texts, encoding="latin-1").load(1)
