"""FLTrust: models count by how far they move as the coordinator's own update on public data does.

References
----------
X. Cao, M. Fang, J. Liu, N. Z. Gong, "FLTrust: Byzantine-robust federated learning via trust bootstrapping", NDSS 2021,
algorithm 2 with its learning rate 1. The paper leaves open what happens if no model is trusted: here the version stays.
There the root data are samples of the task; here they are the interactions of public users, on which the coordinator
trains as a client does, user by user, and takes the mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gossiprec.base.arrays import F32, F64
from gossiprec.base.options import Options
from gossiprec.rules import ReportsFindings, RootDataOptions, UsesRootData
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator, Inbox


class FLTrustOptions(Options):
    """Options of FLTrust."""

    root: RootDataOptions = RootDataOptions()
    """the interactions that the coordinator knows"""


@AGGREGATORS.register("fltrust")
class FLTrust(UsesRootData, ReportsFindings, Aggregator):
    """The own model plus the mean of the models' differences from it, weighted by trust and scaled to the own update.

    A model's trust is the cosine between its difference and the coordinator's own update on root data, or 0 if it is
    negative. Weights are not used. A non-finite model is left out; an inbox of any size is large enough.
    """

    Options = FLTrustOptions
    options: FLTrustOptions
    checkpointed = ("user_rows", "n_updates", "trust")
    measures = ("mean_trust", "untrusted_share")

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._user_rows: F32 | None = None
        self._n_updates = 0
        self._trust: F64 = np.zeros(0)

    def breakdown(self, n: int) -> int:
        """Return all models: the result is no further from the own model than the own update."""
        return n

    def reduce(self, own: F32, inbox: Inbox) -> F32:
        """Return the trusted mean, or the own model if no model is trusted."""
        rows = self.root.first_rows if self._user_rows is None else self._user_rows
        trained, self._user_rows = self.root.train(own, rows, self._n_updates)
        self._n_updates += 1
        step = trained.astype(np.float64) - own
        norm = float(np.linalg.norm(step))
        norms, cosines = self._compare(own, step, norm, inbox)
        self._trust = np.maximum(cosines, 0.0)
        scale = np.divide(self._trust * norm, norms, out=np.zeros_like(norms), where=self._trust > 0)
        total, out = self._trust.sum(), own.copy()
        if total > 0:
            trusted = self._trust > 0
            for columns, models in inbox.received():
                difference = models[trusted].astype(np.float64) - own[columns]
                out[columns] += (scale[trusted] / total) @ difference
        return out

    def _compare(self, own: F32, step: F64, norm: float, inbox: Inbox) -> tuple[F64, F64]:
        """Return the norm of each model's difference, and its cosine with the own update; 0 if it has none."""
        squares, products = np.zeros(len(inbox)), np.zeros(len(inbox))
        with np.errstate(invalid="ignore", over="ignore"):
            for columns, models in inbox.received():
                difference = models.astype(np.float64) - own[columns]
                squares += np.square(difference).sum(axis=1)
                products += difference @ step[columns]
            norms = np.sqrt(squares)
            cosines = products / (norms * norm)
        return norms, np.where(np.isfinite(cosines), cosines, 0.0)

    def findings(self) -> dict[str, float]:
        """Return the mean trust of the last inbox's models, and the share of models without trust."""
        if not len(self._trust):
            return super().findings()
        return {"mean_trust": float(self._trust.mean()), "untrusted_share": float((self._trust == 0).mean())}
