"""Victims that keep their user row: no attack reads it, and each is scored with a user of the adversary's making."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from gossiprec.adversaries.attacks import fictive_users
from gossiprec.adversaries.attacks.cda import CDA, CDAOptions
from gossiprec.adversaries.attacks.entropy_mia import EntropyMIA, EntropyMIAOptions
from gossiprec.adversaries.attacks.fictive_users import FictiveUsers
from gossiprec.adversaries.attacks.targets import TargetItems
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.compute.local_update import NodeSettings
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.arena import Arena
from gossiprec.models.base.kernel_interface import FIT_NEGATIVES, FIT_RATE, FIT_STEPS
from gossiprec.models.feeds import PointwiseFeed
from gossiprec.numerics.relevance import RELEVANCE, get_rule
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
    make_world,
    show,
    started,
)
from tests.compute.worlds import make_executor, make_model
from tests.slow import slow_except_first

TOLERANCE = {"rtol": 2e-4, "atol": 1e-4}
"""As in test_observed_momentum; a fit's thirty steps of Adam add 1e-6 to a user row of 0.3."""

RULES = tuple(RELEVANCE)
BETAS = (0.0, 0.9)
HIDDEN = (0, 2, 3, 5)
PAIRS = [(1, 0), (2, 0), (3, 1), (2, 0), (0, 1), (3, 0), (4, 1), (5, 0), (2, 1), (3, 0), (5, 1), (2, 0)]
MEMBERS = (0, 1)
FITTED, OWN, PAPER = "fitted", "own_embedding", "paper"
all_kinds = pytest.mark.parametrize("kind", [FITTED, OWN, PAPER])


@pytest.fixture(autouse=True)
def _short_training(monkeypatch):
    """How long ``paper`` trains does not matter to who looks with what."""
    monkeypatch.setattr(fictive_users, "PAPER_EPOCHS", 3)


def attacks(world, kind, received, *, references=8, **of_single):
    """Return single adversaries and a coalition, before the first message."""
    made = []
    for who in ({"who": "single", **of_single}, {"who": "coalition", "members": MEMBERS}):
        given = {"momentum": BETAS, "community_size": 2, "fictive_user": kind, **who}
        made.append(CDA(CDAOptions(relevance=RULES, reference_items=references, **given), world))
        made.append(EntropyMIA(EntropyMIAOptions(threshold=(0.3, 0.7), **given), world))
    return [started(attack, world, received) for attack in made]


@pytest.mark.slow
@both_layouts
@all_forms
@all_kinds
@pytest.mark.cases(3)
def test_what_a_victim_hides_is_not_read(kind, form, user_table):
    world = make_world(form=form, user_table=user_table, hidden=HIDDEN)
    received = Receptions.drawn(PAIRS, world)
    blanked = replace(received, rows=received.rows.copy())
    hides = np.isin(received.sender, HIDDEN)
    blanked.rows[hides, world.layout.users] = np.nan
    assert np.isnan(blanked.rows).any()
    for one, other in zip(attacks(world, kind, received), attacks(world, kind, blanked), strict=True):
        for seen, blind in zip(show(one, world, received), show(other, world, blanked), strict=True):
            assert seen.scores.tobytes() == blind.scores.tobytes()
            assert (~np.isnan(seen.scores[:, HIDDEN])).any()
        assert np.isfinite(kept_by(other.attack)).all()  # not even kept


@both_layouts
@all_kinds
@pytest.mark.parametrize("references", slow_except_first([8, "all"]))
@pytest.mark.cases(1)
def test_all_forms_of_an_attack_rank_alike(kind, user_table, references):
    found = []
    for form in FORMS:
        world = make_world(form=form, user_table=user_table, hidden=HIDDEN)
        received = Receptions.drawn(PAIRS, world)
        made = attacks(world, kind, received, references=references)
        for attack in made:
            show(attack, world, received, upto=6)
        found.append([r.scores for attack in made for r in show(attack, world, received, first=6)])
    for plain, *others in zip(*found, strict=True):
        for other in others:
            np.testing.assert_allclose(plain, other, **TOLERANCE)


