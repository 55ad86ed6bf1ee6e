"""A user whose name sorts first moves nobody else's test items."""

from __future__ import annotations

from gossiprec.data import load_split


def test_the_other_users_keep_their_test_items(in_case):
    folder = in_case("split_moves_with_names")

    def find_test_items(name):
        split = load_split("file", {"path": folder / name}, "random", {"test": 0.25}, 1)
        return {
            split.user_names[user]: {split.item_names[item] for item in split.test[user]}
            for user in range(split.n_users)
        }

    before, after = find_test_items("before.csv"), find_test_items("after.csv")
    assert after.pop("a0")
    assert after == before
