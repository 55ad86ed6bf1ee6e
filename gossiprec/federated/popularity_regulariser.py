"""The server's popularity regulariser: it moves the most popular items away from the others.

References
----------
The CL4FedRec paper (specification, section 3.2), eq. 14. Left open by the paper: the number of other items (256,
drawn again for each step among those that are not hot) and the optimizer (Adam, reset in each epoch).
"""

from __future__ import annotations

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.rng import generator
from gossiprec.federated.coordinator_hook import CoordinatorContext
from gossiprec.models.base.contrastive import normalise_embeddings


class PopularityRegulariser:
    """Adam's steps on the sum, over hot items, of the log of their nearness to others.

    Parameters
    ----------
    known : CoordinatorContext
    hot : int
        Number of hot items: those with the most training interactions, on ties the lower id.
    sub : int
        Number of other items that are drawn for each step.
    steps : int
    rate, temperature : float

    Raises
    ------
    ScenarioError
        If there are too few items, or all are equally popular.
    """

    def __init__(
        self, known: CoordinatorContext, *, hot: int, sub: int, steps: int, rate: float, temperature: float
    ) -> None:
        n_items, popularity = known.layout.n_items, known.popularity
        if hot + sub > n_items:
            raise ScenarioError(
                f"recommender: hot_items {hot} and sub_items {sub} are more than the {n_items} items; lower them"
            )
        if popularity.min() == popularity.max():
            raise ScenarioError(
                f"recommender: the regulariser spreads out popular items, but all {n_items} items have "
                f"{popularity.min()} interactions; use cl4fedrec"
            )
        self._known, self._steps, self._rate, self._temperature = known, steps, rate, temperature
        order = np.argsort(-popularity, kind="stable")
        self.hot: I64 = np.sort(order[:hot])
        self._others, self._sub = np.sort(order[hot:]), sub

    def applied(self, version: F32, epoch: int) -> F32:
        """Return a version ``[items | shared]`` after the steps at the end of an epoch."""
        import torch

        from gossiprec.numerics.torch_optimizers import Adam

        layout, draw = self._known.layout, generator(self._known.seed, "regulariser", 0, epoch)
        width = layout.n_items * layout.item_width
        found = version.copy()
        items = torch.from_numpy(found[:width].reshape(layout.n_items, -1)).requires_grad_()
        adam = Adam([items], lr=self._rate, foreach=False)
        for _ in range(self._steps):
            sub = draw.choice(self._others, self._sub, replace=False)
            adam.zero_grad()
            near = (
                normalise_embeddings(items[torch.from_numpy(self.hot)])
                @ normalise_embeddings(items[torch.from_numpy(sub)]).T
            )
            torch.autograd.backward(torch.logsumexp(near / self._temperature, dim=1).sum())
            adam.step()
        found[:width] = items.detach().numpy().ravel()
        return found
