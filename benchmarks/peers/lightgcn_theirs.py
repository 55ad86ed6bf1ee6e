"""The public LightGCN code for torch on the files, first rows and batches that our side wrote."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from worker import serve, timed

CHECKED = 8


class Theirs:
    """The public model and its optimizer."""

    def prepare(self, folder: str, source: str, batches: int, **_: Any) -> None:
        """Load the data with the public loader, and take our first rows."""
        sys.argv = [sys.argv[0], "--tensorboard", "0", "--layer", "3"]
        sys.path[:0] = [str(Path(source) / "code")]
        import dataloader
        import model
        import numpy as np
        import torch
        import utils
        import world

        utils.set_seed(1)
        self._world, self._utils, self._torch = world, utils, torch
        self._data = dataloader.Loader(path=folder)
        self._model = model.LightGCN(world.config, self._data)
        self._loss = utils.BPRLoss(self._model, world.config)
        work = np.load(Path(folder) / "work.npz")
        with torch.no_grad():
            self._model.embedding_user.weight.copy_(torch.from_numpy(work["rows_of_users"]))
            self._model.embedding_item.weight.copy_(torch.from_numpy(work["rows_of_items"]))
        columns = [torch.from_numpy(work[name]).long() for name in ("user", "items", "negatives")]
        self._batches = list(zip(*columns, strict=True))

    def check(self) -> dict[str, Any]:
        """Return losses before and after steps, and sizes."""
        before = self._losses()
        self._steps(self._batches[:CHECKED])
        weights = (self._model.embedding_user.weight, self._model.embedding_item.weight)
        return {
            "interactions": int(self._data.trainDataSize),
            "losses_of_8_batches": before,
            "losses_after_8_steps": self._losses(),
            "norms_after_8_steps": [float(self._torch.linalg.norm(each.detach())) for each in weights],
            "batches_per_epoch": -(-int(self._data.trainDataSize) // self._world.config["bpr_batch_size"]),
        }

    def measure(self) -> dict[str, float]:
        """Return the seconds of an epoch, from its draws and some of its steps."""
        drawn = timed(self._draw)
        steps = timed(lambda: self._steps(self._batches))
        share = self._n_batches / len(self._batches)
        return {name: drawn[name] + share * steps[name] for name in steps} | {"drawing": drawn["wall"]}

    def _draw(self) -> None:
        drawn = self._utils.UniformSample_original(self._data)
        columns = [self._torch.Tensor(drawn[:, each]).long() for each in range(3)]
        self._utils.shuffle(*columns)
        self._n_batches = len(drawn) // self._world.config["bpr_batch_size"] + 1

    def _losses(self) -> list[float]:
        found = []
        for batch in self._batches[:CHECKED]:
            with self._torch.no_grad():
                loss, squares = self._model.bpr_loss(*batch)
            found.append(float(loss + self._world.config["decay"] * squares))
        return found

    def _steps(self, batches: list[Any]) -> None:
        self._model.train()
        for users, good, bad in batches:
            self._loss.stageOne(users, good, bad)


if __name__ == "__main__":
    serve(Theirs())
