"""What every registered aggregator keeps to; and that the contract catches those that do not."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.options import Options
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator
from gossiprec.testing import check_aggregator
from tests.contracts.broken import told


@pytest.mark.parametrize("name", list(AGGREGATORS))
def test_an_aggregator_keeps_its_contract(name):
    check_aggregator(AGGREGATORS[name])


@pytest.mark.parametrize(
    "rule",
    [
        {"name": "bulyan", "over": "touched"},
        {"name": "centered-clipping", "radius": 0.5, "iterations": 3},
        {"name": "centered-clipping", "center": "own"},
        {"name": "geometric-median", "over": "touched"},
        {"name": "geometric-median", "weighting": "samples"},
        {"name": "foolsgold", "over": "touched"},
        {"name": "krum", "byzantine": 3, "keep": 2},
        {"name": "median", "over": "touched"},
        {"name": "norm-bound", "bound": 1.0},
        {"name": "trimmed-mean", "drop": 3},
        {"name": "trimmed-mean", "trim": "farthest", "drop": 2},
        {"name": "ucsu", "over": "touched"},
        {"name": "ucsu", "over": "touched", "bound": 0.5, "gather": "sum"},
    ],
    ids=str,
)
def test_an_aggregator_keeps_its_contract_with_options(rule):
    options = {key: value for key, value in rule.items() if key != "name"}
    check_aggregator(AGGREGATORS[rule["name"]], options)


Mean, Median = AGGREGATORS["mean"], AGGREGATORS["median"]


class LastOptions(Options):
    count: int = 3


class MeanOfInboxes(Aggregator):
    """The mean of the last inboxes' medians, and of the own model."""

    Options = LastOptions

    def __init__(self, options):
        super().__init__(options)
        self.last = []

    def reduce(self, own, inbox):
        self.last = [*self.last, Median(Median.Options()).reduce(own, inbox)][-self.options.count :]
        return np.mean([self.last[-1], *self.last], axis=0)

    def state(self):
        return {"last": self.last}

    def restore(self, state):
        self.last = state["last"]


class Forgets(MeanOfInboxes):
    def state(self):
        return {"last": []}


class Weightless(Median):
    def weights(self, n_positives):
        return n_positives - 1.0


class ForgetsTheOwnModel(Median):
    def aggregate(self, own, inbox):
        return super().aggregate(own, inbox) if len(inbox) else np.zeros_like(own)


class Halves(Median):
    def reduce(self, own, inbox):
        return super().reduce(own, inbox).astype(np.float16)


class WritesIntoTheOwnModel(Median):
    def reduce(self, own, inbox):
        own[:] = super().reduce(own, inbox)
        return own


class TakesTheFirst(Median):
    def reduce(self, own, inbox):
        return inbox.rows[inbox.row_index[0]].astype(np.float32)


class Adds(Median):
    def reduce(self, own, inbox):
        return inbox.rows[inbox.row_index].sum(axis=0, dtype=np.float32)


class MixesColumns(Median):
    def reduce(self, own, inbox):
        out = np.empty_like(own)
        for columns, models in inbox.models(own):
            out[columns] = np.clip(models.mean(), models.min(axis=0), models.max(axis=0))
        return out


class Trusts(Median):
    def reduce(self, own, inbox):
        return AGGREGATORS["mean"](None).reduce(own, inbox)


class Cleans(Median):
    propagates_nonfinite = True


class DoublesSums(Mean):
    def reduce_sums(self, own, sums):
        return (own + 2 * sums.total / sums.weight).astype(np.float32)


class Boasts(Median):
    def breakdown(self, n):
        return n // 2 + 1


BROKEN = {
    Weightless: r"Give every user's models a finite weight above 0. Found \[2. 0. 6.\]",
    ForgetsTheOwnModel: "Leave the own model as it is if nothing was received",
    Halves: "Return one finite model in float32.* Found float16 of 1 models of 1 numbers, the own one counting 0",
    WritesIntoTheOwnModel: "change nothing that was given. ValueError: .*read-only",
    TakesTheFirst: "the same model whatever the order of arrival",
    Adds: "between the smallest and the largest of all models.* outside the range of",
    MixesColumns: "the same model if the columns are processed block by block",
    Forgets: r"Continue from its state\(\) after restore\(\)",
    Trusts: "Withstand one invalid model in seven .* if one model is nan",
    Boasts: r"as `breakdown` says. .* if 1 of 1 models are nan",
    DoublesSums: "Return the same model for the sums of a round as for its answers",
    Cleans: "Propagate a value that is not finite, in one model or in two.* Found .* for nan",
}


def test_a_rule_may_remember():
    check_aggregator(MeanOfInboxes, {"count": 2})


@pytest.mark.parametrize("aggregator", BROKEN, ids=lambda aggregator: aggregator.__name__)
def test_an_aggregator_that_breaks_the_contract_is_told_which_claim(aggregator):
    with told(aggregator, BROKEN[aggregator], kind="aggregator"):
        check_aggregator(aggregator)
