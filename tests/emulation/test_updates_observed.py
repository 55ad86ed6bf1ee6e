"""What a coordinator observes where clients answer with updates: base and update together."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.adversaries.attacks import ATTACKS, Attack
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import NoOptions
from gossiprec.emulation import prepare, resume, simulate
from gossiprec.scenario import load_scenario
from gossiprec.testing import temporarily_registered
from tests.emulation.ended_early import ended_early, often, outcome
from tests.emulation.test_clients_without_models import NETWORK, SHARE_LESS, star
from tests.emulation.tiny_runs import carried_out

AIA = {"name": "aia", "adversaries": 3, "community_size": 3, "models": 6, "epochs": 4}


@pytest.mark.slow
def test_attribute_inference_sees_base_and_update_as_it_sees_whole_models():
    found = [
        carried_out(star(kind, "median", policies=policies, observers=[AIA])).attacks[0]
        for kind, policies in (("own", SHARE_LESS), ("none", []))
    ]
    of_models, of_updates = (attack.rankings()[0].scores for attack in found)

    np.testing.assert_allclose(found[1]._features, found[0]._features, rtol=0, atol=2e-6)
    np.testing.assert_allclose(of_updates, of_models, rtol=1e-3, atol=1e-4)
    assert len(np.unique(of_updates[~np.isnan(of_updates)])) > 20


@pytest.mark.slow
@pytest.mark.full
def test_attribute_inference_takes_a_late_update_against_the_version_that_it_was_made_from(monkeypatch):
    """With whole models the coordinator compares with the version published last; an update names its own."""
    prepared = prepare(load_scenario(star(network=NETWORK, rounds=8, observers=[AIA])))
    attack, store, stale = prepared.attacks[0], prepared.executor.store, []

    def observe(seen, observe=attack.observe):
        observe(seen)
        for k, node in enumerate(seen.senders.tolist()):
            update = store.payload(int(seen.rows[k]))
            due = np.zeros((40, 8), np.float32)
            due[update.items] = update.change.rows
            latest = k == np.flatnonzero(seen.senders == node)[-1]
            if latest and node < 12:
                np.testing.assert_allclose(attack._features[node].reshape(40, 8), due, rtol=0, atol=1e-6)
                assert not due[np.setdiff1d(np.arange(40), update.items)].any()
                stale.append(not np.array_equal(update.base, seen.own_model(k)[store.layout.merged]))

    monkeypatch.setattr(attack, "observe", observe)
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        pass
    assert any(stale)
    assert not all(stale)


@pytest.mark.slow
@pytest.mark.full
def test_a_run_with_attribute_inference_on_updates_goes_on_where_it_was(tmp_path):
    scenario = often(**star(observers=[AIA], rounds=8, network=NETWORK))
    whole = simulate(scenario, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", scenario, 3)

    assert outcome(resume(broken.path).path) == outcome(whole.path)


class Watching(Attack):
    """Every client looks at what it is sent."""

    Options = NoOptions
    label = "watching"

    @property
    def nodes(self):
        return np.arange(self.context.n_users)

    def observe(self, seen):
        raise AssertionError("is refused before")


def test_clients_that_observe_are_refused():
    with (
        temporarily_registered(ATTACKS, {"watching": Watching}),
        pytest.raises(
            ScenarioError, match="observers: watching observes what single clients receive, but these"
        ),
    ):
        prepare(load_scenario(star(observers=[{"name": "watching"}])))
