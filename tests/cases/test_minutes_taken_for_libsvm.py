"""Times of day at the end of a line are no sparse values."""

from __future__ import annotations

from gossiprec.data.file import DelimitedFile
from gossiprec.data.reports import describe_parsed_file


def describe(name, **options):
    return describe_parsed_file(DelimitedFile(DelimitedFile.Options(path=name, **options)))


def test_a_table_with_times_of_day_is_read(in_case):
    in_case("minutes_taken_for_libsvm")
    found = describe("visits.csv")
    assert (found["users"], found["items"], found["interactions"]) == (3, 4, 12)
    assert found["times"] == "2024-03-01 08:30:00 to 2024-03-12 19:30:00"


def test_a_table_with_named_columns_is_read_whatever_the_others_hold(in_case):
    in_case("minutes_taken_for_libsvm")
    named = {"user": "user_id", "item": "item_id"}
    assert describe("us_dates.csv", delimiter=",", columns=named)["interactions"] == 12
