"""Messages of poisoners in runs, as the coordinator receives them, against plain numpy; and planted faults."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.poisoners import VersionWatcher, pamn, pipattack, poisoned_messages, psmu, spattack
from gossiprec.testing import temporarily_registered
from tests.audit import poisoners
from tests.audit.planted import plant
from tests.audit.test_membership_audit import Recorder
from tests.emulation.tiny_runs import carried_out, tiny
from tests.slow import slow_except_first

DIM, N_ITEMS, N_USERS, RATE, SEED = 4, 40, 12, 0.3, 5
TARGETS = [7, 23]
CASES = {
    "pipattack": ("pipattack", {"targets": TARGETS, "weight": 0.7, "steps": 20, "rate": 0.2, "std": 0.5}),
    "pipattack, demoting": ("pipattack", {"targets": TARGETS, "aim": "demote", "steps": 20, "std": 0.5}),
    "pamn": ("pamn", {"targets": TARGETS, "items": 6, "std": 0.5, "rate": 0.1, "weight": 0.6, "alternatives": 3}),
    "pamn, not diverse": ("pamn", {"targets": TARGETS, "items": 6, "std": 0.5, "diverse": False}),
    "spattack": ("spattack", {}),
    "spattack, few items": ("spattack", {"items": 5}),
    "spattack, undo": ("spattack", {"variant": "undo"}),
}  # fmt: skip
FORMULAS = {
    "pipattack": poisoners.pipattack,
    "pamn": poisoners.pamn,
    "spattack": poisoners.spattack_noise,
    "spattack, few items": poisoners.spattack_few,
    "spattack, undo": poisoners.spattack_undo,
}
DEFAULTS = {
    "pipattack": {"weight": 1.0, "steps": 100, "rate": 0.1},
    "pamn": {"steps": 20, "rate": 0.01, "alternatives": 5, "weight": 1.0, "diverse": True},
    "spattack": {},
}


def played(name, options):
    """Return a run of three rounds with two poisoners, and its messages: sender, model and version before it."""
    training = {"optimizer": "sgd", "learning_rate": RATE, "batch_size": "full", "local_epochs": 2}
    scenario = tiny(
        model={"name": "mf", "dim": DIM, "init_std": 0.5},
        protocol={"name": "fedavg", "rounds": 4, "client_model": "none", "merge": "sum"},
        training=training,
        attackers=[{"name": name, "number": 2, "boost": 1.5, **options}],
        observers=[{"name": "recorder"}],
    )
    with temporarily_registered(ATTACKS, {"recorder": Recorder}):
        run = carried_out(scenario)
    return run, run.attacks[0].messages


def agree(case):
    """Return whether every message of the poisoners is minus 1.5 times the rate times the gradient by hand."""
    name, options = CASES[case]
    run, messages = played(name, options)
    known = {**DEFAULTS[name], **options}
    known["fit_rate"] = known.pop("rate", None)
    popularity = np.bincount(run.components.split.train.values, minlength=N_ITEMS)
    w = SimpleNamespace(
        seed=SEED, dim=DIM, rate=RATE, nodes=[N_USERS, N_USERS + 1], popularity=popularity, negatives=4,
        sign=-1 if options.get("aim") == "demote" else 1, **known,
    )  # fmt: skip
    gradient = FORMULAS.get(case) or FORMULAS[name]
    tables = [[part[DIM:].reshape(N_ITEMS, DIM).astype(float) for part in parts] for _, *parts in messages]
    found, due, sent = [], [], {}
    for (sender, *_), (model, base) in zip(messages, tables, strict=True):
        if sender in w.nodes:
            sent.setdefault(sender, []).append(base)
            found.append(model - base)
            due.append(-1.5 * RATE * gradient(sent[sender], sender, w))
    assert [len(own) for own in sent.values()] == [3, 3]
    return bool(np.allclose(found, due, rtol=1e-4, atol=1e-5 * np.abs(due).max()))


VARIANTS = [pytest.param(case, marks=pytest.mark.slow if "," in case else ()) for case in CASES]


@pytest.mark.parametrize("case", VARIANTS)
@pytest.mark.cases(3)
def test_every_message_is_that_of_plain_numpy(case):
    assert agree(case)


FAULTS = {
    "the top level has a fifth of the items": ("pipattack", pipattack, "LEVELS", (0.2, 0.45)),
    "the own row climbs": ("pipattack", pipattack.PipAttack, "gradient", "own -=", "own +="),
    "the classifier forgets offsets": ("pipattack", pipattack.PipAttack, "gradient", " + weights[-1]", ""),
    "demoted items look popular": (
        "pipattack, demoting", pipattack.PipAttack, "gradient", "0 if context.sign > 0 else len(LEVELS)", "0"),
    "plain descent in place of Adam": ("pipattack", pipattack, "adam_step", lambda state, slope, step, rate:
        state.__setitem__(0, state[0] - rate * slope)),
    "items that moved least": ("pamn", pamn.PAMN, "profile", "largest_first(moved", "largest_first(-moved"),
    "targets may be in the profile": ("pamn", pamn.PAMN, "profile", "self.context.targets", "self.context.targets[:0]"),
    "poisoners take blocks of the ranking": ("pamn", pamn.PAMN, "profile", "% apart :: apart]", "* count :][:count]"),
    "changes since the first version": ("pamn", VersionWatcher, "item_changes", "last[:], push.memory[0] = sent.items,",
        "last[:], push.memory[0] = last if seen else sent.items,"),
    "own items compete": ("pamn", psmu.PSMU, "_rivals", "scores[taken] = scores", "scores"),
    "alternatives are not trained": ("pamn", psmu.PSMU, "gradient", "self.options.weight *", "0 *"),
    "noise differs between poisoners": (
        "spattack", spattack.Spattack, "gradient", '"spattack", 0, 0', '"spattack", push.node, 0'),
    "noise differs between rounds": (
        "spattack", spattack.Spattack, "gradient", '"spattack", 0, 0', '"spattack", 0, push.number'),
    "items are drawn uniformly": (
        "spattack, few items", spattack.Spattack, "_items", ", p=popularity / popularity.sum()", ""),
    "each poisoner undoes the whole change": (
        "spattack, undo", spattack.Spattack, "gradient", " * len(self.context.nodes)", ""),
    "the change is repeated": ("spattack, undo", spattack.Spattack, "gradient", "rows = change", "rows = -change"),
    "no boost": ("spattack", poisoned_messages.PoisonedMessages, "forge", "self.rate * self.boost", "self.rate"),
}  # fmt: skip


@pytest.mark.parametrize("fault", slow_except_first(FAULTS))
@pytest.mark.cases(3)
def test_a_planted_fault_is_noticed(fault, monkeypatch):
    case, owner, name, *texts = FAULTS[fault]
    if len(texts) == 2:
        plant(monkeypatch, owner, name, *texts)
    else:
        monkeypatch.setattr(owner, name, *texts)
    assert not agree(case)
