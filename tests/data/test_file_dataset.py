from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from small_data import dataset, load, pack, refusal

from gossiprec.base.errors import DataError
from gossiprec.data import text_blocks
from gossiprec.emulation import estimate_run
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import tiny

USER_ITEM = ("user", "item")
FULL = ("user", "item", "rating", "time")

names = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=6).filter(
    lambda text: "," not in text and text.strip() and "\ufeff" not in text
)


@given(rows=st.lists(st.tuples(names, names), min_size=1, max_size=30))
@pytest.mark.slow
def test_every_name_becomes_one_dense_id_and_nothing_is_lost(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "rows.csv"
    pack(path, "".join(f"{user},{item}\n" for user, item in rows))
    found = load(path, columns=USER_ITEM, delimiter=",", header=False, quote="none", doubtful_names="keep")
    for ids, count, column in ((found.users, found.n_users, 0), (found.items, found.n_items, 1)):
        told = {row[column]: int(i) for row, i in zip(rows, ids, strict=True)}
        assert sorted(set(told.values())) == list(range(count))
        assert [told[row[column]] for row in rows] == ids.tolist()


@given(rows=st.lists(st.tuples(names, names), min_size=1, max_size=20), random=st.randoms())
@pytest.mark.full
def test_the_order_of_lines_does_not_change_ids(rows, random, tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "rows.csv"
    shuffled = random.sample(rows, len(rows))

    def ids(lines):
        text = "".join(f"{u},{i}\n" for u, i in lines)
        found = load(
            pack(path, text),
            columns=USER_ITEM,
            delimiter=",",
            header=False,
            quote="none",
            doubtful_names="keep",
        )
        return sorted(zip(found.users.tolist(), found.items.tolist(), strict=True))

    assert ids(rows) == ids(shuffled)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_numbers_are_ordered_by_value_and_before_words_whatever_the_byte_order_mark(tmp_path, mark):
    found = load(pack(tmp_path / "a.tsv", f"{mark}10\tx\n9\ty\nann\tz\n"), columns=USER_ITEM)
    assert found.users.tolist() == [1, 0, 2]


@pytest.mark.parametrize("suffix", [".tsv", ".gz", ".zip"])
def test_packing_does_not_change_the_data(tmp_path, suffix):
    found = load(pack(tmp_path / f"a{suffix}", "1\t7\t3.5\t1000000100\r\n\n2\t8\t4\t-1\r\n"))
    assert (found.users.tolist(), found.items.tolist()) == ([0, 1], [0, 1])
    assert found.ratings.tolist() == [3.5, 4.0]
    assert found.times.tolist() == [1000000100, -1]


def test_header_and_unnamed_columns_are_skipped(tmp_path):
    path = pack(tmp_path / "a.csv", "\ufefftitle,what,who\nT,b,u\nT,a,u\n")
    found = load(path, columns=("-", "item", "user"), delimiter=",", header=True)
    assert (found.users.tolist(), found.items.tolist()) == ([0, 0], [1, 0])
    assert found.ratings is None
    assert found.times is None


def test_a_blank_delimiter_means_any_run_of_blanks(tmp_path):
    assert load(pack(tmp_path / "a.txt", "1   2\t3  1000000004\n"), delimiter=" ").times.tolist() == [
        1000000004
    ]


def test_blocks_do_not_show(tmp_path, monkeypatch):
    path = pack(tmp_path / "a.tsv", "".join(f"u{n % 3}\ti{n}\t1\t{10**9 + n}\n" for n in range(10)))
    whole = load(path)
    monkeypatch.setattr(text_blocks, "BLOCK", 30)
    parts = load(path)
    for field in ("users", "items", "ratings", "times"):
        assert np.array_equal(getattr(whole, field), getattr(parts, field))


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("1\t2\t3\t4\n1\t2\t3\n", 2, "3 columns"),
        ("1\t2\t3\t4\t5\n", 1, "5 columns"),
        ("1\t2\tgood\t4\n", 1, "'good'"),
        ("1\t2\t3\t4\n\n1\t2\tnan\t4\n", 3, "'nan'"),
        ("1\t2\tinf\t4\n", 1, "'inf'"),
        ("1\t2\t3\tnoon\n", 1, "'noon'"),
        ("1\t2\t3\t-2\n", 1, "'-2'"),
        ("1\t2\t3\t1e300\n", 1, "'1e300'"),
        ("\t2\t3\t4\n", 1, "no user"),
        ("1\t \t3\t4\n", 1, "no item"),
        (b"1\t2\t3\t4\n\xff\xfe\t2\t3\t4\n", 2, "not UTF-8"),
        (b"1\t\x00\t3\t4\n", 1, "zero byte"),
    ],
)
def test_a_bad_line_is_named_with_what_was_found_and_what_is_allowed(tmp_path, text, line, found):
    path = pack(tmp_path / "bad.tsv", text)
    message = refusal(path)
    assert message.startswith(f"{path}: line {line}: found ")
    assert found in message
    assert "expected " in message


