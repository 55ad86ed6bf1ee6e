"""Data from which no user, or not every user, can train: a message or a run, in every protocol."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import DataError
from gossiprec.base.ragged import Ragged
from gossiprec.compute.local_update import TrainingSettings, central_epochs
from gossiprec.emulation import simulate
from gossiprec.models.feeds import PointwiseFeed
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first

PROTOCOLS = {
    "gossip": {"name": "rand-gossip", "fanout": 2, "view": {"size": 3}, "wakes": 3},
    "gossip-receive": {
        "name": "rand-gossip", "fanout": 2, "view": {"size": 3}, "wakes": 3, "train_on": "receive",
    },
    "star": {"name": "fedavg", "rounds": 3},
    "clients": {"name": "fedavg", "rounds": 3, "client_model": "none"},
    "central": {"name": "central", "epochs": 3},
}  # fmt: skip


def written(folder, lengths):
    """Return the dataset section of a file in which users have so many items, one after the other."""
    lines = ["user,item,time"]
    for user, length in enumerate(lengths):
        lines += [f"u{user},i{(3 * user + k) % 17},{1000 + k}" for k in range(length)]
    path = folder / "data.csv"
    path.write_text("\n".join(lines) + "\n")
    return {"name": "file", "path": str(path), "split": {"name": "leave_last_k", "test": 1}}


def run(folder, lengths, protocol, **training):
    model = {"name": "gru4rec", "dim": 8, **({"loss": "sampled"} if protocol == "clients" else {})}
    sections = {"observers": [], "evaluate": {"every": 1, "metrics": ["recall@5"]}, "model": model}
    dataset = written(folder, lengths)
    return simulate(
        tiny(**sections, dataset=dataset, protocol=PROTOCOLS[protocol], training=training), out=folder / "run"
    )


@pytest.mark.parametrize("batch_size", ["full", 2])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_data_from_which_no_user_can_train_are_refused(tmp_path, protocol, batch_size):
    with pytest.raises(DataError, match=r"^data: no user has a training sample for the model gru4rec"):
        run(tmp_path, [2] * 12, protocol, batch_size=batch_size)


@pytest.mark.parametrize("batch_size", slow_except_first(["full", 2]))
@pytest.mark.parametrize("protocol", slow_except_first(PROTOCOLS))
@pytest.mark.cases(1)
def test_users_who_cannot_train_take_part_all_the_same(tmp_path, protocol, batch_size):
    found = run(tmp_path, [2] * 9 + [6] * 3, protocol, batch_size=batch_size)
    assert found.status == "complete"
    assert 0 <= found.summary["utility"]["recall@5"] <= 1


def test_an_epoch_without_samples_has_no_batch():
    feed = PointwiseFeed(Ragged.from_sizes(np.zeros(3, np.int64), np.zeros(0, np.int32)), 5)
    for batch_size in (None, 4):
        settings = TrainingSettings(batch_size=batch_size, local_epochs=2)
        found = [(epoch, list(batches)) for epoch, batches in central_epochs(feed, settings, 3, 1, 1)]
        assert found == [(2, []), (3, [])]
