"""Victims that keep their user row: no attack reads it, and each is scored with a user of the adversary's making."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from gossiprec.attacks.cda import CDA, CDAOptions
from gossiprec.attacks.entropy_mia import EntropyMIA, EntropyMIAOptions
from gossiprec.attacks.fictive import NEGATIVES, PAPER_EPOCHS, RATE, STEPS, FictiveUsers
from gossiprec.attacks.relevance import RELEVANCE, rule_named
from gossiprec.attacks.surrogate import surrogate_model
from gossiprec.attacks.targets import TargetItems
from gossiprec.compute.train.local_update import draw_samples
from gossiprec.rng import generator
from tests.attacks.glimpses import N_ITEMS, N_USERS, Receptions, closed_form, make_world

TOLERANCE = {"rtol": 2e-4, "atol": 1e-4}
"""As in test_observed_momentum; a fit's thirty steps of Adam add 1e-6 to a user row of 0.3."""

RULES = tuple(RELEVANCE)
BETAS = (0.0, 0.9)
HIDDEN = (0, 2, 3, 5)
PAIRS = [(1, 0), (2, 0), (3, 1), (2, 0), (0, 1), (3, 0), (4, 1), (5, 0), (2, 1), (3, 0), (5, 1), (2, 0)]
MEMBERS = (0, 1)
FITTED, OWN, PAPER = "fitted", "own_embedding", "paper"
both_forms = pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
both_layouts = pytest.mark.parametrize("user_table", [False, True], ids=["own-row", "user-table"])
all_kinds = pytest.mark.parametrize("kind", [FITTED, OWN, PAPER])


def attacks(world, kind, *, references=8, **options):
    """Return single adversaries and a coalition (and with a coordinator, the coordinator), before the first message."""
    made = []
    for who in ({"who": "single"}, {"who": "coalition", "members": MEMBERS}):
        given = {"momentum": BETAS, "community_size": 2, "fictive_user": kind, **who, **options}
        made.append(CDA(CDAOptions(relevance=RULES, reference_items=references, **given), world))
        made.append(EntropyMIA(EntropyMIAOptions(threshold=(0.3, 0.7), **given), world))
    return made


def show(attack, world, received, upto=None, first=0):
    """Let an attack see messages number first .. upto - 1, and return its rankings."""
    upto = len(received.sender) if upto is None else upto
    own_versions = received.rows.shape[0] + received.receiver
    rows = np.concatenate([received.rows, world.executor.work.arena.rows])
    program = replace(received.program, source=own_versions.astype(np.int32))
    attack.observe(rows, program, np.arange(first, upto))
    sightings = received.sightings([MEMBERS] if attack.pools else [])
    low, high = np.searchsorted(sightings.message, [first, upto])
    attack.sight(rows, sightings, low, high)
    return attack.rankings()


def started(world, kind, received, **options):
    made = attacks(world, kind, **options)
    for attack in made:
        attack.foresee(received.meetings, 0)
    return made


@both_layouts
@both_forms
@all_kinds
def test_what_a_victim_hides_is_not_read(kind, compiled, user_table):
    world = make_world(compiled=compiled, user_table=user_table, hidden=HIDDEN)
    received = Receptions.drawn(PAIRS, world)
    blanked = replace(received, rows=received.rows.copy())
    hides = np.isin(received.sender, HIDDEN)
    blanked.rows[hides, world.executor.work.layout.users] = np.nan
    assert np.isnan(blanked.rows).any()
    for one, other in zip(started(world, kind, received), started(world, kind, blanked), strict=True):
        for seen, blind in zip(show(one, world, received), show(other, world, blanked), strict=True):
            assert seen.scores.tobytes() == blind.scores.tobytes()
            assert (~np.isnan(seen.scores[:, HIDDEN])).any()
        assert np.isfinite((other._alone or other._pooled)._memory).all()  # not even kept


@both_layouts
@all_kinds
@pytest.mark.parametrize("references", [8, "all"])
def test_compiled_and_plain_attacks_rank_alike(kind, user_table, references):
    found = []
    for compiled in (False, True):
        world = make_world(compiled=compiled, user_table=user_table, hidden=HIDDEN)
        received = Receptions.drawn(PAIRS, world)
        made = started(world, kind, received, references=references)
        for attack in made:
            show(attack, world, received, upto=6)
        found.append([r.scores for attack in made for r in show(attack, world, received, first=6)])
    for plain, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(plain, compiled, **TOLERANCE)


