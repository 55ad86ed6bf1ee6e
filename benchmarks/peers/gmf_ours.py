"""Our side of gossip and of FedAvg: GMF on MovieLens-100k, of each user all interactions but the last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from worker import gmf_facts, serve, timed

from gossiprec import simulate
from gossiprec.compute.executors.tensors import table_views, to_tensor
from gossiprec.emulation import prepare
from gossiprec.scenario import Scenario, load_scenario

SIDES: dict[str, dict[str, Any]] = {
    "gossip": {
        "training": {"optimizer": "adam", "learning_rate": 0.01},
        "protocol": {
            "name": "rand-gossip", "fanout": 1, "train_on": "receive", "merge": "mean",
            "wake": {"law": "exponential", "mean": 1.0}, "view": {"size": 1, "refresh": {"every": 1}}, "wakes": 150,
        },
    },
    "fedavg": {
        "training": {"optimizer": "sgd", "learning_rate": 0.1},
        "protocol": {
            "name": "fedavg", "participation": 1.0, "user_table": "averaged", "merge": "samples", "rounds": 20,
        },
    },
}  # fmt: skip
"""Optimizer and protocol by name."""
CHECKED = 8
"""Users whose loss is compared."""


class Ours:
    """A whole run, from loading its data to its summary."""

    def prepare(self, folder: str, data: str, threads: int, protocol: str, **_: Any) -> None:
        """Write the samples and first rows that the peer reads."""
        self._scenario, self._folder = self._load(Path(data) / "ml-100k", protocol, threads), Path(folder)
        run = prepare(self._scenario)
        work = run.executor.work
        users = range(run.components.split.n_users)
        samples = [work.feed.samples(user, update=0, negatives=1, seed=work.seed) for user in users]
        rows = [torch.from_numpy(work.arena.rows[min(user, len(work.arena.rows) - 1)]) for user in users]
        tables = [table_views(work.layout, row) for row in rows]
        self._sizes = [len(each["items"]) for each in samples]
        self._losses = []
        for user in users[:CHECKED]:
            batch = {name: to_tensor(column) for name, column in samples[user].items()}
            own = torch.tensor([user if len(tables[user]["users"]) > 1 else 0])
            batch |= {"user": own, "weights": torch.ones(self._sizes[user])}
            self._losses.append(float(work.model.loss(work.layout.blocks_by_name(tables[user]), batch)))
        self._parameters = work.layout.size
        np.savez(
            self._folder / "work.npz",
            sizes=np.array(self._sizes),
            items=np.concatenate([each["items"] for each in samples]),
            labels=np.concatenate([each["labels"] for each in samples]),
            rows=np.stack([row.numpy()[: work.layout.size] for row in rows[:CHECKED]]),
            n_items=run.components.split.n_items,
        )

    def check(self) -> dict[str, Any]:
        """Return losses of the first models, and sizes."""
        return gmf_facts(self._sizes, self._parameters, self._losses)

    def measure(self) -> dict[str, float]:
        """Return the seconds per 1,000 local epochs."""
        found: list[Any] = []
        spent = timed(
            lambda: found.append(simulate(self._scenario, out=self._folder / "run", overwrite=True))
        )
        return {name: 1000 * value / found[0].summary["node_updates"] for name, value in spent.items()}

    @staticmethod
    def _load(data: Path, protocol: str, threads: int) -> Scenario:
        chosen = SIDES[protocol]
        rounds = chosen["protocol"].get("wakes") or chosen["protocol"]["rounds"]
        return load_scenario(
            {
                "name": protocol,
                "plots": False,
                "dataset": {
                    "name": "movielens-100k", "path": str(data), "split": {"name": "leave_last_k", "test": 1},
                },
                "model": {"name": "gmf", "dim": 8},
                "training": {"batch_size": 64, "local_epochs": 1, "negatives": 1, **chosen["training"]},
                "protocol": chosen["protocol"],
                "evaluate": {"every": rounds, "metrics": ["hr@20"]},
                "executor": {"name": "fused", "threads": threads},
            }
        )  # fmt: skip


if __name__ == "__main__":
    serve(Ours())
