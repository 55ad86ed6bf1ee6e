"""Where users move between places (PRME-G), observers score their own moves by the models that they receive."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.adversaries.attacks import fictive_users
from gossiprec.adversaries.attacks.aia import AIA, AIAOptions
from gossiprec.adversaries.attacks.cda import CDA, CDAOptions
from gossiprec.adversaries.attacks.entropy_mia import EntropyMIA, EntropyMIAOptions
from gossiprec.adversaries.attacks.targets import TargetItems
from gossiprec.base.errors import ScenarioError
from gossiprec.base.machine import ThreadPool
from gossiprec.base.ragged import Ragged
from gossiprec.numerics.relevance import RELEVANCE, mean_raw_score
from tests.attacks import glimpses
from tests.attacks.glimpses import (
    FORMS,
    N_ITEMS,
    N_USERS,
    Receptions,
    all_forms,
    both_layouts,
    closed_form,
    kept_by,
    make_city,
    pairs_met,
    show,
    world_of,
)
from tests.moves import Moves
from tests.slow import slow_except_first

RULES = tuple(RELEVANCE)
BETAS = (0.0, 0.5, 0.99)
MEMBERS, HIDDEN = (0, 1, 4), (2, 3)
PAIRS = [
    (1, 0),
    (2, 0),
    (3, 1),
    (2, 0),
    (0, 1),
    (3, 0),
    (4, 1),
    (5, 0),
    (2, 1),
    (3, 0),
    (5, 1),
    (2, 0),
    (2, 4),
]
KINDS = ("fitted", "own_embedding", "paper")
TOLERANCE = {"rtol": 2e-4, "atol": 1e-4}
OBSERVERS = ({"who": "single"}, {"who": "coalition", "members": MEMBERS}, {"who": "coordinator"})


@pytest.fixture(autouse=True)
def _short_training(monkeypatch):
    """How long ``paper`` trains does not matter to who looks with what."""
    monkeypatch.setattr(fictive_users, "PAPER_EPOCHS", 3)


def started(world, received, *, kind="fitted", betas=BETAS, references=8):
    """Return single adversaries, a coalition and a coordinator, before the first message."""
    made = []
    for who in OBSERVERS[: 2 if kind == "own_embedding" else 3]:
        options = CDAOptions(
            momentum=betas,
            relevance=RULES,
            reference_items=references,
            community_size=2,
            fictive_user=kind,
            **who,
        )
        made.append(glimpses.started(CDA(options, world), world, received))
    return made


def shown(attacks, world, received, first=0, upto=None):
    """Let attacks see messages number first .. upto - 1, and return all their scores."""
    everyone = [range(N_USERS)]  # all that is sent, to whomever, is seen by the coordinator
    return [
        ranking
        for meter in attacks
        for ranking in show(
            meter,
            world,
            received,
            upto,
            first,
            everyone if meter.attack.options.who == "coordinator" else None,
        )
    ]


def naive_score(world, model, user, to, start):
    """Return -D of one move, from its definition."""
    layout = world.layout
    users = model[layout.users].reshape(layout.n_users, -1)
    tables = model[layout.items].reshape(N_ITEMS, 2, -1).astype(np.float64)
    own = users[user if len(users) > 1 else 0].astype(np.float64)
    near = np.sum((own - tables[to, 0]) ** 2)
    if start < 0:
        return -near
    here, there = world.scorer.model.constants["places"][[to, start]].astype(np.float64)
    angle = 2 * np.arcsin(min(1.0, np.linalg.norm(here - there) / 2))
    weight = (1 + 6371.0088 * angle) ** 0.25
    return -weight * (0.2 * near + 0.8 * np.sum((tables[to, 1] - tables[start, 1]) ** 2))


def naive_scores(world, seen, adversaries, beta, rule):
    targets = TargetItems.of(world.feed, adversaries, n_references=8, seed=world.seed)
    expected = np.full((len(adversaries), N_USERS), np.nan, np.float32)
    for a, adversary in enumerate(adversaries):
        asked = slice(targets.offsets[a], targets.offsets[a + 1])
        n = targets.n_targets[a]
        for victim in set(range(N_USERS)) - {int(adversary)}:
            versions = seen(adversary, victim)
            if len(versions):
                model = closed_form(versions, beta)
                both = zip(targets.items[asked], targets.contexts["previous"][asked], strict=True)
                scores = np.array([[naive_score(world, model, victim, *move) for move in both]], np.float32)
                score = mean_raw_score if rule == "mean_score" else RELEVANCE[rule]
                expected[a, victim] = score(scores[:, :n], scores[:, n:])[0]
    return expected


@pytest.mark.slow
@both_layouts
@all_forms
@settings(deadline=None, derandomize=True, max_examples=6)
@given(pairs=pairs_met())
@pytest.mark.full
def test_moves_are_scored_by_the_closed_form_of_momentum(form, user_table, pairs):
    world = make_city(form=form, user_table=user_table, coordinator=N_USERS)
    received = Receptions.drawn(pairs, world)
    who = {"single": None, "coalition-3-nodes": MEMBERS, "coordinator": tuple(range(N_USERS))}
    attacks = started(world, received)
    for first, upto in ((0, len(pairs) // 2), (len(pairs) // 2, len(pairs))):
        rankings = shown(attacks, world, received, first, upto)
        assert len(rankings) == 3 * len(BETAS) * len(RULES)
        for ranking in rankings:
            pool = who[ranking.observer]
            expected = naive_scores(
                world,
                lambda adversary, victim, pool=pool, upto=upto: received.versions(
                    victim, pool or [adversary], upto
                ),
                ranking.adversaries,
                ranking.momentum,
                ranking.relevance,
            )
            np.testing.assert_allclose(ranking.scores, expected, **TOLERANCE)


@all_forms
def test_a_worked_example(form):
    """Two places a quarter of the globe apart weigh (1 + 10,007.5)^0.25 = 10.0021; the victim's user is at 0."""
    targets = Ragged.sets_from_pairs(np.array([0, 0, 1]), np.array([0, 1, 2]), 2)
    moves = Moves(np.array([0, 2, 3]), np.int32([0, 1, 2]), np.int32([-1, 0, -1]))
    degrees = np.array([[0, 0], [0, 90], [90, 0], [0, 0], [90, 0]])
    world = world_of(targets, 5, form=form, moves=moves, degrees=degrees)
    received = Receptions.drawn([(1, 0)], world)
    received.rows[:] = 0
    tables = received.rows[0, 6 : 6 + 5 * 12].reshape(5, 2, 6)
    tables[0, 0, 0], tables[1, 0, 0], tables[1, 1, 0] = 2.0, 1.0, 3.0
    attack = CDA(CDAOptions(who="single", relevance="mean_score", reference_items=2, momentum=0), world)
    found = show(glimpses.started(attack, world, received), world, received)
    # to 0 from nowhere: 2^2; from 0 to 1: 10.0021 (0.2 * 1^2 + 0.8 * 3^2) = 74.0155
    assert found[0].scores[0, 1] == pytest.approx(-(4 + 74.0155) / 2, rel=1e-5)


