from __future__ import annotations

import gzip
import shutil
import zipfile

import numpy as np
import pytest
from small_data import dataset, pack, real, sets_of

from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.data import load_split
from gossiprec.data.check_ins import SortedCheckIns

VENUES = [("4bf5", 40.71, -74.0), ("3fd6", 40.6, -74.04), ("4a43", 40.8, -73.9)]
"""Ids whose order by name is 3fd6, 4a43, 4bf5."""


def original_line(user, venue, when, latitude=None, longitude=None):
    name, lat, lon = VENUES[venue]
    cells = [user, name, "4bf58dd8", "Café", latitude or lat, longitude or lon, -240, when]
    return "\t".join(map(str, cells)) + "\n"


ORIGINAL = "".join(
    [
        original_line(470, 0, "Tue Apr 03 18:00:09 +0000 2012"),
        original_line(470, 1, "Tue Apr 03 18:30:39 +0000 2012"),
        original_line(470, 2, "Wed Feb 29 23:59:59 +0000 2012"),
        original_line(9, 2, "Sat Feb 16 02:35:36 +0000 2013"),
        original_line(9, 0, "Sat Feb 16 02:34:36 +0000 2013"),
        original_line(9, 1, "Thu Jan 01 00:00:00 +0000 1970"),
    ]
)
NAME = "dataset_TSMC2014_NYC.txt"

CHECKINS = (
    "user_id\tvenue_idx\tminute\tflag\n"
    "1\t1\t30\t0\n1\t2\t60\t0\n1\t4\t-1\t1\n1\t3\t-1\t2\n"
    "2\t4\t5\t0\n2\t1\t9\t0\n2\t2\t9\t0\n7\t1\t3\t0\n7\t2\t-1\t2\n7\t4\t-1\t2\n"
)
VENUE_FILE = "venue_idx\tfoursquare_venue_id\tlat\tlon\tstan_poi_id\n" + "".join(
    f"{idx}\tname{idx}\t{40 + idx / 10}\t-74.0\t-1\n" for idx in (1, 3, 4, 2, 5)
)


def joined(folder, checkins=CHECKINS, venues=VENUE_FILE):
    folder.mkdir(exist_ok=True)
    pack(folder / "nyc_checkins.tsv.gz", checkins)
    pack(folder / "nyc_venues.tsv.gz", venues)
    return folder


def load(path, **options):
    return dataset("foursquare-nyc", path=path, **options).load(0)


def test_the_original_file_is_read_with_dense_ids_by_name_and_utc_times(tmp_path):
    found = load(pack(tmp_path / NAME, ORIGINAL.encode("latin-1")))
    assert (found.n_users, found.n_items) == (2, 3)
    assert found.users.tolist() == [1, 1, 1, 0, 0, 0]
    assert found.items.tolist() == [2, 0, 1, 1, 2, 0]
    assert found.times.tolist() == [1333476009, 1333477839, 1330559999, 1360982136, 1360982076, 0]
    assert found.coordinates.tolist() == [[40.6, -74.04], [40.8, -73.9], [40.71, -74.0]]


def test_plain_gzip_zip_and_folder_hold_the_same_original(tmp_path):
    content = ORIGINAL.encode("latin-1")
    with zipfile.ZipFile(tmp_path / "dataset_tsmc2014.zip", "w") as archive:
        archive.writestr("dataset_tsmc2014/dataset_TSMC2014_readme.txt", "read")
        archive.writestr(f"dataset_tsmc2014/{NAME}", content)
    (tmp_path / "a").mkdir()
    pack(tmp_path / "a" / f"{NAME}.gz", content)
    paths = [
        pack(tmp_path / NAME, content),
        tmp_path,
        tmp_path / "a",
        tmp_path / "a" / f"{NAME}.gz",
        tmp_path / "dataset_tsmc2014.zip",
    ]
    assert len({str(load(path).times.tolist()) for path in paths}) == 1


def test_gaps_of_the_original_are_minutes_with_their_seconds(tmp_path):
    visits = SortedCheckIns.of(load(pack(tmp_path / NAME, ORIGINAL.encode("latin-1"))))
    gaps = visits.gap_minutes[visits.users == 1].tolist()
    assert np.isnan(gaps[0])
    assert gaps[1:] == [pytest.approx((33 * 24 + 18) * 60 + 10 / 60), 30.5]