def naive_fit(world, node, version, number):
    """Fit a user row to a node's items by Adam, in numpy: full batches of mean cross-entropy."""
    layout = world.executor.work.layout
    fictive = FictiveUsers(world, targets_of(world), FITTED, 10.0)
    items, labels = draw_samples(fictive.data, node, update=number, negatives=NEGATIVES, seed=fictive.seed)
    assert len(items) == len(world.targets[node]) * 5
    table = version[layout.items].reshape(N_ITEMS, -1).astype(np.float64)
    features = table[items] * version[layout.shared][:-1]
    user = world.executor.work.model.initial_user(generator(world.seed, "fictive-user", node)).astype(float)
    m, v = np.zeros(8), np.zeros(8)
    for step in range(1, STEPS + 1):
        p = 1 / (1 + np.exp(-(features @ user + version[layout.shared][-1])))
        gradient = ((p - labels)[:, None] * features).mean(axis=0)
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        user -= RATE * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return user


def targets_of(world, adversaries=range(N_USERS)):
    return TargetItems.of(world.targets, np.array(adversaries), n_references=8, world=world)


def score_with(world, model, user, shared, own, references, rule):
    """Return a rule's value of a flat model's items, looked at with any user row and shared weights."""
    table = model[world.executor.work.layout.items].reshape(N_ITEMS, -1)
    logits = (table @ (user * shared[:-1]) + shared[-1]).astype(np.float32)[None]
    return rule_named(rule)(logits[:, own], logits[:, references])[0]


@both_forms
def test_a_single_adversary_fits_to_the_first_model_it_receives_and_again_when_time_has_passed(compiled):
    world = make_world(compiled=compiled, hidden=HIDDEN)
    received = Receptions.drawn(PAIRS, world)
    layout, targets = world.executor.work.layout, targets_of(world)
    for attack in started(world, FITTED, received, refit_every=4.0)[:1]:
        shown = show(attack, world, received)
    # Adversary 0 hears of hidden victims in messages 1, 3, 5, 7, 9, 11, sent at these times; it fits at 1, 5 and 9.
    users = {m: naive_fit(world, 0, received.rows[m], number) for number, m in enumerate((1, 5, 9))}
    looked_with = {2: (11, 9), 3: (9, 9), 5: (7, 5)}  # victim: its last message, and the fit in force
    own, references = targets[0]
    for ranking in shown:
        for victim, (last, fit) in looked_with.items():
            model = closed_form(received.versions(victim, [0], last + 1), ranking.momentum)
            expected = score_with(
                world, model, users[fit], model[layout.shared], own, references, ranking.relevance
            )
            assert ranking.scores[0, victim] == pytest.approx(expected, rel=2e-3, abs=2e-3)


@both_forms
def test_a_coalition_member_fits_to_its_present_model_at_a_report(compiled):
    world = make_world(compiled=compiled, hidden=HIDDEN)
    received = Receptions.drawn(PAIRS, world)
    layout, targets, arena = world.executor.work.layout, targets_of(world, MEMBERS), world.executor.work.arena
    attack = started(world, FITTED, received, refit_every=7.0)[2]
    fitted_to = []
    for first, upto in (
        (0, 4),
        (4, 8),
        (8, 12),
    ):  # reports at times 3, 7 and 11: the second is too early to refit
        fitted_to.append(arena.rows[list(MEMBERS)].copy())
        shown = show(attack, world, received, first=first, upto=upto)
        arena.rows *= np.float32(0.7)
    for a, member in enumerate(MEMBERS):
        user = naive_fit(world, member, fitted_to[2][a], 1)
        own, references = targets[a]
        for ranking in shown:
            for victim in set(HIDDEN) - {member}:
                model = closed_form(received.versions(victim, MEMBERS, 12), ranking.momentum)
                expected = score_with(
                    world, model, user, model[layout.shared], own, references, ranking.relevance
                )
                assert ranking.scores[a, victim] == pytest.approx(expected, rel=2e-3, abs=2e-3)


@both_forms
def test_rows_are_not_fitted_before_a_hidden_victim_is_met(compiled):
    world = make_world(compiled=compiled, hidden=(5,))
    received = Receptions.drawn(PAIRS, world)
    for attack in started(world, FITTED, received):
        fictive = attack._fictive[0]
        show(attack, world, received, upto=7)
        assert not fictive.n_fits.any()
        show(attack, world, received, first=7)
        assert fictive.n_fits[:2].tolist() == [1, 1]


