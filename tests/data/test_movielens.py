from __future__ import annotations

import gzip
import shutil
import zipfile

import pytest
from small_data import dataset, pack, real, sets_of

from gossiprec.base.errors import DataError
from gossiprec.data import load_split

RATINGS = "1\t1\t5\t10\n2\t3\t4\t20\n1\t2\t3\t30\n2\t1\t2\t40\n1\t3\t1\t50\n"
PEPPER = {
    "train": "0\t0\t5\t10\n1\t2\t4\tspoilt\n",
    "validation": "0\t1\n",
    "test": "0\t2\t1\t50\n1\t0\t2\t40\n",
}
UA = {"ua.base": "1\t1\t5\t10\n1\t2\t3\t30\n2\t3\t4\t20\n", "ua.test": "1\t3\t1\t50\n2\t1\t2\t40\n"}


@pytest.fixture
def folder(tmp_path):
    pack(tmp_path / "u.data", RATINGS)
    return tmp_path


@pytest.fixture
def with_pepper(folder):
    (folder / "pepper").mkdir()
    for part, text in PEPPER.items():
        pack(folder / "pepper" / f"ml-100k.{part}.rating", text)
    return folder


def archive(path, **files):
    with zipfile.ZipFile(path, "w") as opened:
        for name, text in files.items():
            opened.writestr(name, text)
    return path


def published(path):
    return load_split("movielens-100k", {"path": path}, "published", {}, 1)


def parts(split):
    return [sets_of(part) for part in (split.train, split.validation, split.test)]


def test_ids_are_the_original_ones_less_one(folder):
    found = dataset("movielens-100k", path=folder).load(0)
    assert found.users.tolist() == [0, 1, 0, 1, 0]
    assert found.items.tolist() == [0, 2, 1, 0, 2]
    assert (found.n_users, found.n_items) == (2, 3)
    assert found.times.tolist() == [10, 20, 30, 40, 50]


def test_folder_file_gzip_and_archive_hold_the_same_data(folder, tmp_path):
    (tmp_path / "packed").mkdir()
    paths = [
        folder,
        folder / "u.data",
        pack(tmp_path / "packed" / "u.data.gz", RATINGS).parent,
        tmp_path / "packed" / "u.data.gz",
        archive(tmp_path / "ml-100k.zip", **{"ml-100k/README": "read", "ml-100k/u.data": RATINGS}),
    ]
    found = [dataset("movielens-100k", path=path) for path in paths]
    assert len({one.checksum for one in found}) == 1
    assert len({tuple(one.load(0).items.tolist()) for one in found}) == 1


def test_other_contents_are_noted_not_refused(folder):
    assert "differs from the published file" in dataset("movielens-100k", path=folder).provenance()["note"]


def test_the_published_split_is_read_from_pepper_with_spoilt_times_ignored(with_pepper):
    expected = [[[0], [2]], [[1], []], [[2], [0]]]
    assert parts(published(with_pepper)) == expected
    assert parts(published(with_pepper / "u.data")) == expected


def test_the_ua_split_serves_where_pepper_is_missing(folder):
    files = {f"ml-100k/{name}": text for name, text in UA.items()}
    zipped = archive(folder / "ml-100k.zip", **files, **{"ml-100k/u.data": RATINGS})
    for name, text in UA.items():
        pack(folder / name, text)
    for path in (folder, zipped):
        assert parts(published(path)) == [[[0, 1], [2]], [[], []], [[2], [0]]]


def test_without_any_published_split_the_message_says_what_to_do(folder):
    with pytest.raises(DataError, match=r"pepper/ next to u.data .* or use split leave_last_k"):
        published(folder)


def test_half_a_pepper_folder_is_refused(with_pepper):
    (with_pepper / "pepper" / "ml-100k.test.rating").unlink()
    with pytest.raises(DataError, match=r"contains none of the expected files \(ml-100k.test.rating"):
        published(with_pepper)


