"""ClusterAttack: item rows are drawn together into a few clusters, so that their scores no longer differ.

References
----------
Y. Yu, Q. Liu, L. Wu, R. Yu, S. L. Yu, Z. Zhang, "Untargeted attack against federated recommendation systems via
poisonous item embeddings and the defense", AAAI 2023 (arXiv 2212.05399); published code: yflyl613/FedRec,
attacker/ClusterAttack.py.

Notes
-----
By the behaviour of the code. There, the length of each row's gradient is the mean of the rows of clients that the
attacker controls plus up to three standard deviations; a poisoner here has no data, so rows have a length from 1 to 1 +
`spread`, and ``scale: matched`` gives their median the length of a client's. There, the poisoners also train the other
weights honestly; here they do not change them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field, model_validator

from gossiprec.adversaries.poisoners import POISONERS, Poisoner
from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.options import Options
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.models import Layout
from gossiprec.rules.aggregators import ModelDelta

TOLERANCE, ITERATIONS = 1e-4, 100
"""K-means ends if the centres move less, or after as many iterations."""


class ClusterAttackOptions(Options):
    """Options of ClusterAttack."""

    clusters: int = Field(default=2, ge=1, le=10**6)
    """number of clusters at first"""
    most: int = Field(default=50, ge=1, le=10**6)
    """largest number of clusters"""
    patience: int = Field(default=100, ge=1, le=10**6)
    """surplus of rises over falls of the smoothed loss after which there are more clusters, or fewer the other way"""
    decay: float = Field(default=0.999, ge=0, lt=1)
    """decay rate of the smoothed loss"""
    spread: float = Field(default=3.0, ge=0)
    """range of the rows' lengths"""

    @model_validator(mode="after")
    def _within(self) -> ClusterAttackOptions:
        if self.clusters > self.most:
            raise ValueError(
                f"found clusters {self.clusters} above most {self.most}; lower clusters or raise most"
            )
        return self


@POISONERS.register("clusterattack")
class ClusterAttack(Poisoner):
    """A poisoner without targets that draws the rows of all items to the centres of their clusters.

    The loss is the sum of squared distances to the centres of k-means, divided by their number, which follows the loss.
    """

    Options = ClusterAttackOptions
    options: ClusterAttackOptions
    targeted = False
    needs_labels = False

    @classmethod
    def memory_numbers(cls, options: Any, layout: Layout, n_users: int) -> int:
        """Return 5: the clusters, versions since they changed, the average, the last smoothed loss, and the surplus."""
        return 5

    def gradient(self, sent: MessagePayload, push: PushContext) -> ModelDelta:
        """Return the direction from each row's centre, with a random length."""
        draw = push.generator("poison")
        if not push.memory[0]:
            push.memory[0] = self.options.clusters
        clusters = min(int(push.memory[0]), len(sent.items))
        centers, label = k_means(sent.items, clusters, draw)
        away = 2.0 / clusters * (sent.items - centers[label])
        self._adapt(push.memory, float(np.square(sent.items - centers[label]).sum()) / clusters)
        norms = np.linalg.norm(away, axis=1)
        length = 1.0 + self.options.spread * draw.uniform(size=len(norms))
        scale = np.divide(length, norms, out=np.zeros_like(norms), where=norms > 0)
        items = np.arange(len(norms), dtype=np.int32)
        rows = (scale[:, None] * away).astype(np.float32)
        return ModelDelta(items, rows, np.zeros_like(sent.shared))

    def _adapt(self, memory: F32, loss: float) -> None:
        """Follow the smoothed loss with the number of clusters."""
        options, (clusters, count, average, last, surplus) = self.options, memory.tolist()
        average = options.decay * average + (1 - options.decay) * loss
        smooth = average / (1 - options.decay ** (count + 1))
        surplus += 0 if not count else 1 if smooth > last else -1
        memory[:] = clusters, count + 1, average, smooth, surplus
        if abs(surplus) >= options.patience:
            step = np.sqrt(options.most - clusters) if surplus > 0 else -np.sqrt(clusters - 1)
            memory[:] = min(max(round(clusters + step), 1), options.most), 0, 0, 0, 0


def k_means(rows: F32, clusters: int, draw: np.random.Generator) -> tuple[F64, I64]:
    """Return the centres, from random rows, and the centre of each row; an empty cluster keeps its centre."""
    points = rows.astype(np.float64)
    centers = points[draw.choice(len(points), clusters, replace=False)]
    for _ in range(ITERATIONS):
        squares = np.square(centers).sum(axis=1) - 2 * points @ centers.T
        label: I64 = np.argmin(squares, axis=1)
        sizes = np.bincount(label, minlength=clusters)
        total = np.zeros_like(centers)
        np.add.at(total, label, points)
        moved = np.where(sizes[:, None] > 0, total / np.maximum(sizes, 1)[:, None], centers)
        shift = float(np.sqrt(np.square(moved - centers).sum()))
        centers = moved
        if shift < TOLERANCE:
            break
    return centers, label
