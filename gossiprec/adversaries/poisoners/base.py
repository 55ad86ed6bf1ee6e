"""The base class of poisoners, as the emulator uses it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from gossiprec.base.arrays import I32
from gossiprec.base.options import NoOptions, Options
from gossiprec.compute.messages import MessagePayload, PushContext
from gossiprec.models import Layout, Model
from gossiprec.models.feeds.base import Feed
from gossiprec.old_names import old_members
from gossiprec.rules.aggregators.base import ModelDelta

if TYPE_CHECKING:  # a scenario can be read without torch
    from gossiprec.adversaries.poisoners.model_formula import ModelFormula


@old_members(nobody="empty_feed")
@dataclass(frozen=True)
class PoisonerContext:
    """A poisoner's knowledge in addition to the version that it is sent; nothing about any user.

    Attributes
    ----------
    formula : ModelFormula
        Formula of the model.
    empty_feed : Feed
        A feed without data that makes samples of given items, like a client's (``empty_feed.for_items(items)``).
    negatives : int
        Number of negatives that clients draw for each positive.
    targets : ndarray of int32, shape (n_targets,)
        Items to be promoted, ascending.
    """

    formula: ModelFormula
    empty_feed: Feed
    negatives: int
    targets: I32


@old_members(world="context")
class Poisoner(ABC):
    """The way in which some nodes without data poison the model that they are sent.

    One object serves all nodes of its entry in a scenario and keeps no state between pushes: a message follows from
    the version that the node was sent, the seed, the node, the number of its push, and the targets.

    Parameters
    ----------
    options : Options
        Options of the class's own type.
    context : PoisonerContext
    """

    Options: ClassVar[type[Options]] = NoOptions

    def __init__(self, options: Any, context: PoisonerContext) -> None:
        self.options = options
        self.context = context

    @classmethod
    def check(cls, model: Model, layout: Layout, name: str) -> None:
        """Refuse a model that the poisoner cannot work with.

        Raises
        ------
        ScenarioError
        """
        from gossiprec.adversaries.poisoners.model_formula import ModelFormula

        ModelFormula.check(model, layout, name)

    @abstractmethod
    def gradient(self, sent: MessagePayload, push: PushContext) -> ModelDelta:
        """Return the gradient of the poisoned loss, against which the poisoner's training would step.

        Parameters
        ----------
        sent : MessagePayload
            The version: ``items``, (n_items, item_width), and ``shared``, (n_shared,).
        push : PushContext
            Context with the random generators, ``push.generator(purpose)``.

        Returns
        -------
        ModelDelta
            Items, ascending, with one row of gradients each, and the gradient of the shared weights.
        """