@pytest.mark.parametrize(
    ("part", "text", "words"),
    [
        ("test", "0\t2\n5\t0\n", "user 5 with item '1'; expected pairs of movielens-100k"),
        (
            "test",
            "0\t2\n1\t77\n",
            "ml-100k.test.rating: line 2: found user '2' with item 77; expected pairs of",
        ),
        (
            "test",
            "0\t2\n1\t2\n",
            "line 2: found user '2' with item '3'; expected each pair in one part, but ",
        ),
        ("validation", "0\tone\n", "item 'one'; expected whole numbers from 0"),
        ("train", "0\t0\t5\n", "3 columns"),
    ],
)
def test_a_split_of_other_data_is_refused(with_pepper, part, text, words):
    pack(with_pepper / "pepper" / f"ml-100k.{part}.rating", text)
    with pytest.raises(DataError) as caught:
        published(with_pepper)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["0\t1\t5\t10\n", "x\t1\t5\t10\n", "99999999\t1\t5\t10\n"])
def test_an_impossible_id_is_refused(tmp_path, text):
    with pytest.raises(DataError, match="expected whole numbers from 1"):
        dataset("movielens-100k", path=pack(tmp_path / "u.data", text)).load(0)


@pytest.mark.parametrize("name", ["movielens-100k", "movielens-1m"])
def test_a_path_without_the_data_names_what_was_looked_for(tmp_path, name):
    wanted = {"movielens-100k": "u.data", "movielens-1m": "ratings.dat"}[name]
    for path, words in (
        (tmp_path, f"{wanted} or {wanted}.gz"),
        (tmp_path / "gone", "no such file or folder"),
    ):
        with pytest.raises(DataError) as caught:
            dataset(name, path=path).load(0)
        assert words in str(caught.value)


def test_movielens_1m_reads_its_original_form_and_comma_separated(tmp_path):
    rows = [("3", "1193", "5", "978300760"), ("1", "661", "3", "-1"), ("3", "9", "4", "978302109")]
    original = "".join("::".join(row) + "\n" for row in rows)
    commas = "user,movie,rating,timestamp\n" + "".join(",".join(row) + "\n" for row in rows)
    paths = [
        pack(tmp_path / "ratings.dat", original),
        pack(tmp_path / "ratings.csv.gz", commas),
        archive(tmp_path / "ml-1m.zip", **{"ml-1m/ratings.dat": original}),
    ]
    for path in paths:
        found = dataset("movielens-1m", path=path).load(0)
        assert (found.users.tolist(), found.items.tolist()) == ([1, 0, 1], [2, 1, 0])
        assert found.times.tolist() == [978300760, -1, 978302109]


@pytest.mark.realdata
def test_the_published_split_of_movielens_100k_has_the_published_sizes():
    folder = real("ml-100k")
    split = published(folder)
    assert (split.n_users, split.n_items) == (943, 1682)
    assert [int(part.sizes.sum()) for part in (split.train, split.validation, split.test)] == [
        81_917,
        8_653,
        9_430,
    ]
    assert set(split.test.sizes.tolist()) == {10}
    assert "note" not in dataset("movielens-100k", path=folder).provenance()


@pytest.mark.realdata
def test_a_truncated_copy_of_movielens_100k_is_refused(tmp_path):
    whole = (real("ml-100k") / "u.data.gz").read_bytes()
    (tmp_path / "u.data.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cannot be read"):
        dataset("movielens-100k", path=tmp_path).load(0)


@pytest.mark.realdata
def test_the_original_archive_layout_holds_movielens_100k(tmp_path):
    folder = real("ml-100k")
    text = gzip.decompress((folder / "u.data.gz").read_bytes())
    zipped = archive(tmp_path / "ml-100k.zip", **{"ml-100k/u.data": text})
    shutil.copytree(folder / "pepper", tmp_path / "pepper")
    assert int(published(zipped).train.sizes.sum()) == 81_917


@pytest.mark.realdata
def test_movielens_1m_has_its_known_size():
    found = dataset("movielens-1m", path=real("ml-1m")).load(0)
    assert (len(found.users), found.n_users, found.n_items) == (1_000_209, 6040, 3706)
