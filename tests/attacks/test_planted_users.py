"""Models trained on planted tastes, without their user rows: a fictive user tells whose items are like its own."""

from dataclasses import replace

import numpy as np
import pytest

from gossiprec.attacks.cda import CDA, CDAOptions
from gossiprec.attacks.private import private_model
from gossiprec.metrics.attack import accuracy_of_hits, hits_of_scores
from gossiprec.ragged import Ragged
from tests.attacks.glimpses import Receptions, world_of

GROUPS, MEMBERS, TASTES = 4, 6, 20
"""Four groups of six users; each user has 12 of the 20 items that only its group likes."""
N = GROUPS * MEMBERS
K = MEMBERS - 1
COMMUNITY = np.array([[v for v in range(u % GROUPS, N, GROUPS) if v != u] for u in range(N)])


def planted(*, compiled):
    """Return a world of hidden users, and every user's trained model sent to every other."""
    draw = np.random.default_rng(0)
    items = [draw.choice(TASTES, 12, replace=False) + TASTES * (user % GROUPS) for user in range(N)]
    targets = Ragged.sets(np.repeat(np.arange(N), 12), np.concatenate(items), N)
    world = world_of(targets, GROUPS * TASTES, compiled=compiled, coordinator=N, hidden=range(N))
    work = world.executor.work
    start = work.model.initial_rows(work.layout, 1, 0)[
        0
    ]  # one for all: models that have merged agree on their axes
    eager = replace(work, training=replace(work.training, learning_rate=0.05))
    trained = np.stack(
        [
            private_model(eager, targets[u], start, updates=10, seed=u, kind=type(world.executor))
            for u in range(N)
        ]
    )
    work.arena.rows[:N] = trained
    work.arena.rows[N] = trained.mean(axis=0)
    pairs = [(v, u) for v in range(N) for u in (*range(N), N) if u != v]
    sender, receiver = np.array(pairs, np.int32).T.copy()
    return world, Receptions(sender, receiver, trained[sender])


def accuracies(world, received, **options):
    attack = CDA(CDAOptions(community_size=K, momentum=0.5, reference_items=30, **options), world)
    attack.foresee(received.meetings, 0)
    rows = np.concatenate([received.rows, world.executor.work.arena.rows])
    source = (len(received.rows) + received.receiver).astype(np.int32)
    attack.observe(rows, replace(received.program, source=source), np.arange(len(source)))
    sightings = received.sightings(attack.pools)
    attack.sight(rows, sightings, 0, len(sightings.row))
    (ranking,) = attack.rankings()
    return accuracy_of_hits(hits_of_scores(ranking.scores, COMMUNITY[ranking.adversaries])).mean()


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_a_fictive_user_finds_planted_communities(compiled):
    world, received = planted(compiled=compiled)
    found = {
        (who["who"], kind): accuracies(world, received, fictive_user=kind, **who)
        for who in ({"who": "single"}, {"who": "coalition", "fraction": 0.3}, {"who": "coordinator"})
        for kind in ("fitted", "own_embedding", "paper")
        if (who["who"], kind) != ("coordinator", "own_embedding")
    }
    print(found)
    # Guessing: 5 of 23, 0.22, with a standard error of at most 0.07 (a coalition of seven).
    for (who, kind), accuracy in found.items():
        assert accuracy > {"fitted": 0.9, "own_embedding": 0.9, "paper": 0.4}[kind], (who, kind)
