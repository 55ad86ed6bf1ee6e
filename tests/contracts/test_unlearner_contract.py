"""What every registered unlearning method keeps to; and that the contract catches those that do not."""

from __future__ import annotations

import pytest

from gossiprec.emulation.unlearning import UNLEARNERS, FinalModels, Forgotten, Unlearner
from gossiprec.testing import check_unlearner
from tests.contracts.broken import told


@pytest.mark.slow
@pytest.mark.parametrize("name", list(UNLEARNERS))
def test_an_unlearning_method_keeps_its_contract(name):
    check_unlearner(UNLEARNERS[name])


class Spoils(Unlearner):
    """Overwrites the models of the run."""

    def forget(self, request):
        store, planner = request.models.prepared.executor.store, request.models.prepared.planner
        last = int(planner.current_rows[-1])
        store.store_merged(last, last, store.merged_columns(last) + 0.5, None)
        return Forgotten(request.models)


class Draws(Unlearner):
    """Gives other costs each time."""

    n = 0

    def forget(self, request):
        Draws.n += 1
        return Forgotten(FinalModels(request.models.run), sent_bytes=Draws.n)


class Owes(Unlearner):
    """Has a negative cost."""

    def forget(self, request):
        return Forgotten(request.models, stored_bytes=-1)


BROKEN = {
    Spoils: "Leave the models of the run as they were",
    Draws: "Give the same models and costs again",
    Owes: "costs from 0. Found stored_bytes -1",
}


@pytest.mark.slow
@pytest.mark.parametrize("unlearner", BROKEN, ids=lambda unlearner: unlearner.__name__)
def test_a_method_that_breaks_the_contract_is_told_which_claim(unlearner):
    with told(unlearner, BROKEN[unlearner], kind="unlearning method"):
        check_unlearner(unlearner)