@pytest.mark.slow
@all_kinds
@pytest.mark.cases(1)
def test_what_is_merged_together_is_looked_at_in_its_order(kind):
    """Users are fitted anew in between; each form sees both receivers' six deliveries at once."""
    found, often = [], {"refit_every": 4.0} if kind == FITTED else {}
    for form in FORMS:
        world = make_world(form=form, hidden=HIDDEN)
        received = Receptions.drawn(PAIRS, world)
        order = np.argsort(received.receiver, kind="stable").astype(np.int32)
        rows, nodes = np.concatenate([received.rows, world.own]), np.arange(2, dtype=np.int32)
        own = nodes + np.int32(len(received.rows))
        keep = np.full(len(order), 0.5, np.float32)
        offsets = np.array([0, *np.cumsum(np.bincount(received.receiver))])
        at_once = Program(nodes, own, own, np.full(2, -1, np.int32), offsets, order, keep, order)
        for single in attacks(world, kind, received, **often)[:2]:
            single.observe(rows, at_once, np.arange(2))
            found.append([ranking.scores for ranking in single.attack.rankings()])
        one_by_one = attacks(world, kind, received, **often)[0]
        apart = [ranking.scores for ranking in show(one_by_one, world, received)]
    forms = [cda + mia for cda, mia in zip(found[::2], found[1::2], strict=True)]
    for plain, *others in zip(*forms, strict=True):
        for other in others:
            np.testing.assert_allclose(plain, other, **TOLERANCE)
    alike = [np.allclose(*pair, **TOLERANCE, equal_nan=True) for pair in zip(found[-2], apart, strict=True)]
    assert all(alike) == (kind != OWN)  # an own model has merged what came before


def naive_fit(world, node, version, number):
    """Fit a user row to a node's items by Adam, in numpy: full batches of mean cross-entropy."""
    layout = world.layout
    made = FictiveUsers(world, targets_of(world), FITTED, 10.0)
    samples = made.feed.samples(node, update=number, negatives=FIT_NEGATIVES, seed=made.seed)
    items, labels = samples["items"], samples["labels"]
    assert len(items) == len(world.targets[node]) * 5
    table = version[layout.items].reshape(N_ITEMS, -1).astype(np.float64)
    features = table[items] * version[layout.shared][:-1]
    user = layout.initial_user(generator(world.seed, "fictive-user", node)).astype(float)
    m, v = np.zeros(8), np.zeros(8)
    for step in range(1, FIT_STEPS + 1):
        p = 1 / (1 + np.exp(-(features @ user + version[layout.shared][-1])))
        gradient = ((p - labels)[:, None] * features).mean(axis=0)
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        user -= FIT_RATE * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return user


def targets_of(world, adversaries=range(N_USERS)):
    return TargetItems.of(world.feed, np.array(adversaries), n_references=8, seed=world.seed)


def score_with(world, model, user, shared, own, references, rule):
    """Return a rule's value of a flat model's items, looked at with any user row and shared weights."""
    table = model[world.layout.items].reshape(N_ITEMS, -1)
    logits = (table @ (user * shared[:-1]) + shared[-1]).astype(np.float32)[None]
    return get_rule(rule)(logits[:, own], logits[:, references])[0]


@all_forms
def test_a_single_adversary_fits_to_the_first_model_it_receives_and_again_when_time_has_passed(form):
    world = make_world(form=form, hidden=HIDDEN)
    received = Receptions.drawn(PAIRS, world)
    layout, targets = world.layout, targets_of(world)
    for attack in attacks(world, FITTED, received, refit_every=4.0)[:1]:
        shown = show(attack, world, received)
    # Adversary 0 hears of hidden victims in messages 1, 3, 5, 7, 9, 11, sent at these times; it fits at 1, 5 and 9.
    users = {m: naive_fit(world, 0, received.rows[m], number) for number, m in enumerate((1, 5, 9))}
    looked_with = {2: (11, 9), 3: (9, 9), 5: (7, 5)}  # victim: its last message, and the fit in force
    own, references = targets.targets_and_references(0)
    for ranking in shown:
        for victim, (last, fit) in looked_with.items():
            model = closed_form(received.versions(victim, [0], last + 1), ranking.momentum)
            expected = score_with(
                world, model, users[fit], model[layout.shared], own, references, ranking.relevance
            )
            assert ranking.scores[0, victim] == pytest.approx(expected, rel=2e-3, abs=2e-3)


