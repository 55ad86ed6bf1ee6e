"""Our side of GRU4Rec and BERT4Rec: central training on the first users of Beauty with up to 50 training items."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from worker import serve, timed

from gossiprec.compute.executors import central
from gossiprec.compute.executors.tensors import table_views
from gossiprec.compute.local_update import central_epochs
from gossiprec.emulation import prepare
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.models.feeds.base import Columns
from gossiprec.numerics.torch_setup import single_torch_thread
from gossiprec.scenario import load_scenario

USERS, LENGTH = 5000, 50
HELD_OUT, SAME_LENGTH = 2, 6
BATCHES = {"gru4rec": 256, "bert4rec": 256}
"""Sequences per batch: of GRU4Rec they have as many items to predict as a batch of 2,048 at RecBole, in the mean."""
MODELS: dict[str, dict[str, Any]] = {
    "gru4rec": {"name": "gru4rec", "dim": 64, "hidden": 128, "dropout": 0.3, "max_length": LENGTH},
    "bert4rec": {
        "name": "bert4rec", "dim": 64, "layers": 2, "heads": 2, "inner": 256, "dropout": 0.2, "max_length": LENGTH,
        "mask": 0.2, "last_alone": 0.0,
    },
}  # fmt: skip


class Ours:
    """The prepared run of a model."""

    def prepare(self, folder: str, data: str, threads: int, model: str, **_: Any) -> None:
        """Write the sequences and first weights that the peer reads."""
        own = Path(folder)
        with gzip.open(Path(data) / "amazon" / "Beauty.txt.gz", "rt") as lines:
            lists = (line.split()[1:] for line in lines)
            short = (items for items in lists if 3 <= len(items) <= LENGTH + HELD_OUT)
            chosen = list(itertools.islice(short, USERS))
        text = "".join(f"{user} {' '.join(items)}\n" for user, items in enumerate(chosen))
        (own / "sequences.txt").write_text(text)
        self._run = prepare(
            load_scenario(
                {
                    "name": model,
                    "dataset": {
                        "name": "file", "path": str(own / "sequences.txt"), "form": "lists",
                        "split": {"name": "leave_last_k", "test": 1, "validation": 1},
                    },
                    "model": MODELS[model],
                    "training": {"optimizer": "adam", "learning_rate": 0.001, "batch_size": BATCHES[model]},
                    "protocol": {"name": "central", "epochs": 1},
                    "evaluate": {"every": 1, "metrics": ["hr@10"]},
                    "executor": {"threads": threads},
                }
            )
        )  # fmt: skip
        self._name, self._update = model, 0
        assert isinstance(self._run.executor, central.CentralExecutor)
        self._executor, self._work = self._run.executor, self._run.executor.work
        self._first = self._weights_to_check()
        names = self._run.components.split.item_names
        assert names is not None
        weights: dict[str, Any] = {name: table.numpy() for name, table in self._first.items()}
        np.savez(own / "weights.npz", item_names=np.array(names), **weights)

    def check(self) -> dict[str, Any]:
        """Return the loss of the first weights without dropout, and sizes."""
        sizes = self._run.components.split.train.sizes
        facts = {
            "users": self._run.components.split.n_users,
            "items": self._run.components.split.n_items,
            "items_to_predict": int((sizes - 1).sum()),
        }
        return facts | {f"first_loss_of_{self._name}": self._loss()}

    def measure(self) -> dict[str, float]:
        """Return the seconds of an epoch, or per 1,000 sequences."""
        spent = timed(self._epoch)
        share = 1.0 if self._name == "gru4rec" else 1000 / self._run.components.split.n_users
        return {name: share * value for name, value in spent.items()}

    def _tables(self) -> dict[str, torch.Tensor]:
        return dict(table_views(self._work.layout, torch.from_numpy(self._work.arena.rows[0])))

    def _epoch(self) -> None:
        with single_torch_thread():
            self._executor._train(self._run.components.split.n_users, self._update)
        self._update += 1

    def _weights_to_check(self) -> dict[str, torch.Tensor]:
        """Return first weights with rows of items that are large enough to make losses differ, and without biases."""
        found = {name: table.clone() for name, table in self._tables().items()}
        found["items"] *= 25
        for name in ("input_biases", "recurrent_biases"):
            if name in found:
                found[name].zero_()  # RecBole's unit has none
        return found

    def _loss(self) -> float:
        """Return the mean loss: GRU4Rec's over all places, BERT4Rec's at the end of sequences of equal length."""
        work, model = self._work, self._work.model
        assert isinstance(model, SequenceModel)
        _, batches = next(
            central_epochs(work.feed, work.training, self._run.components.split.n_users, 0, work.seed)
        )
        chosen = list(batches) if self._name == "gru4rec" else [self._last_masked()]
        total, count = 0.0, 0
        with torch.no_grad():
            blocks = self._executor._blocks(self._first)
            for batch in chosen:
                short = model.without_padding(batch)
                samples = {
                    name: torch.from_numpy(np.asarray(column)).long() for name, column in short.items()
                }
                found = model.loss(blocks, {**samples, "weights": torch.ones(len(samples["user"]))})
                total, count = total + float(found) * len(short["places"]), count + len(short["places"])
        return total / count

    def _last_masked(self) -> Columns:
        """Return the sequences of `SAME_LENGTH` training items, the last one masked."""
        sequences = self._work.feed.sequences  # type: ignore[attr-defined]
        users = np.flatnonzero(sequences.sizes == SAME_LENGTH)
        known = np.stack([sequences[user] for user in users])
        gaps = np.full_like(known, -1)
        gaps[:, -1], known[:, -1] = known[:, -1], -1
        return {"user": users, "previous": known, "items": gaps}


if __name__ == "__main__":
    serve(Ours())