def test_a_venue_in_several_spots_is_at_the_median_one(tmp_path):
    text = ORIGINAL + "".join(
        original_line(9, 0, "Sat Feb 16 03:00:00 +0000 2013", latitude=lat) for lat in (40.99, 40.1)
    )
    lines = text.splitlines(keepends=True)
    for name, order in (("a.txt", lines), ("b.txt", lines[::-1])):
        found = load(pack(tmp_path / name, "".join(order).encode("latin-1")))
        assert found.coordinates[2].tolist() == [40.71, -74.0]


def test_the_joined_files_keep_every_venue_whatever_the_flags(tmp_path):
    folder = joined(tmp_path / "nyc")
    for flags, rows in ((0, 3), (1, 6), (2, 10)):
        found = load(folder, flags=flags)
        assert (len(found.users), found.n_items) == (rows, 5)
    assert found.items.tolist() == [0, 1, 3, 2, 3, 0, 1, 0, 1, 3]
    assert found.coordinates[:, 0] == pytest.approx([40.1, 40.2, 40.3, 40.4, 40.5])
    assert found.times.tolist()[:3] == [1333476000 + 1800, 1333476000 + 3600, -1]


def test_users_whom_the_flags_leave_too_few_venues_are_counted(tmp_path):
    folder = joined(tmp_path / "nyc")
    for flags, users, left_out in ((0, 1, "2"), (1, 2, "1"), (2, 3, "0")):
        one = dataset("foursquare-nyc", path=folder, flags=flags)
        found = one.load(0)
        assert found.n_users == users == len(set(found.users.tolist()))
        assert one.provenance()["users_left_out"] == left_out
        assert one.provenance()["rows"] == f"flag <= {flags}"


def test_a_checkins_file_finds_its_venues_beside_it(tmp_path):
    folder = joined(tmp_path / "nyc")
    assert load(folder / "nyc_checkins.tsv.gz").items.tolist() == load(folder).items.tolist()


def test_joined_files_without_venues_are_refused(tmp_path):
    folder = joined(tmp_path / "nyc")
    (folder / "nyc_venues.tsv.gz").unlink()
    with pytest.raises(DataError, match=r"no venue file; expected nyc_venues.tsv .* coordinates"):
        load(folder)


def test_a_path_with_neither_form_names_both(tmp_path):
    with pytest.raises(DataError, match=r"dataset_TSMC2014_NYC.txt .* nyc_checkins.tsv"):
        load(tmp_path)


GOOD = original_line(1, 0, "Tue Apr 03 18:00:09 +0000 2012")
WHEN = "Tue Apr 03 18:00:09 +0000 2012"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (original_line(1, 0, WHEN, latitude="north"), "'north'; expected a latitude in degrees, -90 to 90"),
        (original_line(1, 0, WHEN, latitude=" "), "''; expected a latitude"),
        (original_line(1, 0, WHEN, latitude="90.01"), "'90.01'; expected a latitude"),
        (original_line(1, 0, WHEN, latitude="nan"), "'nan'; expected a latitude"),
        (
            original_line(1, 0, WHEN, longitude="-180.5"),
            "'-180.5'; expected a longitude in degrees, -180 to 180",
        ),
        (original_line(1, 0, WHEN, longitude="inf"), "'inf'; expected a longitude"),
        (original_line(1, 0, "2012-04-03"), "'2012-04-03'; expected a date and time such as 'Tue Apr 03"),
        (
            original_line(1, 0, "Tue Feb 30 18:00:09 +0000 2012"),
            "'Tue Feb 30 18:00:09 +0000 2012'; expected a date and time",
        ),
        (original_line(1, 0, "Tue Foo 03 18:00:09 +0000 2012"), "'Tue Foo 03"),
        (original_line(1, 0, "Tue Apr 03 18:00:09 -0400 2012"), "-0400 2012'; expected a date and time"),
        (original_line(1, 0, "Tue Apr 03 18:00:09 +0000 1969"), "1969'; expected a date and time"),
        (original_line(1, 0, ""), "''; expected a date and time"),
        (original_line("", 0, WHEN), "no user; expected any text"),
        ("1\t4bf5\tid\tBar\t40.7\t-74.0\n", "6 columns; expected 8 (user, venue, category_id"),
    ],
)
def test_a_bad_line_of_the_original_is_named(tmp_path, line, words):
    path = pack(tmp_path / NAME, (GOOD + line).encode("latin-1"))
    with pytest.raises(DataError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: line 2: found ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("checkins", "words"),
    [
        (
            CHECKINS + "1\t6\t3\t0\n",
            "line 12: found venue_idx 6; expected the 5 venues that nyc_venues.tsv holds",
        ),
        (CHECKINS + "1\t0\t3\t0\n", "line 12: found venue_idx 0; expected the 5 venues"),
        (CHECKINS + "1\tx\t3\t0\n", "line 12: found 'x'; expected a whole number"),
        (CHECKINS + "1\t1\t-2\t0\n", "line 12: found '-2'; expected a whole number from -1"),
        (CHECKINS + "1\t1\t3\t3\n", "line 12: found '3'; expected a whole number from 0 to 2 as flag"),
        (CHECKINS + "1\t1\t3\n", "line 12: found 3 columns; expected 4"),
        (CHECKINS.split("\n", 1)[1], "line 1: found '1\\t1\\t30\\t0'; expected the header"),
        (CHECKINS.split("\n")[0] + "\n", "found no row"),
        ("", "line 1: found ''; expected the header"),
    ],
)
def test_a_bad_line_of_the_joined_check_ins_is_named(tmp_path, checkins, words):
    with pytest.raises(DataError) as caught:
        load(joined(tmp_path / "nyc", checkins))
    assert "nyc_checkins.tsv.gz: " in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("9\ta\t91\t-74\t-1\n", "line 7: found '91'; expected a latitude"),
        ("9\ta\t40\t\t-1\n", "line 7: found ''; expected a longitude"),
        ("3\ta\t40\t-74\t-1\n", "venue_idx 3 occurs more than once"),
        ("9\ta\t-1\n", "line 7: found 3 columns; expected 5"),
    ],
)
def test_a_bad_line_of_the_venue_file_is_named(tmp_path, line, words):
    with pytest.raises(DataError) as caught:
        load(joined(tmp_path / "nyc", venues=VENUE_FILE + line))
    assert "nyc_venues.tsv.gz: " in str(caught.value)
    assert words in str(caught.value)


