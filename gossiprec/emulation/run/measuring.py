"""What measures the models of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossiprec.emulation.assembly.attackers import attacked_items
from gossiprec.emulation.assembly.choosing import thread_count
from gossiprec.emulation.scoring.utility import Utility, target_items

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import Prepared


def make_utility(prepared: Prepared, *, beside: bool = True) -> Utility:
    """Return what measures recommendations; other orders beside the models' as well, unless others do that."""
    scenario, split, evaluate = prepared.scenario, prepared.split, prepared.scenario.evaluate
    attacked = attacked_items(prepared.attackers)
    targets = attacked if evaluate.targets == "attacked" else target_items(evaluate.targets, split)
    return Utility(
        split, evaluate.metrics, prepared.executor, scenario.seed, targets, evaluate.beside if beside else (),
        evaluate.mask, thread_count(scenario), attacked=attacked, keep_users=evaluate.activity_groups is not None,
    )  # fmt: skip