@both_layouts
@both_forms
def test_own_embedding_looks_with_the_adversarys_model_as_merged_so_far(compiled, user_table):
    world = make_world(compiled=compiled, user_table=user_table, hidden=HIDDEN)
    layout, arena, targets = world.executor.work.layout, world.executor.work.arena, targets_of(world)
    received = Receptions.drawn([(1, 0), (4, 0), (2, 0)], world)
    rows = np.concatenate([received.rows, arena.rows])
    at_once = replace(
        received.program, node=np.int32([0]), source=np.int32([3]), merge_offsets=np.array([0, 3])
    )
    attack = started(world, OWN, received)[0]
    attack.observe(rows, at_once, np.array([0]))

    own = arena.rows[0].astype(np.float64)
    for message in (0, 1, 2):
        part = (
            layout.shared if message == 2 else slice(layout.merged.start, None)
        )  # message 2 hides its users
        own[part] = 0.5 * own[part] + 0.5 * received.rows[message, part]
    for ranking in attack.rankings():
        expected = score_with(
            world, received.rows[2], own[:8], own[layout.shared], *targets[0], ranking.relevance
        )
        assert ranking.scores[0, 2] == pytest.approx(expected, rel=1e-3, abs=1e-4)


@both_forms
def test_own_embedding_of_a_coalition_changes_with_its_models(compiled):
    world = make_world(compiled=compiled, hidden=HIDDEN)
    received = Receptions.drawn(PAIRS, world)
    layout, arena, targets = world.executor.work.layout, world.executor.work.arena, targets_of(world, MEMBERS)
    attack = started(world, OWN, received)[2]
    show(attack, world, received)
    arena.rows[: N_USERS + 1] *= np.float32(-0.5)
    for ranking in attack.rankings():
        model = closed_form(received.versions(3, MEMBERS, 12), ranking.momentum)
        own = arena.rows[1]
        expected = score_with(world, model, own[:8], own[layout.shared], *targets[1], ranking.relevance)
        assert ranking.scores[1, 3] == pytest.approx(expected, rel=1e-3, abs=1e-4)


@both_forms
def test_papers_user_is_that_of_a_model_trained_on_the_targets_alone(compiled):
    world = make_world(compiled=compiled, hidden=HIDDEN)
    work, received = world.executor.work, Receptions.drawn(PAIRS, world)
    attack = started(world, PAPER, received)[0]
    for node in (0, 1):
        seed = int(generator(world.seed, "fictive-model", node).integers(2**62))
        start = work.model.initial_rows(work.layout, 1, seed)[0]
        trained = surrogate_model(
            work, world.targets[node], start, updates=PAPER_EPOCHS, seed=seed, kind=type(world.executor)
        )
        assert attack._fictive[0].users[node].tolist() == trained[:8].tolist()
        assert np.abs(trained[:8]).max() > 0.1
    show(attack, world, received)
    assert not attack._fictive[0].n_fits.any()


@both_forms
@all_kinds
def test_victims_that_share_their_row_are_scored_as_ever(kind, compiled):
    worlds = [make_world(compiled=compiled, hidden=hidden) for hidden in ((), HIDDEN)]
    received = Receptions.drawn(PAIRS, worlds[0])
    open_ones = [v for v in range(N_USERS) if v not in HIDDEN]
    shown = [
        [r for attack in started(world, kind, received) for r in show(attack, world, received)]
        for world in worlds
    ]
    for without, among_hidden in zip(*shown, strict=True):
        assert without.scores[:, open_ones].tobytes() == among_hidden.scores[:, open_ones].tobytes()
        assert without.scores.tobytes() != among_hidden.scores.tobytes()


@both_forms
def test_a_hidden_victim_that_diverged_comes_last(compiled):
    world = make_world(compiled=compiled, hidden=(1, 2, 3))
    received = Receptions.drawn([(1, 0), (2, 0), (3, 0)], world)
    received.rows[1] = np.nan
    for attack in started(world, FITTED, received, references="all"):
        for ranking in show(attack, world, received):
            broken, *others = ranking.scores[0, [2, 1, 3]]
            assert not np.isnan(broken)
            assert broken <= min(others)


def test_options_that_do_not_fit_are_refused():
    for message, options in {
        "own_embedding needs a user; a coordinator has none": {"who": "coordinator", "fictive_user": OWN},
        "refit_every belongs to fictive_user: fitted, found fictive_user: paper": {
            "who": "single", "fictive_user": PAPER, "refit_every": 5,
        },
        "greater than 0": {"who": "single", "refit_every": 0},
        "Input should be 'fitted', 'own_embedding' or 'paper'": {"who": "single", "fictive_user": "theirs"},
    }.items():  # fmt: skip
        for kind in (CDAOptions, EntropyMIAOptions):
            with pytest.raises(ValidationError, match=message):
                kind(**options)
