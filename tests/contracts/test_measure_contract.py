"""What every registered measure of recommendations keeps to."""

import numpy as np
import pytest

from gossiprec.measures import MEASURES
from gossiprec.measures.base import NOWHERE, RelevantRanks, TargetRanks, TopItems
from gossiprec.measures.metric import read_metric

N_USERS, N_ITEMS = 9, 30


def views(seed):
    """Return one example of all that a measure can want, by type, read-only."""
    draw = np.random.default_rng(seed)
    lists = np.argsort(draw.random((N_USERS, N_ITEMS)), axis=1).astype(np.int32)
    ranks = np.sort(np.argsort(lists, axis=1)[:, :6].astype(np.int32), axis=1)
    for row, size in zip(ranks, draw.integers(1, 7, N_USERS), strict=True):
        row[size:] = NOWHERE
    targets = np.argsort(lists, axis=1)[:, :4].astype(np.int32)
    targets[draw.random(targets.shape) < 0.3] = -1
    for array in (lists, ranks, targets):
        array.setflags(write=False)
    return {
        RelevantRanks: RelevantRanks(ranks),
        TargetRanks: TargetRanks(targets),
        TopItems: TopItems(lists[:, :20], N_ITEMS),
    }


@pytest.mark.parametrize("name", list(MEASURES))
def test_a_measure_is_a_share_that_does_not_depend_on_the_order_of_users(name):
    measure = MEASURES[name]
    for seed in range(5):
        seen = views(seed)[measure.wants]
        turned = type(seen)(**{key: np.roll(value, 1, axis=0) if key != "n_items" else value
                               for key, value in vars(seen).items()})  # fmt: skip
        for k in (1, 3, 20):
            values = measure.of(seen, k)
            assert values.dtype == np.float64
            assert values.ndim == 1
            known = values[~np.isnan(values)]
            assert len(known)
            assert ((known >= 0) & (known <= 1)).all()
            again = measure.of(turned, k)
            assert np.nanmean(again) == pytest.approx(known.mean())


@pytest.mark.parametrize("name", list(MEASURES))
def test_a_measure_looks_at_the_first_k_only(name):
    measure, seen = MEASURES[name], views(1)
    ranks, targets = seen[RelevantRanks].ranks, seen[TargetRanks].ranks
    lower = {
        RelevantRanks: RelevantRanks(np.where((ranks < 3) | (ranks == NOWHERE), ranks, ranks + 1)),
        TargetRanks: TargetRanks(np.where(targets < 3, targets, targets + 1)),
        TopItems: TopItems(seen[TopItems].items[:, :3], N_ITEMS),
    }
    one, other = (measure.of(given[measure.wants], 3) for given in (seen, lower))
    assert np.array_equal(one, other, equal_nan=True)


@pytest.mark.parametrize("name", list(MEASURES))
def test_a_scenario_can_ask_for_a_measure_by_its_name(name):
    assert read_metric(f"{name}@5").measure is MEASURES[name]