@pytest.mark.parametrize("name", slow_except_first(["mf", "ncf", "prme-g"]))
@pytest.mark.full
def test_fits_of_a_stack_are_those_of_one_at_a_time_whoever_is_beside(name):
    make = make_city if name == "prme-g" else make_world
    world = make(form="stacked", hidden=HIDDEN, model=make_model(name))
    who, frozen = np.arange(N_USERS), slice(world.layout.items.start, world.layout.shared.stop)
    rows = np.random.default_rng(5).normal(0, 0.5, (N_USERS, world.layout.row_size)).astype(np.float32)
    alone, together = (FictiveUsers(world, targets_of(world), FITTED, 10.0) for _ in range(2))
    for number in range(2):
        for a in who.tolist():
            alone.fit(a, rows[a], 3.0)
        begun = together.begin(who, np.full(N_USERS, 3.0))
        found = together.fitted(who, begun, lambda some: rows[some, frozen])
        np.testing.assert_allclose(found, alone.users, rtol=2e-4, atol=2e-5)
        assert begun.tolist() == [number] * N_USERS
        for some in (who[2:3], who[::-1]):
            again = together.fitted(some, begun[some], lambda places, some=some: rows[some[places], frozen])
            assert again.tobytes() == found[some].tobytes()
    assert together.due.tolist() == alone.due.tolist()
    assert together.n_fits.tolist() == alone.n_fits.tolist()
    assert len(np.unique(found, axis=0)) == N_USERS


@all_forms
def test_a_coalition_member_fits_to_its_present_model_however_often_it_has_looked(form):
    world = make_world(form=form, hidden=HIDDEN)
    received = Receptions.drawn(PAIRS, world)
    layout, targets = world.layout, targets_of(world, MEMBERS)
    often, once = (attacks(world, FITTED, received)[2] for _ in range(2))
    for first in (0, 4, 8):
        shown = show(often, world, received, first=first, upto=first + 4)
        world.own[:] *= np.float32(0.7 if first < 8 else 1)
    for ranking, alone in zip(shown, show(once, world, received), strict=True):
        assert ranking.scores.tobytes() == alone.scores.tobytes()
    for a, member in enumerate(MEMBERS):
        user = naive_fit(world, member, world.own[member], 0)
        own, references = targets.targets_and_references(a)
        for ranking in shown:
            for victim in set(HIDDEN) - {member}:
                model = closed_form(received.versions(victim, MEMBERS, 12), ranking.momentum)
                expected = score_with(
                    world, model, user, model[layout.shared], own, references, ranking.relevance
                )
                assert ranking.scores[a, victim] == pytest.approx(expected, rel=2e-3, abs=2e-3)


@all_forms
def test_rows_are_not_fitted_before_a_hidden_victim_is_met(form):
    world = make_world(form=form, hidden=(5,))
    received = Receptions.drawn(PAIRS, world)
    for attack in attacks(world, FITTED, received):
        users = attack.attack._fictive[0]
        show(attack, world, received, upto=7)
        assert not users.n_fits.any()
        show(attack, world, received, first=7)
        assert users.n_fits[:2].tolist() == [1, 1]


@both_layouts
@all_forms
def test_own_embedding_looks_with_the_adversarys_model_as_merged_so_far(form, user_table):
    world = make_world(form=form, user_table=user_table, hidden=HIDDEN)
    layout, targets = world.layout, targets_of(world)
    received = Receptions.drawn([(1, 0), (4, 0), (2, 0)], world)
    rows = np.concatenate([received.rows, world.own])
    at_once = replace(
        received.program, node=np.int32([0]), source=np.int32([3]), merge_offsets=np.array([0, 3])
    )
    attack = attacks(world, OWN, received)[0]
    attack.observe(rows, at_once, np.array([0]))

    own = world.own[0].astype(np.float64)
    for message in (0, 1, 2):  # message 2 hides its users
        part = layout.shared if message == 2 else slice(layout.merged.start, None)
        own[part] = 0.5 * own[part] + 0.5 * received.rows[message, part]
    for ranking in attack.attack.rankings():
        expected = score_with(
            world,
            received.rows[2],
            own[:8],
            own[layout.shared],
            *targets.targets_and_references(0),
            ranking.relevance,
        )
        assert ranking.scores[0, 2] == pytest.approx(expected, rel=1e-3, abs=1e-4)


@all_forms
def test_own_embedding_of_a_coalition_changes_with_its_models(form):
    world = make_world(form=form, hidden=HIDDEN)
    received = Receptions.drawn(PAIRS, world)
    layout, targets = world.layout, targets_of(world, MEMBERS)
    attack = attacks(world, OWN, received)[2]
    show(attack, world, received)
    world.own[:] *= np.float32(-0.5)
    for ranking in attack.attack.rankings():
        model = closed_form(received.versions(3, MEMBERS, 12), ranking.momentum)
        own = world.own[1]
        expected = score_with(
            world, model, own[:8], own[layout.shared], *targets.targets_and_references(1), ranking.relevance
        )
        assert ranking.scores[1, 3] == pytest.approx(expected, rel=1e-3, abs=1e-4)


