"""Attacks on uploads: they see what the coordinator receives, and the truth is joined with their guesses afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.adversaries.attacks.uploads import Contributions, UploadAttack, UserVectors
from gossiprec.base.ragged import Ragged
from gossiprec.emulation import prepare
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.measures.communities import jaccard_communities
from gossiprec.scenario import load_scenario
from gossiprec.testing.blinding import AccessMonitor, Watch
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first

USERS, ITEMS, ACCOMPLICE = 12, 40, 4
CONTRIBUTIONS = tiny(
    model={"name": "ncf", "dim": 6, "hidden": [8, 4]},
    training={"batch_size": "full"},
    protocol={"name": "fedavg", "rounds": 2, "slice": 6, "client_model": "none", "merge": "touched-mean"},
    recommender={
        "name": "pdc-frs", "similarity": {"name": "co-occurrence", "public_users": 0.5}, "epsilon": 10.0, "leaks": 3,
    },
    executor={"name": "batched"},
    observers=[],
)  # fmt: skip


def attacked(scenario, monitor):
    """Return the prepared run after its last tick, as the monitor lets its attack see it."""

    def load(wanted):
        monitor.split = load_data(wanted)
        return monitor.split

    with monitor.installed():
        prepared = prepare(load_scenario(scenario), load=load)
        for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
            pass
    assert isinstance(prepared.attacks[-1], UploadAttack)
    return prepared


def contribution_bytes(guesses):
    """Return the guesses that concern all users, and those of the accomplice."""
    users, items = np.repeat(np.arange(USERS), ITEMS), np.tile(np.arange(ITEMS), USERS)
    victims = list(guesses.victims())
    of_all = (
        guesses.sets.values, guesses.sets.offsets, guesses.communities.values, guesses.communities.share,
        guesses.popularity, guesses.evidence(users, items, guesses.popularity[items]),
        *(block.scores for block in victims),
    )  # fmt: skip
    own = [block.relevance[ACCOMPLICE] for block in victims]
    return [part.tobytes() for part in (*of_all, *own)]


def vector_run(model):
    return tiny(
        model={"name": model, "dim": 6, "loss": "sampled"},
        training={"optimizer": "sgd", "learning_rate": 0.5, "batch_size": "full"},
        protocol={"name": "fedavg", "rounds": 4, "slice": 4, "client_model": "none", "merge": "mean"},
        recommender={
            "name": "fedcl", "local_items": 10, "local_negatives": 3, "semi_hard": 4, "clusters": 3, "leaks": 3,
        },
        executor={"name": "batched"},
        observers=[],
    )  # fmt: skip


def vector_bytes(guesses):
    """Return what was received from all users, and the query of the accomplice."""
    assert np.isfinite(guesses.latest).all()
    received = (guesses.latest, guesses.before, guesses.means, guesses.adversaries)
    query = guesses.queries[ACCOMPLICE]
    return [part.tobytes() for part in (*received, query)], guesses.reidentified


CASES = {
    "contributions": (CONTRIBUTIONS, contribution_bytes),
    **{f"vectors-{model}": (vector_run(model), vector_bytes) for model in ("gru4rec", "two-tower")},
}


def check_blind(case):
    """Raise if the guesses change when data of all users but one accomplice are those of other users."""
    scenario, as_bytes = CASES[case]
    seen, blind = (
        as_bytes(attacked(scenario, monitor).attacks[-1].upload_guesses())
        for monitor in (AccessMonitor(blind=False), AccessMonitor(blind=True, accomplice=ACCOMPLICE))
    )
    assert seen == blind


@pytest.mark.parametrize("case", slow_except_first(CASES))
@pytest.mark.full
def test_guesses_stay_where_all_that_an_attack_must_not_see_is_overwritten(case):
    check_blind(case)


@pytest.mark.parametrize("case", slow_except_first(CASES))
@pytest.mark.cases(1)
def test_what_an_attack_on_uploads_is_given_does_not_lead_to_the_truth(case):
    prepared = attacked(CASES[case][0], AccessMonitor(blind=False))
    watch = Watch(prepared)
    attack = prepared.attacks[-1]
    watch.look("knowledge", attack.context.knowledge)
    watch.look("guesses", [value for name, value in vars(attack).items() if name != "context"])
    assert watch.calls
    assert not watch.found


def communities_of_data(self, true):
    """Guess communities by the training items of all users."""
    users = np.arange(USERS)
    sets = Ragged.from_parts([self.context.feed_of_nodes(users).positives[user] for user in users])
    found = true(self)
    return type(found)(
        sets, jaccard_communities(sets, n_items=ITEMS, k=3), found.popularity, found.evidence, found.victims
    )


def targets_of_another(self, true):
    """Let each adversary look with the items of the next user."""
    found, feed_of_nodes = true(self), self.context.feed_of_nodes

    def shifted(nodes):
        feed = feed_of_nodes(nodes)
        return type(feed)(Ragged.from_parts([feed.positives[(user + 1) % USERS] for user in nodes]), ITEMS)

    object.__setattr__(
        self, "context", type("World", (), {**vars(self.context), "feed_of_nodes": staticmethod(shifted)})
    )
    return found


@pytest.mark.parametrize("cheat", slow_except_first([communities_of_data, targets_of_another]))
def test_an_attack_on_contributions_that_cheats_is_caught(cheat, monkeypatch):
    true = Contributions.upload_guesses
    monkeypatch.setattr(Contributions, "upload_guesses", lambda self: cheat(self, true))
    with pytest.raises(AssertionError):
        check_blind("contributions")


def queries_by_data_of_another(self, adversaries, true):
    """Let each adversary look with the vector of the next user."""
    return np.roll(true(self, adversaries), -1, axis=0)


@pytest.mark.slow
@pytest.mark.full
def test_an_attack_on_vectors_that_cheats_is_caught(monkeypatch):
    true = UserVectors._queries
    monkeypatch.setattr(
        UserVectors, "_queries", lambda self, some: queries_by_data_of_another(self, some, true)
    )
    with pytest.raises(AssertionError):
        check_blind("vectors-gru4rec")


@pytest.mark.slow
@pytest.mark.full
def test_an_attack_that_reads_versions_instead_of_uploads_is_caught(monkeypatch):
    """What lies in the arena next to deliveries is overwritten: vectors that were not delivered are NaN."""

    def cheat(self, seen):
        raw = seen.raw
        rows = np.zeros(1, np.int32)
        self._latest[:] = np.asarray(raw.rows[rows, : self._latest.shape[1]])

    monkeypatch.setattr(UserVectors, "observe", cheat)
    with pytest.raises(AssertionError):
        check_blind("vectors-gru4rec")
