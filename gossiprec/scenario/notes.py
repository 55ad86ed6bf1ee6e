"""Notes on a scenario: options that cannot change a result beside the others."""

from __future__ import annotations

from collections.abc import Iterator

from gossiprec.scenario.model import Scenario


def notes_on(scenario: Scenario) -> list[str]:
    """Return a sentence for each option that has no effect because of another."""
    return [*_on_item_weight(scenario), *_on_drift(scenario), *_on_reduction(scenario)]


def _on_item_weight(scenario: Scenario) -> Iterator[str]:
    """Yield a note if Adam takes the items' loss of PDC-FRS alone."""
    options = getattr(scenario.recommender, "options", None)
    if getattr(options, "item_optimizer", None) == "adam" and getattr(options, "item_weight", 0):
        yield (
            "recommender.item_weight: a new Adam optimises only the item loss (item_optimizer: adam), so "
            "every weight above 0 gives the same result up to rounding; set item_optimizer to sgd to make "
            "the weight effective"
        )


def _on_drift(scenario: Scenario) -> Iterator[str]:
    """Yield a note if a local update has one step, in which no item has drifted yet."""
    training = scenario.training
    if training.batch_size != "full" or training.local_epochs != 1:
        return
    for choice in scenario.policies:
        if choice.name == "share-less" and getattr(choice.options, "tau", False):
            yield (
                "policies: share-less: tau pulls items back to their values at the start of a local update, "
                "but with one step per update (training.batch_size: full, local_epochs: 1) no item has "
                "moved yet, so every tau gives the same result; raise training.local_epochs or set a batch "
                "size to make tau effective"
            )


def _on_reduction(scenario: Scenario) -> Iterator[str]:
    """Yield a note if Adam divides the sum of a loss, which nothing is added to, by its own size."""
    summed = getattr(scenario.model.options, "loss_reduction", None) == "sum"
    adam, alone = scenario.training.optimizer == "adam", scenario.recommender is None
    drift = any(choice.name == "share-less" for choice in scenario.policies)
    gradients = getattr(scenario.protocol.options, "upload", None) == "gradients"
    if summed and adam and alone and not drift and not gradients and scenario.model.name != "prme-g":
        yield (
            "model.loss_reduction: Adam normalises gradients, so without an additional loss the sum gives "
            "the result of the mean up to training.eps"
        )
