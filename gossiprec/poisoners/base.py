"""What the emulator needs to know of a poisoner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gossiprec.aggregators.base import ModelDelta
from gossiprec.arrays import I32
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.feeds.base import Feed
from gossiprec.models import Layout, Model
from gossiprec.options import NoOptions, Options

if TYPE_CHECKING:  # a scenario can be read without torch
    from gossiprec.poisoners.model_formula import ModelFormula


@dataclass(frozen=True)
class PoisonerContext:
    """All that a poisoner knows besides what it is sent; nothing of any user.

    Attributes
    ----------
    formula : Formula
        Of the model.
    nobody : Feed
        Makes samples of items that are given to it, as clients do (``nobody.of_items(items)``); holds no data.
    negatives : int
        That clients draw for each positive.
    targets : ndarray of int32, shape (n_targets,)
        Items to be promoted, ascending.
    """

    formula: ModelFormula
    nobody: Feed
    negatives: int
    targets: I32


class Poisoner(ABC):
    """How some nodes without data poison the model that they are sent.

    One object serves all nodes of its entry in a scenario and keeps nothing from push to push: a message follows from
    the version that the node was sent, the seed, the node, the number of its push, and the targets.

    Parameters
    ----------
    options : Options
        Of the class's own type.
    world : Surroundings
    """

    Options: ClassVar[type[Options]] = NoOptions

    def __init__(self, options: Any, world: PoisonerContext) -> None:
        self.options = options
        self.world = world

    @classmethod
    def check(cls, model: Model, layout: Layout, name: str) -> None:
        """Refuse a model that the poisoner cannot work with.

        Raises
        ------
        ScenarioError
        """
        from gossiprec.poisoners.model_formula import ModelFormula

        ModelFormula.check(model, layout, name)

    @abstractmethod
    def gradient(self, sent: MessagePayload, push: PushContext) -> ModelDelta:
        """Return the gradient of the poisoned loss: what training as the poisoner wants it would go against.

        Parameters
        ----------
        sent : Payload
            The version: ``items``, (n_items, item_width), and ``shared``, (n_shared,).
        push : Push
            ``push.generator(purpose)`` gives draws.

        Returns
        -------
        Change
            Items, ascending, with a row of gradients each, and the gradient of the shared weights.
        """
