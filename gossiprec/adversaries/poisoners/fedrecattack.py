"""FedRecAttack: targets are trained above the border of the lists of users, whom a few known interactions reveal.

References
----------
D. Rong, S. Ye, R. Zhao, H. N. Yuen, J. Chen, Q. He, "FedRecAttack: model poisoning attack to federated
recommendation", ICDE 2022 (arXiv 2204.01499); published code: rdz98/FedRecAttack, Attack/FedRecAttack.

Notes
-----
There the poisoners share one centre, which trains its users at every version and divides one gradient among the
poisoners of a slice. Here each poisoner has a centre of its own, which trains at each of its pushes (`passes`
makes up for versions that it did not see), and sends the whole gradient, which `clip` bounds. No noise is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from gossiprec.adversaries.poisoners import POISONERS, Poisoner, draw_user_rows, item_gradient, leaf_tensors
from gossiprec.base.arrays import F32, I32, I64, Bools
from gossiprec.base.options import Options
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.models import Layout
from gossiprec.rules.aggregators import ModelDelta

if TYPE_CHECKING:  # a scenario can be read without torch
    from torch import Tensor

BETAS, EPS = (0.9, 0.999), 1e-8
"""Constants of Adam."""


class FedRecAttackOptions(Options):
    """Options of FedRecAttack."""

    knowledge: float = Field(default=0.01, gt=0, lt=1)
    """xi: fraction of each user's training items that the poisoners know, rounded up"""
    items: int = Field(default=60, ge=1, le=10**6)
    """kappa: largest number of items in a message; all but the targets are drawn once, by the gradient's norms"""
    passes: int = Field(default=1, ge=0, le=10_000)
    """passes over the known interactions at each push"""
    rate: float = Field(default=0.01, gt=0)
    """learning rate of Adam on the users' rows"""
    batch: int = Field(default=256, ge=1, le=10**6)
    """users per step"""
    candidates: int = Field(default=10, ge=1, le=10**6)
    """length of the lists; the last item competes with the first target that the user is not known to have, the one
    before with the second"""
    std: float = Field(default=0.01, gt=0)
    """standard deviation of the normal distribution of the initial rows"""