@both_layouts
@all_forms
def test_accomplices_of_the_coordinator_look_with_their_own_rows(form, user_table):
    world = make_world(form=form, user_table=user_table, hidden=HIDDEN, coordinator=N_USERS)
    received = Receptions.drawn([(v, N_USERS) for v in range(N_USERS)] * 2, world)
    layout, targets = world.layout, targets_of(world)
    options = CDAOptions(
        who="coordinator",
        fictive_user=OWN,
        relevance=RULES,
        reference_items=8,
        momentum=BETAS,
        community_size=2,
    )
    for ranking in show(started(CDA(options, world), world, received), world, received):
        for a in range(N_USERS):
            own, users = world.own[a], world.own[a][layout.users].reshape(layout.n_users, -1)
            user = users[layout.user_index(np.array([a]))[0]]
            for victim in set(HIDDEN) - {a}:
                model = closed_form(received.versions(victim, [N_USERS], 2 * N_USERS), ranking.momentum)
                expected = score_with(
                    world,
                    model,
                    user,
                    own[layout.shared],
                    *targets.targets_and_references(a),
                    ranking.relevance,
                )
                assert ranking.scores[a, victim] == pytest.approx(expected, rel=1e-3, abs=1e-4)


def trained_alone(world, items, executor, seed):
    """Return the model of a single node with these items, which trained as the paper's fictive user does."""
    work = world.executor.work
    arena = Arena(world.layout, n_nodes=1, capacity=1, moments=True)
    work.model.fill_rows(arena.rows, world.layout, seed)
    feed = PointwiseFeed(Ragged(np.array([0, len(items)]), items), N_ITEMS)
    alone = replace(work, feed=feed, arena=arena, seed=seed, node_settings=NodeSettings.without_policies(1))
    for update in range(fictive_users.PAPER_EPOCHS):
        make_executor(executor, alone).run(
            Program.of_updates(np.zeros(1, np.int32), np.array([update], np.int32)), np.zeros(1, np.int64)
        )
    return arena.rows[0]


@all_forms
def test_papers_user_is_that_of_a_model_trained_on_the_targets_alone(form):
    world = make_world(form=form, hidden=HIDDEN)
    received = Receptions.drawn(PAIRS, world)
    attack = attacks(world, PAPER, received)[0]
    for node in (0, 1):
        seed = int(generator(world.seed, "fictive-model", node).integers(2**62))
        trained = trained_alone(world, world.targets[node], FORMS[form], seed)
        assert attack.attack._fictive[0].users[node].tolist() == trained[:8].tolist()
        begun = world.executor.work.model.initial_rows(world.layout, 1, seed)[0]
        assert np.abs(trained[:8] - begun[:8]).max() > 1e-3
    show(attack, world, received)
    assert not attack.attack._fictive[0].n_fits.any()


@all_forms
@all_kinds
@pytest.mark.cases(5)
def test_victims_that_share_their_row_are_scored_as_ever(kind, form):
    worlds = [make_world(form=form, hidden=hidden) for hidden in ((), HIDDEN)]
    received = Receptions.drawn(PAIRS, worlds[0])
    open_ones = [v for v in range(N_USERS) if v not in HIDDEN]
    shown = [
        [r for attack in attacks(world, kind, received) for r in show(attack, world, received)]
        for world in worlds
    ]
    for without, among_hidden in zip(*shown, strict=True):
        assert without.scores[:, open_ones].tobytes() == among_hidden.scores[:, open_ones].tobytes()
        assert without.scores.tobytes() != among_hidden.scores.tobytes()


@all_forms
def test_a_hidden_victim_that_diverged_comes_last(form):
    world = make_world(form=form, hidden=(1, 2, 3))
    received = Receptions.drawn([(1, 0), (2, 0), (3, 0)], world)
    received.rows[1] = np.nan
    for attack in attacks(world, FITTED, received, references="all"):
        for ranking in show(attack, world, received):
            broken, *others = ranking.scores[0, [2, 1, 3]]
            assert not np.isnan(broken)
            assert broken <= min(others)


def test_options_that_do_not_fit_are_refused():
    for message, options in {
        "refit_every belongs to fictive_user: fitted, found fictive_user: paper": {
            "who": "single", "fictive_user": PAPER, "refit_every": 5,
        },
        "refit_every belongs to who: single, found who: coordinator; coalitions and the coordinator": {
            "who": "coordinator", "refit_every": 5,
        },
        "greater than 0": {"who": "single", "refit_every": 0},
        "Input should be 'fitted', 'own_embedding' or 'paper'": {"who": "single", "fictive_user": "theirs"},
    }.items():  # fmt: skip
        for kind in (CDAOptions, EntropyMIAOptions):
            with pytest.raises(ValidationError, match=message):
                kind(**options)
