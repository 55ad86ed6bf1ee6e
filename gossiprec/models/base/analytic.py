"""The gradient of a model written out: what a client's full batch asks of a formula, without autograd."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


class AnalyticGradient(ABC):
    """The gradient of one user's mean cross-entropy over all samples, for models that score item by item.

    All samples of an item have one score, so it is worked out once an item, with the samples as weights. One object
    serves one thread: it may keep room for what lies between layers.

    Parameters
    ----------
    model : Model
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    @abstractmethod
    def fill(
        self, p: Mapping[str, Tensor], slopes: Mapping[str, Tensor], samples: Tensor, positives: Tensor
    ) -> None:
        """Overwrite `slopes` with the gradient.

        Parameters
        ----------
        p : mapping of str to Tensor
            Blocks by name: ``users`` (1, ...), those of items (n_items, ...), and shared ones. Not to be changed.
        slopes : mapping of str to Tensor
            The same shapes.
        samples, positives : Tensor, shape (n_items,)
            Each item's share of all samples, and that of its positive ones: the loss is
            ``sum(samples * softplus(z) - positives * z)`` over the items' logits z.
        """

    @staticmethod
    def of_logits(logits: Tensor, samples: Tensor, positives: Tensor) -> Tensor:
        """Turn logits into the loss's derivatives by them, in place."""
        return logits.sigmoid_().mul_(samples).sub_(positives)
