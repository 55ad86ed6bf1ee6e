"""pfl-research on the samples that our side wrote: its federated averaging, with GMF as a torch model."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from worker import gmf_facts, serve, timed

ROUNDS = 3


class GMF(torch.nn.Module):
    """Score ``h . (u * v) + b``, with rows of all users and items."""

    def __init__(self, n_users: int, n_items: int) -> None:
        super().__init__()
        self.users = torch.nn.Parameter(torch.zeros(n_users, 8))
        self.items = torch.nn.Parameter(torch.zeros(n_items, 8))
        self.weight = torch.nn.Parameter(torch.zeros(8))
        self.bias = torch.nn.Parameter(torch.zeros(1))

    def loss(self, user: torch.Tensor, item: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        """Return the mean cross-entropy."""
        logits = (self.items[item] * (self.weight * self.users[user])).sum(-1) + self.bias
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, label)

    def metrics(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Return no metric."""
        return {}

    def take(self, row: torch.Tensor) -> None:
        """Take the numbers of a row: users, items, weight, bias."""
        with torch.no_grad():
            sizes = [part.numel() for part in self.parameters()]
            for part, values in zip(self.parameters(), torch.split(row, sizes), strict=True):
                part.copy_(values.view_as(part))


class Theirs:
    """The simulated backend and the algorithm of pfl-research."""

    def prepare(self, folder: str, **_: Any) -> None:
        """Make a data set per client from our samples."""
        from pfl.aggregate.simulate import SimulatedBackend
        from pfl.aggregate.weighting import WeightByDatapoints
        from pfl.data.federated_dataset import FederatedDataset
        from pfl.model.pytorch import PyTorchModel

        work = np.load(Path(folder) / "work.npz")
        sizes, self._rows = work["sizes"], torch.from_numpy(work["rows"])
        ends = np.cumsum(sizes)[:-1].tolist()
        users = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)).tensor_split(ends)
        items = torch.from_numpy(work["items"]).long().tensor_split(ends)
        labels = torch.from_numpy(work["labels"]).float().tensor_split(ends)
        self._data = list(zip(users, items, labels, strict=True))
        self._module = GMF(len(sizes), int(work["n_items"]))
        self._module.take(self._rows[0])
        self._model = PyTorchModel(
            self._module, torch.optim.SGD, torch.optim.SGD(self._module.parameters(), 1.0)
        )
        numbers = itertools.cycle(range(len(sizes)))
        clients = FederatedDataset.from_slices(dict(enumerate(self._data)), lambda: next(numbers))
        self._backend = SimulatedBackend(clients, None, postprocessors=[WeightByDatapoints()])

    def check(self) -> dict[str, Any]:
        """Return losses of our first models, and sizes."""
        losses = []
        for row, batch in zip(self._rows, self._data, strict=False):
            self._module.take(row)
            losses.append(float(self._module.loss(*batch).detach()))
        self._module.take(self._rows[0])
        sizes = [len(labels) for _, _, labels in self._data]
        return gmf_facts(sizes, sum(part.numel() for part in self._module.parameters()), losses)

    def measure(self) -> dict[str, float]:
        """Return the seconds per 1,000 local epochs."""
        spent = timed(self._rounds)
        return {name: value / ROUNDS / len(self._data) * 1000 for name, value in spent.items()}

    def _rounds(self) -> None:
        from pfl.algorithm.base import NNAlgorithmParams
        from pfl.algorithm.federated_averaging import FederatedAveraging
        from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams

        FederatedAveraging().run(
            algorithm_params=NNAlgorithmParams(ROUNDS, 10**9, len(self._data), 0),
            backend=self._backend,
            model=self._model,
            model_train_params=NNTrainHyperParams(
                local_learning_rate=0.1, local_num_epochs=1, local_batch_size=64
            ),
            model_eval_params=NNEvalHyperParams(local_batch_size=None),
        )


if __name__ == "__main__":
    serve(Theirs())
