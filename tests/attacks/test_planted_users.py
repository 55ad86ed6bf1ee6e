"""Models trained on planted tastes, without their user rows: a fictive user tells whose items are like its own."""

import numpy as np
import pytest

from gossiprec.adversaries.attacks.cda import CDA, CDAOptions
from gossiprec.base.ragged import Ragged
from gossiprec.measures.attack_accuracy import accuracies as accuracies_of
from gossiprec.measures.attack_accuracy import guess_top_victims
from gossiprec.measures.communities import Communities
from tests.attacks.glimpses import Receptions, all_forms, show, started, trainer, world_of

GROUPS, MEMBERS, TASTES = 4, 6, 20
"""Four groups of six users; each user has 12 of the 20 items that only its group likes."""
N = GROUPS * MEMBERS
K = MEMBERS - 1
COMMUNITY = np.array([[v for v in range(u % GROUPS, N, GROUPS) if v != u] for u in range(N)])


def planted(*, form):
    """Return a world of hidden users, and every user's trained model sent to every other."""
    draw = np.random.default_rng(0)
    items = [draw.choice(TASTES, 12, replace=False) + TASTES * (user % GROUPS) for user in range(N)]
    targets = Ragged.sets_from_pairs(np.repeat(np.arange(N), 12), np.concatenate(items), N)
    world = world_of(targets, GROUPS * TASTES, form=form, coordinator=N, hidden=range(N))
    start = world.scorer.model.initial_rows(world.layout, 1, 0)[0]  # one for all: merged models agree on axes
    eager = trainer(world, learning_rate=0.05)
    trained = np.stack(
        [eager.train_like_node(world.feed.for_user(u), start, updates=10, seed=u) for u in range(N)]
    )
    world.own[:N] = trained
    world.own[N] = trained.mean(axis=0)
    pairs = [(v, u) for v in range(N) for u in (*range(N), N) if u != v]
    sender, receiver = np.array(pairs, np.int32).T.copy()
    return world, Receptions(sender, receiver, trained[sender])


def accuracy(ranking):
    """Return the mean share of the planted communities that adversaries find."""
    k, near = COMMUNITY.shape[1], np.zeros((len(ranking.adversaries), len(COMMUNITY)))
    np.put_along_axis(near, COMMUNITY[ranking.adversaries], 1.0, axis=1)
    found = guess_top_victims(ranking.scores, k)
    return accuracies_of(ranking.scores, found, Communities.nearest(near, k)).mean()


def accuracies(world, received, **options):
    attack = CDA(CDAOptions(community_size=K, momentum=0.5, reference_items=30, **options), world)
    (ranking,) = show(started(attack, world, received), world, received)
    return accuracy(ranking)


@pytest.mark.slow
@all_forms
@pytest.mark.full
def test_a_fictive_user_finds_planted_communities(form):
    world, received = planted(form=form)
    seldom = {"refit_every": 1000.0} if form == "plain" else {}  # five hundred fits one by one take long
    found = {
        (who["who"], kind): accuracies(
            world,
            received,
            fictive_user=kind,
            **who,
            **(seldom if (who["who"], kind) == ("single", "fitted") else {}),
        )
        for who in ({"who": "single"}, {"who": "coalition", "fraction": 0.3}, {"who": "coordinator"})
        for kind in ("fitted", "own_embedding", "paper")
    }
    # Guessing: 5 of 23, 0.22, with a standard error of at most 0.07 (a coalition of seven).
    for (who, kind), accuracy in found.items():
        least = {"fitted": 0.9, "own_embedding": 0.9, "paper": 0.4}[kind]
        assert accuracy > (0.7 if seldom and (who, kind) == ("single", "fitted") else least), (who, kind)
