"""Models that compute a state of the user, and score items by its dot product with their rows.

References
----------
Softmax of the positive against sampled candidates: specification, section 6 (FedCL, eq. 1); against all items:
Hidasi et al., "Session-based recommendations with recurrent neural networks", ICLR 2016, and the RecBole library.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.models.base import Model
from gossiprec.models.base.parameter_blocks import TensorMap
from gossiprec.models.feeds.base import Columns

if TYPE_CHECKING:
    from torch import Tensor


class SequenceOptions(Options):
    """The options of all sequence models."""

    dim: int = Field(default=64, ge=1, le=1024)
    """embedding size d"""
    init_std: float = Field(default=0.02, gt=0)
    """standard deviation of the initial item rows"""
    loss: Literal["all", "sampled"] = "all"
    """items that a positive is contrasted with: all items, or the sampled negatives of its list (training.negatives)
"""
    in_batch: bool = True
    """for `sampled`: also contrast a positive with the other items of the list"""


class SequenceModel(Model):
    """A model that scores an item by the dot product of the item's row and a state of the user.

    Its samples are lists (:class:`gossiprec.models.feeds.ListFeed`): places with an item to learn, -1 at others. It has
    the block ``items`` with one row per item, which may also be its input.
    """

    options: SequenceOptions
    has_sample_gradients = False  # the mean is over all places, of which lists have different numbers
    predicts_probabilities = False

    @abstractmethod
    def states(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the state that scores the item at each place, shape (n, length, d)."""

    @abstractmethod
    def state_after(self, p: TensorMap, history: Tensor, user: Tensor) -> Tensor:
        """Return the state of some users after their whole history, shape (n, d).

        Parameters
        ----------
        p : mapping of str to Tensor
        history : Tensor of int64, shape (n, length)
            In order of time, padded with -1.
        user : Tensor of int64, shape (n,) or (1,)
            Rows of the user table, for models with user rows.
        """

    @property
    def needs_all_items(self) -> bool:
        """Whether its loss uses all items, so that a client with only some rows cannot compute it."""
        return self.options.loss == "all"

    def score(self, p: TensorMap, query: TensorMap) -> Tensor:
        """Return dot products after the ``history``, after the ``previous`` item of each, or after nothing."""
        import torch

        rows, user = p["items"][query["items"]], query["user"]
        if "history" in query:
            return rows @ self.state_after(p, query["history"][None], user)[0]
        if "previous" in query:
            return (rows * self.state_after(p, query["previous"][:, None], user)).sum(-1)
        nothing = torch.full((1, 1), -1, device=user.device)  # not from `user`, of which there may be many
        return rows @ self.state_after(p, nothing, user)[0]

    def scores_after(self, p: TensorMap, history: Tensor, user: Tensor) -> Tensor:
        """Return the scores of all items for some users, shape (n, n_items)."""
        return self.state_after(p, history, user) @ p["items"].T

    def loss(self, p: TensorMap, batch: TensorMap) -> Tensor:
        """Return the mean cross-entropy over all places with an item.

        If the batch has ``places``, indices of places, only these are computed.
        """
        import torch

        states, wanted = self.states(p, batch), batch["items"]
        weights = (wanted >= 0) * batch["weights"][:, None]
        if self.needs_all_items:
            if "places" in batch:
                states, wanted, weights = (
                    part.flatten(0, 1)[batch["places"]] for part in (states, wanted, weights)
                )
            logits = states @ p["items"].T
            own = logits.gather(-1, wanted.clamp(min=0)[..., None])[..., 0]
            total = torch.logsumexp(logits, dim=-1)
        else:
            own = (states * p["items"][wanted.clamp(min=0)]).sum(-1)
            others = self._candidates(batch)
            rows = p["items"][others.clamp(min=0)]
            apart = others.ndim == 3  # each place has its own candidates
            logits = (rows @ states[..., None])[..., 0] if apart else states @ rows.transpose(-1, -2)
            logits = torch.where(_counts(others, wanted), logits, -torch.inf)
            total = torch.logsumexp(torch.cat([own[..., None], logits], dim=-1), dim=-1)
        return ((total - own) * weights).sum() / weights.sum().clamp(min=1.0)

    def _candidates(self, batch: TensorMap) -> Tensor:
        """Return the items with which the positives of each list are contrasted; -1 means none.

        Their shape is (n, n_candidates), or (n, length, n_candidates) if each place has its own negatives.
        """
        import torch

        negatives, items = batch["negatives"], batch["items"]
        if not self.options.in_batch:
            return negatives
        if negatives.ndim == 3:
            items = items[:, None].expand(-1, items.shape[1], -1)
        return torch.cat([negatives, items], dim=-1)

    def without_padding(self, samples: Columns) -> Columns:
        """Return a batch without the padding that all its lists share, if it is not stacked.

        The indices of ``places`` with an item to learn are added: :meth:`loss` skips the others.
        """
        lists = {name: part for name, part in samples.items() if name in ("items", "previous")}
        used = np.any([(part >= 0).any(0) for part in lists.values()], axis=0)
        width = 1 + int(np.max(np.flatnonzero(used), initial=0))
        cut = {name: part[:, :width] for name, part in lists.items()}
        if "negatives" in samples and samples["negatives"].ndim == 3:
            cut["negatives"] = samples["negatives"][:, :width]
        return {**samples, **cut, "places": np.flatnonzero(cut["items"] >= 0)}


def _counts(others: Tensor, wanted: Tensor) -> Tensor:
    """Return which candidates count, (n, length, n_candidates): neither positives nor repetitions."""
    again = (others[..., :, None] == others[..., None, :]).tril(-1).any(-1)
    counts = (others >= 0) & ~again
    if others.ndim == 2:
        others, counts = others[:, None, :], counts[:, None, :]
    return counts & (others != wanted[:, :, None])


def dropout_mask(shape: tuple[int, ...], rate: float, draw: np.random.Generator) -> Columns:
    """Return ``keep``, dropout factors that are 0 or preserve the mean; empty for the rate 0."""
    if not rate:
        return {}
    kept = draw.random(shape, np.float32) >= np.float32(rate)
    return {"keep": kept.astype(np.float32) / np.float32(1.0 - rate)}
