"""CFRU: the forgotten users' updates are subtracted from the last version, with an estimate of what followed from them.

References
----------
T. T. Huynh, T. B. Nguyen, T. T. Nguyen, P. L. Nguyen, H. Yin, Q. V. H. Nguyen, T. T. Nguyen, "Certified Unlearning for
Federated Recommendation", ACM TOIS 2025 (doi 10.1145/3706419). Its text was not available: the formula follows the
abstract and the authors' public code (github.com/thanhtrunghuynh93/CFRU).

Notes
-----
Let e be the difference of the unlearned version and the run's. In a round, the aggregate without the forgotten users'
updates differs from that with them by d, and the others would have trained from another version: by a Lipschitz
condition their updates change by ``-alpha e``. So ``e <- (1 - alpha beta) e + d``. Here beta is the total weight with
which the rule applies the others' updates (1 for a mean). The last version plus ``theta e`` is the result: nothing is
trained and nothing is sent. Users' rows stay as they are.

Differences: the code multiplies weights by 1 / (all clients' samples), and the weight of a removed update goes to the
version before it, so that d is minus the removed update; here d is by the run's own rule, as in the counterfactual,
in which the others' weights grow. The code applies the selection of items to what clients upload, so that it changes
the training; here it reduces only what the coordinator stores. No noise is added, so nothing is certified here.
"""

from __future__ import annotations

import time
from typing import Annotated

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F64, I64
from gossiprec.compute.inbox_reducer import RoundAnswers
from gossiprec.emulation.unlearning import (
    UNLEARNERS,
    FinalModels,
    Forgotten,
    StoredUpdateOptions,
    StoresUpdates,
    UnlearningRequest,
)
from gossiprec.rules.aggregators import RoundSums


class CFRUOptions(StoredUpdateOptions):
    """Options of CFRU."""

    alpha: Annotated[float, Field(ge=0, le=2)] = 0.5
    """how much clients' updates shrink per difference of the version that they train (a Lipschitz constant)"""
    theta: Annotated[float, Field(ge=0, le=10)] = 1.0
    """factor of the whole correction"""


@UNLEARNERS.register("cfru")
class CFRU(StoresUpdates):
    """Subtraction of the forgotten users' updates, with an estimate of their effects (Huynh et al., TOIS 2025)."""

    Options = CFRUOptions
    options: CFRUOptions

    def __init__(self, options: CFRUOptions) -> None:
        super().__init__(options)
        self._error: F64 = np.zeros(0)
        self._seconds = 0.0

    def note_round(self, answers: RoundAnswers, removed: I64) -> None:
        """Carry the difference of the versions on by one round."""
        stored = self.store(answers, removed)
        begin = time.perf_counter()
        stays, beta = stored.stays, 0.0
        with_all, without = stored.change(np.ones(len(stays), np.bool_)), stored.change(stays)
        if stays.any():
            mass = float(stored.weights[stays].sum())
            one, whole = np.zeros(1, np.float32), np.array([mass])
            beta = float(stored.rule.reduce_sums(one, RoundSums(whole, mass, whole))[0])
        error = self._error if len(self._error) else np.zeros(len(without))
        self._error = (1.0 - self.options.alpha * beta) * error + (without.astype(np.float64) - with_all)
        self._seconds += time.perf_counter() - begin

    def forget(self, request: UnlearningRequest) -> Forgotten:
        """Return the corrected version."""
        prepared = request.models.prepared
        handle = prepared.planner.current_row(prepared.components.protocol.n_users)
        version = prepared.executor.store.merged_columns(handle)
        if len(self._error):
            version = (version + self.options.theta * self._error).astype(np.float32)
        models = FinalModels(request.models.run, version)
        return Forgotten(models, stored_bytes=self.n_bytes, seconds=self._seconds)
