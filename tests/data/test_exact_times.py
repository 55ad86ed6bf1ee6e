"""Times count with all their digits, in every form, and equal times go by the order of the file."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from small_data import dataset, load, pack

from gossiprec.data import load_split
from gossiprec.data.column_parsers import DIGITS, LATEST, seconds_and_fractions, unix_time_parser

START = 1_433_222_503
PARTS = (".000", ".000000001", ".150", ".1500001", ".300000000000001", ".750")
CLICKS = range(40, 34, -1)
"""Items in the order of time, which is not that of their names."""


def split_of(path, **options):
    return load_split("file", {"path": path, **options}, "leave_last_k", {"test": 1}, 1)


def told(split):
    names = split.item_names
    return [names[i] for i in split.sequences[0]], [names[i] for i in split.test[0]]


RIGHT = [str(item) for item in CLICKS], ["35"]
TEXTS = {
    "fractions": [f"{START}{part}" for part in PARTS],
    "iso": [f"2015-06-02T05:21:43{part}Z" for part in PARTS],
    "iso, with a zone": [f"2015-06-02 07:21:43{part}+02:00" for part in PARTS],
    "iso, without a zone": [f"2015-06-02 05:21:43{part}" for part in PARTS],
    "iso, with a comma": [f"2015-06-02 05:21:43,{part[1:]}" for part in PARTS],
    "several zones": [f"2015-06-02T{5 + n % 3:02}:21:43{p}+0{n % 3}:00" for n, p in enumerate(PARTS)],
    "exponents": [f"{Decimal(f'{START}{part}'):.25e}" for part in PARTS],
    "mixed": [f"{START}.0", *(f"2015-06-02T05:21:43{part}Z" for part in PARTS[1:])],
}


@pytest.mark.parametrize("form", TEXTS)
def test_the_order_within_a_second_is_kept(tmp_path, form):
    rows = [f'1;{item};"{time}"\n' for item, time in zip(CLICKS, TEXTS[form], strict=True)]
    path = pack(tmp_path / "a.csv", "user;item;time\n" + "".join(reversed(rows)) + "1;7;5\n1;8;-1\n")
    order, test = told(split_of(path))
    assert (order, test) == (["8", "7", *RIGHT[0]], RIGHT[1])


@pytest.mark.parametrize("unit", DIGITS)
def test_the_order_of_numbers_is_kept_in_every_unit(tmp_path, unit):
    rows = [f"1,{item},{START * 10**9 + n}\n" for n, item in enumerate(CLICKS)]
    scaled = [
        f"{row.rsplit(',', 1)[0]},{Decimal(row.rsplit(',', 1)[1]).scaleb(DIGITS[unit] - 9):f}\n"
        for row in rows
    ]
    path = pack(tmp_path / "a.csv", "user,item,time\n" + "".join(reversed(scaled)))
    assert told(split_of(path, time_unit=unit)) == RIGHT
    data = load(path, time_unit=unit)
    assert set(data.times.tolist()) == {START}
    assert np.allclose(np.sort(data.fractions), np.arange(6) * 1e-9, rtol=0, atol=1e-20)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_the_order_of_parquet_timestamps_is_kept(tmp_path, unit, zone):
    ticks = [START * 10 ** DIGITS[unit] + n for n in range(6)]
    times = pa.array(ticks[::-1], pa.int64()).cast(pa.timestamp(unit, zone))
    table = {"user": [1] * 6, "item": [*CLICKS][::-1], "time": times}
    parquet.write_table(pa.table(table), tmp_path / "a.parquet")
    assert told(split_of(tmp_path / "a.parquet")) == RIGHT
    assert load(tmp_path / "a.parquet").times[0] == START


@pytest.mark.parametrize("rule", ["leave_last_k", "last"])
def test_equal_times_go_by_the_order_of_the_file(tmp_path, rule):
    for items in ([40, 39, 38, 37, 36, 35], [35, 40, 36, 38, 37, 39]):
        rows = "".join(f"1,{item},{START}.5\n2,{item},-1\n" for item in items)
        path = pack(tmp_path / "a.csv", f"user,item,time\n{rows}1,99,7\n2,99,7\n")
        split = load_split("file", {"path": path}, rule, {"test": 1 if rule == "leave_last_k" else 0.2}, 1)
        first, second = (
            [split.item_names[i] for i in row] for row in (split.sequences[0], split.sequences[1])
        )
        assert first == ["99", *map(str, items)]
        assert second == [*map(str, items), "99"]
        assert [split.item_names[i] for i in split.test[0]] == [str(items[-1])]


def test_a_repeated_pair_counts_from_its_exact_first_time(tmp_path):
    path = pack(tmp_path / "a.csv", "user,item,time\n1,5,7.9\n1,6,7.5\n1,5,7.1\n")
    assert told(load_split("file", {"path": path}, "leave_last_k", {"test": 1}, 1)) == (["5", "6"], ["6"])


def test_what_is_kept_keeps_fractions_and_the_order_of_the_file(tmp_path):
    rows = "".join(f"1,{item},5,{START}.{n // 2}\n" for n, item in enumerate(CLICKS))
    path = pack(tmp_path / "a.csv", f"user,item,rating,time\n1,1,1,{START}\n{rows}2,1,5,{START}\n")
    assert told(split_of(path, min_rating=4, min_items=2)) == RIGHT


def test_a_file_that_is_written_again_keeps_its_times(tmp_path):
    from gossiprec.data.delimited_text import write_table

    data = load(pack(tmp_path / "a.csv", f"user,item,time\n1,5,{START}.000000001\n1,6,7.5\n1,7,3\n"))
    write_table(lambda: data, tmp_path / "b.csv", delimiter=",")
    again = dataset("file", path=tmp_path / "b.csv", columns=["user", "item", "time"], header=False).load(1)
    assert again.times.tolist() == data.times.tolist()
    assert again.fractions.tolist() == data.fractions.tolist()


@settings(max_examples=30)
@given(st.decimals(0, 10**10, places=12, allow_nan=False), st.sampled_from(sorted(DIGITS)))
def test_a_number_is_its_seconds_and_the_nearest_fraction(number, unit):
    parse, exact = unix_time_parser(DIGITS[unit]), number.scaleb(-DIGITS[unit])
    for text in (f"{number:f}", f" {number:f} ", f"{number:.30e}", f"+{number:f}"):
        seconds, fractions = seconds_and_fractions(parse(pa.array([text])))
        assert seconds[0] == int(exact)
        found = 0.0 if fractions is None else fractions[0]
        assert abs(Decimal(float(found)) - exact % 1) < Decimal("2e-16")


@pytest.mark.parametrize("text", ["0x10", "1_0", "-2", "1e400", "5s", "", "1.2.3"])
def test_what_is_no_number_is_no_time(text):
    try:
        seconds, _ = seconds_and_fractions(unix_time_parser(0)(pa.array([text])))
    except pa.ArrowInvalid:
        return
    assert seconds[0] < -1 or seconds[0] >= LATEST


def test_a_user_added_before_all_others_moves_nobody(tmp_path):
    names = [f"u{n}" for n in range(9)]
    rows = "".join(f"{name},i{(n * 7 + k) % 30}\n" for n, name in enumerate(names) for k in range(12))
    for rule, options in (
        ("random", {"test": 0.25}),
        ("last", {"test": 0.25}),
        ("leave_last_k", {"test": 2}),
    ):
        found = []
        for more in ("", "a0,b1\na0,i3\na0,i4\na0,i5\n"):
            path = pack(tmp_path / "a.csv", f"user,item\n{rows}{more}")
            split = load_split("file", {"path": path}, rule, options, 1)
            found.append(
                {
                    name: {split.item_names[i] for i in split.test[u]}
                    for u, name in enumerate(split.user_names)
                }
            )
        found[1].pop("a0")
        assert found[0] == found[1]
