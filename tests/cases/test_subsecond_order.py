"""Clicks within a second are in the order of their times, in milliseconds and in ISO 8601."""

from __future__ import annotations

import pytest

from gossiprec.data import load_split


@pytest.mark.parametrize(("name", "unit"), [("clicks_ms.csv", "ms"), ("clicks_iso.csv", "s")])
def test_the_last_click_is_the_test_item(in_case, name, unit):
    options = {"path": in_case("subsecond_order") / name, "time_unit": unit}
    split = load_split("file", options, "leave_last_k", {"test": 1}, 1)
    names = split.item_names
    for user in range(split.n_users):
        assert [names[item] for item in split.sequences[user]] == ["40", "39", "38", "37", "36", "35"]
        assert [names[item] for item in split.test[user]] == ["35"]
