"""Models trained on planted habits of moving (PRME-G): whose model knows my moves, with and without its user row?"""

import numpy as np
import pytest

from gossiprec.adversaries.attacks.cda import CDA, CDAOptions
from gossiprec.base.ragged import Ragged
from gossiprec.measures.attack_accuracy import accuracies as accuracies_of
from gossiprec.measures.attack_accuracy import guess_top_victims
from gossiprec.measures.communities import Communities
from tests.attacks.glimpses import Receptions, all_forms, show, started, trainer, world_of
from tests.moves import Moves

GROUPS, MEMBERS, PLACES = 4, 6, 20
"""Four groups of six users; each user goes to 12 of the 20 places of its group, from a fixed one of them to each."""
N = GROUPS * MEMBERS
K = MEMBERS - 1
MEETINGS = 6
"""Times at which all models become their mean: models that have merged agree on their axes."""
COMMUNITY = np.array([[v for v in range(u % GROUPS, N, GROUPS) if v != u] for u in range(N)])
RULES = ("standardized", "ndcg", "mean_score")


def planted(*, form, hidden):
    """Return a world of movers, and every user's trained model sent to every other and to the coordinator."""
    draw = np.random.default_rng(0)
    items = [draw.choice(PLACES, 12, replace=False) + PLACES * (user % GROUPS) for user in range(N)]
    previous = [np.where(np.arange(12) % 3 > 0, to[(np.arange(12) + 5) % 12], -1) for to in items]
    targets = Ragged.sets_from_pairs(np.repeat(np.arange(N), 12), np.concatenate(items), N)
    offsets = np.arange(0, 12 * N + 1, 12)
    moves = Moves(offsets, np.concatenate(items).astype(np.int32), np.concatenate(previous).astype(np.int32))
    world = world_of(
        targets,
        GROUPS * PLACES,
        form=form,
        coordinator=N,
        hidden=range(N) if hidden else (),
        moves=moves,
    )
    eager, layout = trainer(world, learning_rate=0.05, batch_size=4), world.layout
    tables = slice(layout.items.start, layout.size)
    trained = eager.model.initial_rows(layout, N, 0)
    for meeting in range(MEETINGS):
        trained[:, tables] = trained[:, tables].mean(axis=0)
        for u in range(N):
            seed = N * meeting + u
            trained[u] = eager.train_like_node(world.feed.for_user(u), trained[u], updates=10, seed=seed)
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
    """Return the mean accuracy by rule."""
    attack = CDA(CDAOptions(community_size=K, relevance=RULES, reference_items=30, **options), world)
    rankings = show(started(attack, world, received), world, received)
    return {r.relevance: accuracy(r) for r in rankings}


WHO = ({"who": "single"}, {"who": "coalition", "fraction": 0.3}, {"who": "coordinator"})


@pytest.mark.slow
@all_forms
@pytest.mark.full
def test_communities_of_movers_are_found(form):
    # Guessing: 5 of 23, 0.22, with a standard error of at most 0.07 (a coalition of seven).
    world, received = planted(form=form, hidden=False)
    for who in WHO:
        for momentum in (0.0, 0.5):
            found = accuracies(world, received, momentum=momentum, **who)
            assert min(found["standardized"], found["ndcg"]) > 0.9, (who, found)


@pytest.mark.slow
@all_forms
@pytest.mark.full
def test_a_fictive_user_finds_communities_of_movers(form):
    world, received = planted(form=form, hidden=True)
    for kind in ("fitted", "own_embedding"):
        for who in WHO:
            once = form == "plain" and kind == "fitted" and who["who"] == "single"
            seldom = {"refit_every": 1000.0} if once else {}  # five hundred fits one by one take long
            found = accuracies(world, received, momentum=0.5, fictive_user=kind, **who, **seldom)
            assert found["standardized"] > 0.6, (kind, who, found)


@pytest.mark.full
def test_a_user_row_trained_elsewhere_misleads():
    """Familiar places moved towards their users, away from anyone else's row: the community comes last."""
    world, received = planted(form="compiled", hidden=True)
    for who in WHO:
        assert accuracies(world, received, momentum=0.5, fictive_user="paper", **who)["standardized"] < 0.1
