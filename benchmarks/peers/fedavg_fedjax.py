"""FedJAX on the samples that our side wrote: its federated averaging of all clients, with GMF in jax.numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from worker import gmf_facts, serve, timed

ROUNDS = 3


class Theirs:
    """FedJAX's own algorithm, with the backend that it picks."""

    def prepare(self, folder: str, **_: Any) -> None:
        """Make a data set per client from our samples."""
        import fedjax
        import jax
        import jax.numpy as jnp

        work = np.load(Path(folder) / "work.npz")
        sizes, n_items, rows = work["sizes"], int(work["n_items"]), work["rows"]
        ends = np.cumsum(sizes)[:-1]
        users = np.split(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes), ends)
        items, labels = (np.split(work[name], ends) for name in ("items", "labels"))
        self._examples = [
            {"user": user, "item": item.astype(np.int32), "label": label.astype(np.float32)}
            for user, item, label in zip(users, items, labels, strict=True)
        ]
        self._clients = [
            (str(number).encode(), fedjax.ClientDataset(each), jax.random.PRNGKey(number))
            for number, each in enumerate(self._examples)
        ]

        def tables(row: Any) -> dict[str, Any]:
            cuts = np.cumsum([len(sizes) * 8, n_items * 8, 8])
            of_users, of_items, weight, bias = np.split(row, cuts)
            parts = {"users": of_users.reshape(-1, 8), "items": of_items.reshape(-1, 8), "weight": weight}
            return {name: jnp.asarray(part) for name, part in (parts | {"bias": bias}).items()}

        def loss(p: Any, batch: Any, _: Any = None) -> Any:
            mixed = p["weight"] * p["users"][batch["user"]]
            logits = (p["items"][batch["item"]] * mixed).sum(-1) + p["bias"]
            return jnp.mean(jax.nn.softplus(logits) - batch["label"] * logits)

        self._loss, self._tables = loss, [tables(row) for row in rows]
        self._sgd = fedjax.algorithms.fed_avg.federated_averaging(
            jax.grad(loss), fedjax.optimizers.sgd(0.1), fedjax.optimizers.sgd(1.0),
            fedjax.ShuffleRepeatBatchHParams(batch_size=64, num_epochs=1),
        )  # fmt: skip
        self._state = self._sgd.init(self._tables[0])
        self._block = jax.block_until_ready

    def check(self) -> dict[str, Any]:
        """Return losses of our first models, and sizes."""
        pairs = zip(self._tables, self._examples, strict=False)
        losses = [float(self._loss(tables, batch)) for tables, batch in pairs]
        sizes = [len(each["item"]) for each in self._examples]
        return gmf_facts(sizes, sum(part.size for part in self._tables[0].values()), losses)

    def measure(self) -> dict[str, float]:
        """Return the seconds per 1,000 local epochs."""
        spent = timed(self._rounds)
        return {name: value / ROUNDS / len(self._clients) * 1000 for name, value in spent.items()}

    def _rounds(self) -> None:
        for _ in range(ROUNDS):
            self._state, _ = self._sgd.apply(self._state, self._clients)
        self._block(self._state.params)


if __name__ == "__main__":
    serve(Theirs())
