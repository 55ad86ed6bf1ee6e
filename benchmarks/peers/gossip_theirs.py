"""gossipy on the samples that our side wrote: its simulator, nodes and torch handler, with GMF as a torch model."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import torch
from worker import gmf_facts, serve, timed

ROUNDS, STEPS_PER_ROUND = 1, 100
"""A round of 100 time steps, as in gossipy's own example of recommendation."""


class Theirs:
    """A simulation with a node per user; each node pushes its model once per round."""

    def prepare(self, folder: str, source: str, **_: Any) -> None:
        """Make the nodes with our samples."""
        sys.path.insert(0, source)
        sys.modules["torchvision"] = types.ModuleType("torchvision")  # read only by its image data sets
        from gossipy.core import AntiEntropyProtocol, ConstantDelay, CreateModelMode, StaticP2PNetwork
        from gossipy.data import DataDispatcher
        from gossipy.model import TorchModel
        from gossipy.model.handler import TorchModelHandler
        from gossipy.node import GossipNode
        from gossipy.simul import GossipSimulator

        work = np.load(Path(folder) / "work.npz")
        sizes, n_items = work["sizes"], int(work["n_items"])
        ends = np.cumsum(sizes)[:-1]
        items, labels = (np.split(work[name], ends) for name in ("items", "labels"))
        data = [
            (torch.from_numpy(item).long(), torch.from_numpy(label).float())
            for item, label in zip(items, labels, strict=True)
        ]

        class GMF(TorchModel):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.user = torch.nn.Parameter(torch.zeros(8))
                self.items = torch.nn.Parameter(torch.zeros(n_items, 8))
                self.out = torch.nn.Linear(8, 1)

            def init_weights(self) -> None:
                torch.nn.init.normal_(self.user, std=0.01)
                torch.nn.init.normal_(self.items, std=0.01)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                logits: torch.Tensor = self.out(self.items[x] * self.user)[:, 0]
                return logits

        class Data(DataDispatcher):  # type: ignore[misc]
            def __init__(self) -> None:
                pass

            def __getitem__(self, node: int) -> Any:
                return data[node], None

            def size(self) -> int:
                return len(data)

            def has_test(self) -> bool:
                return False

        handler = TorchModelHandler(
            GMF(), torch.optim.Adam, {"lr": 0.01}, torch.nn.functional.binary_cross_entropy_with_logits,
            local_epochs=1, batch_size=64, create_model_mode=CreateModelMode.MERGE_UPDATE,
        )  # fmt: skip
        network = StaticP2PNetwork(len(data))
        nodes = GossipNode.generate(Data(), network, handler, STEPS_PER_ROUND, sync=True)
        self._simulator = GossipSimulator(
            nodes, Data(), STEPS_PER_ROUND, AntiEntropyProtocol.PUSH, delay=ConstantDelay(0)
        )
        self._handler, self._data, self._rows = handler, data, work["rows"]
        self._updates = 0
        passes = TorchModelHandler._update

        def counted(handler: Any, data: Any) -> None:
            self._updates += 1
            passes(handler, data)

        TorchModelHandler._update = counted
        self._simulator.init_nodes()

    def check(self) -> dict[str, Any]:
        """Return losses of our first models, and sizes."""
        model, losses = self._handler.model, []
        for row, (items, labels) in zip(torch.from_numpy(self._rows), self._data, strict=False):
            with torch.no_grad():
                size = model.items.numel()
                model.user.copy_(row[:8])
                model.items.copy_(row[8 : 8 + size].view_as(model.items))
                model.out.weight.copy_(row[8 + size : 16 + size][None])
                model.out.bias.copy_(row[16 + size :])
                losses.append(float(self._handler.criterion(model(items), labels)))
        return gmf_facts([len(labels) for _, labels in self._data], model.get_size(), losses)

    def measure(self) -> dict[str, float]:
        """Return the seconds per 1,000 local epochs."""
        before = self._updates
        spent = timed(lambda: self._simulator.start(n_rounds=ROUNDS))
        return {name: 1000 * value / (self._updates - before) for name, value in spent.items()}


if __name__ == "__main__":
    serve(Theirs())