def test_names_of_columns_that_are_not_recognised_are_met_with_a_hint(tmp_path):
    assert "set header: true" in refusal(pack(tmp_path / "a.tsv", "wer\twas\tnote\tzeit\n1\t2\t3\t4\n"))


def test_a_bad_line_is_named_in_a_later_block_too(tmp_path, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK", 16)
    assert "line 5: found 'x'" in refusal(pack(tmp_path / "a.tsv", "1\t2\t3\t4\n" * 4 + "1\t2\t3\tx\n"))


@pytest.mark.parametrize("text", ["", "\n  \n", "only a header\n", "\ufeff", "\ufeff\n"])
def test_a_file_without_rows_is_refused(tmp_path, text):
    assert "found no row" in refusal(pack(tmp_path / "a.tsv", text), header=True)


def test_a_missing_file_is_refused(tmp_path):
    assert "no such file" in refusal(tmp_path / "none.tsv")


@pytest.mark.parametrize("cut", [2, 9, 15, -9, -5, -1])
def test_a_truncated_gzip_gives_no_partial_result(tmp_path, cut):
    path = pack(tmp_path / "a.gz", "1\t2\t3\t4\n" * 1000)
    path.write_bytes(path.read_bytes()[:cut])
    assert refusal(path).startswith(f"{path}: cannot be read")


@pytest.mark.parametrize("name", ["a.gz", "a.zip"])
@pytest.mark.parametrize("junk", [b"", b"1\t2\t3\t4\n", b"PK\x03\x04 and nothing more"])
def test_a_wrongly_named_file_is_refused(tmp_path, name, junk):
    path = tmp_path / name
    path.write_bytes(junk)
    assert str(path) in refusal(path)


def test_a_zip_with_a_spoilt_member_gives_no_partial_result(tmp_path):
    path = pack(tmp_path / "a.zip", "1\t2\t3\t4\n" * 100)
    path.write_bytes(path.read_bytes().replace(b"1\t2\t3\t4\n1\t2\t3\t4", b"1\t2\t3\t5\n1\t2\t3\t4", 1))
    assert "CRC" in refusal(path)


@given(junk=st.binary(min_size=1, max_size=200), suffix=st.sampled_from([".tsv", ".gz", ".zip"]))
def test_junk_is_data_or_a_data_error_never_a_traceback(junk, suffix, tmp_path_factory):
    path = tmp_path_factory.mktemp("junk") / f"a{suffix}"
    path.write_bytes(junk)
    try:
        found = load(path, columns=USER_ITEM)
    except DataError as error:
        found = error
    assert (
        str(path) in str(found) if isinstance(found, DataError) else len(found.users) == len(found.items) > 0
    )


@pytest.mark.parametrize("columns", [("user",), ("item", "-"), ("user", "item", "user"), ()])
def test_columns_must_name_user_and_item_once(columns):
    with pytest.raises(ValidationError, match="user and item once each"):
        dataset("file", path="a", columns=columns)


KEYS_OF_PATHS = {
    "dataset.path": lambda path: {"name": "file", "path": path},
    "dataset.item_texts": lambda path: {"name": "file", "path": "ok.csv", "item_texts": path},
    "dataset.user_features.path": lambda path: {"name": "file", "path": "ok.csv", "user_features": {"path": path}},
    "train": lambda path: {"name": "files", "train": path, "test": path},
}  # fmt: skip


@pytest.mark.parametrize("key", KEYS_OF_PATHS)
def test_a_missing_file_is_named_with_its_key_and_where_it_was_looked_for(tmp_path, monkeypatch, key):
    monkeypatch.chdir(tmp_path)
    Path("ok.csv").write_text("user,item,time\n" + "".join(f"{n % 3},{n},{n}\n" for n in range(12)))

    def found(path):
        split = {"name": "published"} if key == "train" else {"name": "leave_last_k", "test": 1}
        with pytest.raises(DataError) as caught:
            estimate_run(load_scenario(tiny(dataset={**KEYS_OF_PATHS[key](path), "split": split})))
        return str(caught.value)

    near, far = found("no.csv"), found(f"{tmp_path}/no.csv")
    assert near.startswith(f"no.csv: no such file in {tmp_path}, where this command runs; expected ")
    assert near.endswith(
        f"(key {key} of a scenario), or run the command in the folder from which it leads there"
    )
    assert far.startswith(f"{tmp_path}/no.csv: no such file at this absolute path; expected ")
    assert far.endswith(f"; correct the path (key {key} of a scenario)")
