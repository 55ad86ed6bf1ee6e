"""FRU: a run again with fewer local epochs, of which each update keeps the length that it had in the run.

References
----------
W. Yuan, H. Yin, F. Wu, S. Zhang, T. He, H. Wang, "Federated Unlearning for On-Device Recommendation", WSDM 2023 (arXiv
2210.10958), sections 3.2 and 3.3; it extends FedEraser (G. Liu et al., IWQoS 2021).

Notes
-----
Clients store each of their updates, reduced to the items of largest change (importance-based selection). After a
request, the coordinator starts again from its first version. In each round the same clients, without the forgotten
ones, train for fewer epochs from the unlearned version, and upload the new update and the stored one. The version
moves in the direction of the new aggregate by the length of the stored one; in the first round by the stored aggregate
itself, because no forgotten user has influenced the version from which it was made. User rows take the new training.

Choices that the paper leaves open: the length is that of all public numbers together; the stored aggregate is by the
run's own rule over what was stored; a round without a new update keeps the version; at least one local epoch is run.
The paper's negative sampling is a part of the run itself: the recommender ``semi-hard``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F32, I64
from gossiprec.compute.inbox_reducer import RoundAnswers
from gossiprec.emulation.unlearning import (
    UNLEARNERS,
    Forgotten,
    StoredUpdateOptions,
    StoresUpdates,
    UnlearningRequest,
)


class FRUOptions(StoredUpdateOptions):
    """Options of FRU."""

    epochs: Annotated[float, Field(gt=0, le=1)] = 0.1
    """local epochs of a round as a fraction of those of the run, at least one (the paper's lambda)"""


@UNLEARNERS.register("fru")
class FRU(StoresUpdates):
    """The run again with short training, of which each update keeps the length that it had (Yuan et al., WSDM 2023)."""

    Options = FRUOptions
    options: FRUOptions

    def __init__(self, options: FRUOptions) -> None:
        super().__init__(options)
        self._first: dict[int, F32] = {}
        self._lengths: dict[int, float] = {}

    def note_round(self, answers: RoundAnswers, removed: I64) -> None:
        """Store the length of the aggregate of those who stay, and the first aggregate."""
        stored = self.store(answers, removed)
        change = stored.change(stored.stays)
        self._lengths[answers.key] = float(np.linalg.norm(change.astype(np.float64)))
        if not self._first:
            self._first[answers.key] = change

    def revise(self, answers: RoundAnswers) -> F32:
        """Return the version after a round of unlearning."""
        if answers.key in self._first:
            return answers.published + self._first[answers.key]
        change = answers.aggregated.astype(np.float64) - answers.published
        length = float(np.linalg.norm(change))
        if not length:
            return answers.aggregated
        scale = self._lengths.get(answers.key, length) / length
        return (answers.published + scale * change).astype(np.float32)

    def forget(self, request: UnlearningRequest) -> Forgotten:
        """Return the models of the revised run."""
        training = request.without.training
        epochs = max(1, round(self.options.epochs * training.local_epochs))
        short = training.model_copy(update={"local_epochs": epochs})
        live = request.start(request.without.with_(training=short))
        live.prepared.seams.reducer.on_aggregate = self.revise
        found = Forgotten.by_run(live, live.finish())
        sent = found.sent_bytes + self.n_remaining_bytes
        return replace(found, sent_bytes=sent, stored_bytes=self.n_bytes)
