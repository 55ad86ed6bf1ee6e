"""Our side of LightGCN on Gowalla: central training of ``scenarios/papers/lightgcn/gowalla.yaml``."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from worker import serve, timed

from gossiprec.base.ragged import Ragged
from gossiprec.compute.executors import central
from gossiprec.compute.executors.tensors import table_views
from gossiprec.compute.local_update import central_epochs
from gossiprec.emulation import prepare
from gossiprec.models.feeds.base import Columns
from gossiprec.numerics.torch_setup import single_torch_thread
from gossiprec.scenario import load_scenario

SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "papers" / "lightgcn" / "gowalla.yaml"
CHECKED = 8
"""Batches whose losses are compared, before and after steps on them."""


class Ours:
    """The prepared run and the first batches of its first epoch."""

    def prepare(self, folder: str, data: str, threads: int, batches: int, **_: Any) -> None:
        """Load the data; write the files, rows and batches that the peer reads."""
        own, public = Path(folder), Path(data) / "gowalla-lightgcn"
        parts = [(public / f"{name}.txt.gz").read_bytes() for name in ("train", "valid")]
        (own / "train.txt.gz").write_bytes(b"".join(parts))
        files = (f"dataset.train={own / 'train.txt.gz'}", f"dataset.test={public / 'test.txt.gz'}")
        run = prepare(load_scenario(SCENARIO, [*files, f"executor.threads={threads}"]))
        assert isinstance(run.executor, central.CentralExecutor)
        self._run, self._executor, self._work = run, run.executor, run.executor.work
        self._update = 0
        drawn = self._draw()
        self._n_batches = -(-len(self._work.feed.positives.values) // 2048)
        self._batches = list(itertools.islice(drawn, batches))
        for name, lists in (("train", run.components.split.train), ("test", run.components.split.test)):
            _write_lists(own / f"{name}.txt", lists)
        columns: dict[str, Any] = {
            name: np.stack([batch[name] for batch in self._batches]) for name in self._batches[0]
        }
        rows = {f"rows_of_{name}": table.numpy() for name, table in self._tables().items()}
        np.savez(own / "work.npz", **(columns | rows))

    def check(self) -> dict[str, Any]:
        """Return losses before and after steps, and sizes."""
        before = self._losses()
        self._steps(self._batches[:CHECKED])
        return {
            "interactions": len(self._work.feed.positives.values),
            "batches_per_epoch": self._n_batches,
            "losses_of_8_batches": before,
            "losses_after_8_steps": self._losses(),
            "norms_after_8_steps": [float(torch.linalg.norm(table)) for table in self._tables().values()],
        }

    def measure(self) -> dict[str, float]:
        """Return the seconds of an epoch, from its draws and some of its steps."""
        drawn = timed(self._draw)
        steps = timed(lambda: self._steps(self._batches))
        share = self._n_batches / len(self._batches)
        return {name: drawn[name] + share * steps[name] for name in steps} | {"drawing": drawn["wall"]}

    def _draw(self) -> Any:
        work = self._work
        _, batches = next(
            central_epochs(
                work.feed, work.training, self._run.components.split.n_users, self._update, work.seed
            )
        )
        self._update += 1
        return batches

    def _tables(self) -> dict[str, torch.Tensor]:
        return dict(table_views(self._work.layout, torch.from_numpy(self._work.arena.rows[0])))

    def _losses(self) -> list[float]:
        with torch.no_grad(), single_torch_thread():
            loss = central._Loss(self._work, self._executor._graph, self._run.components.split.n_users, 0)
            blocks = self._executor._blocks(self._tables())
            return [float(loss.of(blocks, batch)) for batch in self._batches[:CHECKED]]

    def _steps(self, batches: list[Columns]) -> None:
        again = mock.patch.object(central, "central_epochs", return_value=[(0, batches)])
        with again, single_torch_thread():
            self._executor._train(self._run.components.split.n_users, 0)


def _write_lists(path: Path, lists: Ragged) -> None:
    """Write one line per user that has items, as the public code reads it; its stored graph belongs to the lists."""
    lines = (
        f"{user} {' '.join(map(str, lists[user].tolist()))}\n"
        for user in range(len(lists))
        if len(lists[user])
    )
    text = "".join(lines)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
        (path.parent / "s_pre_adj_mat.npz").unlink(missing_ok=True)


if __name__ == "__main__":
    serve(Ours())