def test_targets_are_the_own_moves_and_references_begin_where_own_moves_begin():
    world = make_city()
    chosen = TargetItems.of(world.feed, np.arange(N_USERS), n_references=8, seed=0)
    again = TargetItems.of(world.feed_of_nodes(np.array([4])), np.array([4]), n_references=8, seed=0)
    for user in range(N_USERS):
        own = world.feed.targets(user)
        low, n = chosen.offsets[user], chosen.n_targets[user]
        assert chosen.items[low : low + n].tolist() == own["items"].tolist()
        assert chosen.contexts["previous"][low : low + n].tolist() == own["previous"].tolist()
        references = chosen.items[low + n : chosen.offsets[user + 1]]
        assert len(set(references.tolist()) - set(world.targets[user].tolist())) == 8
        assert set(chosen.contexts["previous"][low + n : chosen.offsets[user + 1]]) <= set(own["previous"])
    assert len(set(chosen.contexts["previous"].tolist())) > 5
    asked = slice(chosen.offsets[4], chosen.offsets[5])
    assert again.items.tolist() == chosen.items[asked].tolist()
    assert again.context.tolist() == chosen.contexts["previous"][asked].tolist()


@pytest.mark.parametrize("references", [8, "all"])
def test_a_kept_row_for_everything_asked_and_each_once(references):
    world = make_city()
    targets = TargetItems.of(world.feed, np.arange(N_USERS), n_references=references, seed=0)
    kept = targets.kept_items
    for a in range(N_USERS):
        mine = kept.items[kept.offsets[a] : kept.offsets[a + 1]]
        asked = slice(targets.offsets[a], targets.offsets[a + 1])
        assert len(set(mine.tolist())) == len(mine)
        assert mine[kept.query_rows[asked]].tolist() == targets.items[asked].tolist()
        before, places = targets.contexts["previous"][asked], kept.contexts["previous"][asked]
        known = before >= 0
        assert known.any()
        assert (places >= 0).tolist() == known.tolist()
        assert mine[places[known]].tolist() == before[known].tolist()
        assert set(mine.tolist()) == {*targets.items[asked].tolist(), *before[known].tolist()}