def test_an_empty_original_is_refused(tmp_path):
    with pytest.raises(DataError, match="found no row"):
        load(pack(tmp_path / NAME, ""))


@pytest.mark.parametrize("options", [{"flags": 3}, {"flags": -1}, {"min_items": 2}, {"flag": 1}])
def test_an_option_out_of_range_is_refused(tmp_path, options):
    with pytest.raises(ScenarioError, match=next(iter(options))):
        load_split("foursquare-nyc", {"path": tmp_path, **options}, "published", {}, 1)


@pytest.mark.realdata
def test_the_real_check_ins_have_their_known_sizes():
    folder = real("foursquare-nyc")
    everything, exact = load(folder, flags=2), load(folder, flags=0)
    assert (len(everything.users), everything.n_users, everything.n_items) == (227_428, 1083, 38_333)
    assert (len(exact.users), exact.n_users, exact.n_items) == (147_938, 1083, 38_333)
    assert (exact.times >= 0).all()
    assert int((everything.times >= 0).sum()) == 147_938
    low, high = everything.coordinates.min(axis=0), everything.coordinates.max(axis=0)
    assert (low > (40.5, -74.3)).all()
    assert (high < (41.0, -73.6)).all()


@pytest.mark.realdata
@pytest.mark.full
def test_the_real_check_ins_split_into_moves_at_full_and_published_size():
    folder = real("foursquare-nyc")
    split = load_split("foursquare-nyc", {"path": folder}, "published", {}, 1)
    parts = [int(part.sizes.sum()) for part in (split.train, split.validation, split.test)]
    assert (split.n_users, sum(parts)) == (1083, 83_115)
    assert parts[0] / sum(parts) == pytest.approx(0.8, abs=0.01)
    assert int((split.check_ins.train.previous >= 0).sum()) > 90_000
    few = load_split("foursquare-nyc", {"path": folder}, "published", {}, 1, limit_users=146)
    assert (few.n_users, few.n_items, len(few.check_ins.train.items)) == (146, 38_333, 146)
    assert sets_of(few.test) == sets_of(split.test)[:146]


@pytest.mark.realdata
def test_a_truncated_copy_is_refused(tmp_path):
    folder = tmp_path / "nyc"
    folder.mkdir()
    for name in ("nyc_checkins.tsv.gz", "nyc_venues.tsv.gz"):
        shutil.copyfile(real("foursquare-nyc") / name, folder / name)
    whole = gzip.decompress((folder / "nyc_venues.tsv.gz").read_bytes())
    pack(folder / "nyc_venues.tsv.gz", whole[: len(whole) // 2].rpartition(b"\n")[0] + b"\n")
    with pytest.raises(DataError, match=r"found venue_idx \d+; expected the \d+ venues"):
        load(folder)