@POISONERS.register("fedrecattack")
class FedRecAttack(Poisoner):
    """A poisoner that approximates all users' rows by the interactions that it knows, and promotes targets to them.

    The loss is the sum over users and targets that they are not known to have of ``g(s_border - s_target)``;
    ``g(x)`` is x if x > 0, else ``exp(x) - 1``; scores s are logits, and the border is an item on the user's list.
    To demote a target, the difference changes its sign.
    """

    Options = FedRecAttackOptions
    options: FedRecAttackOptions
    needs_labels = False
    knows = frozenset({"interactions"})

    @classmethod
    def memory_numbers(cls, options: Any, layout: Layout, n_users: int) -> int:
        """Return the steps so far, the count of chosen items and these, and the users' rows with Adam's moments."""
        return 2 + int(options.items) + 3 * n_users * layout.user_width

    def gradient(self, sent: MessagePayload, push: PushContext) -> ModelDelta:
        """Return the gradient of the chosen items' rows and of the shared weights."""
        import torch

        known, layout = self._known, self.context.formula.layout
        draw, head = push.generator("poison"), push.memory[: 2 + self.options.items]
        state = push.memory[len(head) :].reshape(3, len(known), layout.user_width)
        if not state.any():
            state[0] = draw_user_rows(draw, len(known), layout, self.options.std)
        for _ in range(self.options.passes):
            self._train_users(sent, state, head, draw)
        targets, users = self.context.targets, torch.from_numpy(state[0].copy())
        who, which = np.nonzero(~known[:, targets])
        border = self._borders(sent, users, who)
        items = np.union1d(targets, border).astype(np.int32)
        rows, shared = leaf_tensors(sent, items)
        score = self.context.formula.pair_scores
        ours, theirs = (
            score(users[who], rows[np.searchsorted(items, places)], shared)
            for places in (targets[which], border)
        )
        lead = self.context.sign * (theirs - ours)
        found = item_gradient(torch.where(lead > 0, lead, torch.expm1(lead)).sum(), items, rows, shared)
        kept = np.isin(items, self._chosen(found, head, draw))
        return ModelDelta(items[kept], found.rows[kept], found.shared)

    @property
    def _known(self) -> Bools:
        """Whether each user is known to have each item, shape (n_users, n_items)."""
        interactions = self.context.interactions
        assert interactions is not None, "knows declares interactions"
        found = np.zeros((len(interactions), self.context.formula.layout.n_items), np.bool_)
        found[interactions.row_of_each_value, interactions.values] = True
        return found

    def _train_users(self, sent: MessagePayload, state: F32, head: F32, draw: np.random.Generator) -> None:
        """Train the users' rows for one pass: each known item above a drawn one that the user is not known to have."""
        import torch
        from torch.nn.functional import softplus

        interactions, score = self.context.interactions, self.context.formula.pair_scores
        assert interactions is not None
        who, positive = interactions.row_of_each_value, interactions.values
        negative = _unknown(draw, who, self._known)
        place = np.empty(len(interactions), np.int64)  # of each user in a random order
        place[draw.permutation(len(place))] = np.arange(len(place))
        items, shared = torch.from_numpy(sent.items), torch.from_numpy(sent.shared)
        for low in range(0, len(place), self.options.batch):
            some = np.flatnonzero((place[who] >= low) & (place[who] < low + self.options.batch))
            users = torch.from_numpy(state[0].copy()).requires_grad_()
            of_users = users[who[some]]
            lead = score(of_users, items[positive[some]], shared) - score(
                of_users, items[negative[some]], shared
            )
            (slope,) = torch.autograd.grad(softplus(-lead).sum(), users)
            head[0] += 1
            adam_step(state, slope.numpy(), int(head[0]), self.options.rate)

    def _borders(self, sent: MessagePayload, users: Tensor, who: I64) -> I64:
        """Return the item on a user's list that each target competes with, shape (n,).

        Parameters
        ----------
        sent : MessagePayload
        users : Tensor, shape (n_users, user_width)
        who : ndarray of int64, shape (n,)
            The user of each target, ascending. Its first target has the last place of its list, the second the place
            before, and all further ones share the first place.
        """
        import torch

        with torch.no_grad():
            rows, shared = torch.from_numpy(sent.items), torch.from_numpy(sent.shared)
            scores = self.context.formula.scores(users, rows, shared).numpy().copy()
        scores[self._known] = scores[:, self.context.targets] = -np.inf
        count = min(self.options.candidates, scores.shape[1] - 1)
        best = np.argpartition(-scores, count, axis=1)[:, :count]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
        ranked = np.take_along_axis(best, order, axis=1)
        taken = np.arange(len(who)) - np.searchsorted(who, who)  # by earlier targets of the same user
        return ranked[who, np.maximum(count - 1 - taken, 0)]

    def _chosen(self, found: ModelDelta, head: F32, draw: np.random.Generator) -> I32:
        """Return the items of the node's messages, which its first gradient decides."""
        targets = self.context.targets
        if not head[1]:
            norms = np.linalg.norm(found.rows.astype(np.float64), axis=1)
            norms[np.isin(found.items, targets)] = 0.0
            count = min(self.options.items - len(targets), int(np.count_nonzero(norms)))
            chosen = targets[: self.options.items]
            if count > 0:
                others = draw.choice(found.items, count, replace=False, p=norms / norms.sum())
                chosen = np.concatenate([targets, others])
            head[1], head[2 : 2 + len(chosen)] = len(chosen), chosen
        return head[2 : 2 + int(head[1])].astype(np.int32)


def _unknown(draw: np.random.Generator, who: I64, known: Bools) -> I64:
    """Return for each entry of `who` a random item that this user is not known to have, or any if all are known."""
    found = draw.integers(known.shape[1], size=len(who))
    wrong = known[who, found] & ~known[who].all(axis=1)
    while wrong.any():
        found[wrong] = draw.integers(known.shape[1], size=np.count_nonzero(wrong))
        wrong &= known[who, found]
    return found


def adam_step(state: F32, slope: F32, step: int, rate: float) -> None:
    """Take one step of Adam; `state` is values, first and second moments, shape (3, *slope.shape)."""
    values, first, second = state
    first += np.float32(1 - BETAS[0]) * (slope - first)
    second += np.float32(1 - BETAS[1]) * (slope * slope - second)
    scale = np.sqrt(second / np.float32(1 - BETAS[1] ** step)) + np.float32(EPS)
    values -= np.float32(rate / (1 - BETAS[0] ** step)) * first / scale
