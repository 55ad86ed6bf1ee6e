from __future__ import annotations

import zipfile

import pytest
from small_data import dataset, pack

from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.data import load_split

NAME = "loc-gowalla_totalCheckins.txt"
NYC = [40.5, -74.3, 41.0, -73.6]
SPOTS = {"22847": (40.7, -74.0), "420315": (40.8, -73.9), "316637": (40.6, -73.8), "16516": (30.2, -97.7)}


def line(user, location, when, latitude=None, longitude=None):
    lat, lon = SPOTS[location]
    return f"{user}\t{when}\t{latitude or lat}\t{longitude or lon}\t{location}\n"


def day(number):
    return f"2010-10-{number:02}T23:55:27Z"


ROWS = [
    *[line(10, place, day(n)) for n, place in enumerate(SPOTS, start=1)],
    line(2, "420315", day(9)),
    line(2, "22847", day(8)),
    line(2, "316637", day(7)),
    line(33, "16516", day(5)),
    line(33, "22847", day(6)),
]
ANY = {"min_checkins": 1}


@pytest.fixture
def path(tmp_path):
    return pack(tmp_path / NAME, "".join(ROWS))


def load(path, **options):
    return dataset("gowalla", path=path, **(ANY | options)).load(0)


def test_users_and_places_get_dense_ids_in_the_order_of_their_numbers(path):
    found = load(path)
    assert found.users.tolist() == [1, 1, 1, 1, 0, 0, 0]
    assert found.items.tolist() == [1, 3, 2, 0, 3, 1, 2]
    assert found.times[0] == 1285977327
    assert found.coordinates.tolist() == [[30.2, -97.7], [40.7, -74.0], [40.6, -73.8], [40.8, -73.9]]


def test_plain_gzip_zip_and_folder_hold_the_same_data(path, tmp_path):
    with zipfile.ZipFile(tmp_path / "gowalla.zip", "w") as archive:
        archive.writestr(NAME, "".join(ROWS))
    (tmp_path / "a").mkdir()
    pack(tmp_path / "a" / f"{NAME}.gz", "".join(ROWS))
    for other in (tmp_path, tmp_path / "a", tmp_path / "a" / f"{NAME}.gz", tmp_path / "gowalla.zip"):
        assert load(other).times.tolist() == load(path).times.tolist()


def test_a_box_leaves_the_places_inside_and_the_users_with_enough_of_them(path):
    one = dataset("gowalla", path=path, bounding_box=NYC, **ANY)
    found = one.load(0)
    assert (found.n_users, found.n_items, len(found.users)) == (2, 3, 6)
    assert found.coordinates[:, 0].min() > 40
    assert one.provenance()["users_left_out"] == "1"
    assert one.provenance()["bounding_box"] == str(NYC)


def test_a_place_on_the_edge_of_the_box_is_inside(path):
    found = load(path, bounding_box=[40.6, -74.0, 40.8, -73.8])
    assert found.n_items == 3


def test_min_checkins_counts_check_ins_and_places_nobody_visits_go(path):
    found = load(path, min_checkins=4)
    assert (found.n_users, found.n_items) == (1, 4)
    only_box = load(path, bounding_box=NYC, min_checkins=3)
    assert (only_box.n_users, only_box.n_items) == (2, 3)
    with pytest.raises(DataError, match=r"no user has 4 check-ins .* lower min_checkins"):
        load(path, bounding_box=NYC, min_checkins=4)


def test_a_block_wholly_outside_the_box_changes_nothing(path, monkeypatch):
    whole = load(path, bounding_box=NYC)
    monkeypatch.setattr("gossiprec.data.text_blocks.BLOCK", 1)
    assert load(path, bounding_box=NYC).times.tolist() == whole.times.tolist()


def test_a_box_around_nothing_is_refused(path):
    with pytest.raises(DataError, match=r"no check-in is in bounding_box \[0.0, 0.0, 1.0, 1.0\]"):
        load(path, bounding_box=[0, 0, 1, 1])


@pytest.mark.parametrize(
    "box",
    [
        [41.0, -74.3, 40.5, -73.6],  # upside down
        [40.5, -73.6, 41.0, -74.3],  # west and east swapped
        [40.5, -74.3, 40.5, -73.6],  # flat
        [-91, -74.3, 41.0, -73.6],
        [40.5, -74.3, 41.0, 180.5],
    ],
)
def test_a_box_that_is_none_is_refused_with_an_example(path, box):
    with pytest.raises(ScenarioError, match=r"bounding_box: .*expected \[south, west, north, east\]"):
        load_split("gowalla", {"path": path, "bounding_box": box}, "published", {}, 1)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (line(1, "22847", day(1), latitude="-90.5"), "'-90.5'; expected a latitude in degrees, -90 to 90"),
        (line(1, "22847", day(1), longitude="east"), "'east'; expected a longitude"),
        (
            line(1, "22847", "2010-10-19 23:55:27"),
            "'2010-10-19 23:55:27'; expected a date and time such as '2010-10-19T23:55:27Z'",
        ),
        (line(1, "22847", "2010-13-19T23:55:27Z"), "'2010-13-19T23:55:27Z'; expected a date and time"),
        (line(1, "22847", "2010-10-19T24:55:27Z"), "'2010-10-19T24:55:27Z'; expected a date and time"),
        ("1\t2010-10-19T23:55:27Z\t40.7\t-74\n", "4 columns; expected 5 (user, time, latitude"),
        ("1\t2010-10-19T23:55:27Z\t40.7\t-74\t\n", "no location; expected any text"),
    ],
)
def test_a_bad_line_is_named(tmp_path, bad, words):
    path = pack(tmp_path / NAME, ROWS[0] + bad)
    with pytest.raises(DataError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: line 2: found ")
    assert words in str(caught.value)


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="found no row"):
        load(pack(tmp_path / NAME, "\n"))


def test_a_folder_without_the_file_names_it(tmp_path):
    with pytest.raises(DataError, match=NAME):
        load(tmp_path)


def test_the_published_split_has_moves(path):
    split = load_split("gowalla", {"path": path, **ANY}, "published", {}, 1)
    assert split.test.sizes.tolist() == [1, 1]
    assert split.check_ins.train.gap_minutes[split.check_ins.train.previous >= 0].tolist() == [1440.0] * int(
        (split.check_ins.train.previous >= 0).sum()
    )
