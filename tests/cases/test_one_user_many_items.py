"""One busy user used to set the number of candidates of all users."""

import numpy as np
import pytest

from gossiprec.emulation import simulate
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.scoring.metric_inputs import SAMPLED, draw_candidates
from gossiprec.scenario import load_scenario


def candidates_by_user(path):
    """Return the candidates of each user's test item, by the user's name, as names of items."""
    split = load_data(load_scenario("s.yaml", [f"dataset.path={path}"]))
    rows = draw_candidates(split, np.arange(split.n_users), seed=1)
    names = np.array(split.item_names)
    return {user: sorted(names[row[row >= 0]]) for user, row in zip(split.user_names, rows, strict=True)}


def test_the_number_of_candidates_is_set_per_user(in_case):
    in_case("one_user_many_items")
    sizes = {user: len(items) for user, items in candidates_by_user("with_crawler.csv").items()}
    busiest = min(sizes, key=sizes.get)
    assert sizes.pop(busiest) < 1 + SAMPLED
    assert set(sizes.values()) == {1 + SAMPLED}


@pytest.mark.slow
@pytest.mark.full
def test_a_random_order_hits_as_often_with_the_busy_user_as_without(in_case, tmp_path):
    in_case("one_user_many_items")
    found = {}
    for name in ("without_crawler", "with_crawler"):
        run = simulate(load_scenario("s.yaml", [f"dataset.path={name}.csv"]), out=tmp_path / name)
        found[name] = run.summary["utility"]["hr@5[random]"]
    assert found["with_crawler"] == pytest.approx(
        0.05, abs=0.05
    )  # 5 of 100; 40 users: a standard error of .034
    assert found["with_crawler"] == pytest.approx(found["without_crawler"], abs=0.06)
