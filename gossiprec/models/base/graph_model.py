"""Models that look at their rows through the graph of interactions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gossiprec.models.base.graph import Graph
from gossiprec.models.base.model import Model

if TYPE_CHECKING:
    from torch import Tensor


class GraphModel(Model):
    """A model whose scores and losses are taken of what a graph makes of the rows: :meth:`encode`, then the formula.

    It has one block for users and one for items. Whoever trains or scores it encodes first, once for a step and once
    for a report. :meth:`score` and :meth:`loss` then find the encoded rows as ``p["users"]`` and ``p["items"]``; of
    rows that are not encoded they are those of the model without a graph.
    """

    needs_graph: ClassVar[bool] = True
    at_clients: ClassVar[bool] = False
    """Whether a client can train it that knows no graph but that of its own items (:meth:`encode_own`)."""

    @abstractmethod
    def encode(self, p: Mapping[str, Tensor], graph: Graph) -> Mapping[str, Tensor]:
        """Return `p` with encoded rows, of the same shapes, as ``users`` and ``items``: what is recommended by."""

    def encode_own(self, p: Mapping[str, Tensor], batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return what the loss of a client's step is taken of: rows encoded by its user and the items of its batch.

        Parameters
        ----------
        p, batch : mapping of str to Tensor
            As of :meth:`loss`: the client's model, and its samples with ``weights``, 0 for padding.
        """
        raise NotImplementedError(f"{type(self).__name__} is trained with the interaction graph of all users")

    def views(self, graph: Graph, draw: np.random.Generator) -> Sequence[Graph]:
        """Return what else an epoch's steps look through, drawn anew for each epoch."""
        return ()

    def encode_step(
        self, p: Mapping[str, Tensor], graph: Graph, views: Sequence[Graph], draw: np.random.Generator
    ) -> Mapping[str, Tensor]:
        """Return what the loss of one step is taken of: encoded rows, and whatever else :meth:`loss` wants.

        Parameters
        ----------
        p : mapping of str to Tensor
        graph : Graph
        views : sequence of Graph
            What :meth:`views` has drawn for the epoch.
        draw : numpy.random.Generator
            Of the step.
        """
        return self.encode(p, graph)
