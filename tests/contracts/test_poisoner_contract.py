"""What every registered poisoner keeps to; and that the contract catches those that do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gossiprec.adversaries.poisoners import POISONERS, Poisoner
from gossiprec.base.errors import ScenarioError
from gossiprec.rules.aggregators import ModelDelta
from gossiprec.testing import check_poisoner
from tests.contracts.broken import told
from tests.slow import slow_except_first

FEW = {"clients": 3, "items": 5, "steps": 3}
"""Synthetic clients, which are trained for each message."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "model"), [*((name, "ncf") for name in POISONERS), ("a-hum", "gmf"), ("psmu", "mf")]
)
@pytest.mark.cases(4)
def test_a_poisoner_keeps_its_contract(name, model):
    check_poisoner(POISONERS[name], FEW if name == "adaptive" else {}, model=model)


class Inflates(Poisoner):
    """Goes on as far as it was brought."""

    def gradient(self, sent, push):
        rows = -sent.items[self.context.targets]
        return self.broken(ModelDelta(self.context.targets, rows, np.zeros_like(sent.shared)), push)

    def broken(self, change, push):
        return change


def that(name, broken, **more):
    return type(name, (Inflates,), {"broken": lambda self, change, push: broken(change, push), **more})


anew = np.random.default_rng().normal
DropsRows = that("DropsRows", lambda change, push: replace(change, rows=change.rows[1:]))
SendsNaN = that("SendsNaN", lambda change, push: replace(change, rows=change.rows * np.nan))
Descends = that("Descends", lambda change, push: replace(change, items=change.items[::-1]))
Beyond = that("Beyond", lambda change, push: replace(change, items=change.items + 20))
Elsewhere = that("Elsewhere", lambda change, push: replace(change, items=change.items + 1))
DrawsAnew = that("DrawsAnew", lambda change, push: replace(change, rows=change.rows + np.float32(anew())))


class Remembers(Inflates):
    pushed = 0

    def broken(self, change, push):
        self.pushed += 1
        return replace(change, rows=change.rows * np.float32(self.pushed))


class RefusesAll(Inflates):
    @classmethod
    def check(cls, model, layout, name):
        raise ScenarioError("not today")


BROKEN = {
    DropsRows: r"a row for each of some items.* Found shapes \(\(1, 8\), \(9,\)\), must be \(\(2, 8\), \(9,\)\)",
    SendsNaN: "Found numbers that are not finite",
    Descends: r"in ascending order.* Found items \[17, 4\]",
    Beyond: r"Found items \[24, 37\]",
    Elsewhere: r"Change the rows of all targets.* It changes items \[5, 18\], but not the target 4",
    DrawsAnew: "Return the same gradient for a push.* Push 0 of node 8",
    Remembers: "whatever it has returned before.* Push . of node",
    RefusesAll: "Be accepted by some run.* All runs refuse it:\ngossip: not today",
}


@pytest.mark.slow
def test_a_poisoner_need_not_be_registered():
    check_poisoner(Inflates)


@pytest.mark.parametrize("poisoner", slow_except_first(BROKEN), ids=lambda poisoner: poisoner.__name__)
def test_a_poisoner_that_breaks_the_contract_is_told_which_claim(poisoner):
    with told(poisoner, BROKEN[poisoner], kind="poisoner"):
        check_poisoner(poisoner)