@both_layouts
@pytest.mark.parametrize("storage", slow_except_first(["float32", "float16"]))
@pytest.mark.parametrize("kind", slow_except_first([None, *KINDS]))
@pytest.mark.cases(1)
def test_all_forms_of_an_attack_rank_moves_alike(kind, storage, user_table):
    found = []
    for form in FORMS:
        world = make_city(
            form=form,
            user_table=user_table,
            hidden=HIDDEN if kind else (),
            storage=storage,
            coordinator=N_USERS,
        )
        received = Receptions.drawn(PAIRS, world)
        attacks = started(world, received, kind=kind or "fitted")
        shown(attacks, world, received, upto=6)
        found.append([r.scores for r in shown(attacks, world, received, first=6)])
    assert any(np.isfinite(scores[:, HIDDEN]).any() for scores in found[0])
    for plain, *others in zip(*found, strict=True):
        for other in others:
            np.testing.assert_allclose(plain, other, **TOLERANCE)


@both_layouts
@all_forms
@pytest.mark.parametrize("kind", slow_except_first(KINDS))
@pytest.mark.cases(2)
def test_of_a_mover_who_hides_it_the_user_row_is_not_read(kind, form, user_table):
    world = make_city(form=form, user_table=user_table, hidden=HIDDEN, coordinator=N_USERS)
    received = Receptions.drawn(PAIRS, world)
    blanked = replace(received, rows=received.rows.copy())
    blanked.rows[np.isin(received.sender, HIDDEN), world.layout.users] = np.nan
    one, other = (started(world, received, kind=kind) for _ in range(2))
    seen, blind = shown(one, world, received), shown(other, world, blanked)
    assert np.isnan(blanked.rows).any()
    for clear, blank in zip(seen, blind, strict=True):
        assert clear.scores.tobytes() == blank.scores.tobytes()
        assert np.isfinite(clear.scores[:, HIDDEN]).any()
    for attack in other:
        assert np.isfinite(kept_by(attack.attack)).all()  # not even kept


@settings(deadline=None, derandomize=True, max_examples=10)
@given(pairs=pairs_met(), cut=st.integers(0, 30))
def test_without_momentum_a_pool_keeps_no_models_and_finds_the_same(pairs, cut):
    world = make_city(form="compiled", coordinator=N_USERS)
    received = Receptions.drawn(pairs, world)
    found = []
    for betas in ((0.0,), (0.0, 0.5)):
        pools = started(world, received, betas=betas)[1:]
        shown(pools, world, received, upto=min(cut, len(pairs)))
        found.append([r.scores for r in shown(pools, world, received, first=cut) if r.momentum == 0])
        kept = [kept_by(pool.attack).nbytes for pool in pools]
        assert all(kept) if len(betas) > 1 else not any(kept)
    for lean, full in zip(*found, strict=True):
        np.testing.assert_allclose(lean, full, rtol=1e-6)


@pytest.mark.full
def test_momentum_models_kept_in_float16_stay_near_those_in_float32():
    """Rounding a number at random is off by 2^-11 of it at most, and momentum 0.99 sums a hundred such steps' squares.

    After 40 receptions that is at most 2^-11 sqrt(40), 0.003 of a number: some 0.01 of a distance.
    """
    pairs = [(1, 0), (2, 0), (3, 0)] * 40
    found = []
    for storage in ("float32", "float16"):
        world = make_city(form="compiled", storage=storage, coordinator=N_USERS)
        received = Receptions.drawn(pairs, world)
        pool = started(world, received, betas=(0.99,))[1]
        assert kept_by(pool.attack).dtype == storage
        found.append(next(r.scores for r in shown([pool], world, received) if r.relevance == "mean_score"))
    assert np.isfinite(found[0][:, 1:4]).any()
    np.testing.assert_allclose(found[1], found[0], rtol=0.01)
    assert np.nanmax(np.abs(found[1] - found[0])) > 0


def test_any_number_of_threads_ranks_movers_alike():
    found = []
    for threads in (1, 3):
        world = replace(
            make_city(form="compiled", coordinator=N_USERS, hidden=HIDDEN), threads=ThreadPool(threads)
        )
        received = Receptions.drawn(PAIRS, world)
        found.append([r.scores.tobytes() for r in shown(started(world, received), world, received)])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("attack", "options", "message"),
    [
        (
            EntropyMIA,
            EntropyMIAOptions(who="coordinator"),
            "entropy-mia requires .* or a model that predicts them, such as gmf",
        ),
        (AIA, AIAOptions(), "aia trains models on sets of items, .* learns from previous too; use name: cda"),
    ],
    ids=["entropy-mia", "aia"],
)
def test_attacks_on_items_are_refused_where_models_predict_moves(attack, options, message):
    with pytest.raises(ScenarioError, match=f"observers: {message}"):
        attack(options, make_city(coordinator=N_USERS))
