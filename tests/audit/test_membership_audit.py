"""Membership inference recomputed in plain numpy from the messages of a tiny network."""

import numpy as np
import pytest
from scipy.stats import norm

from gossiprec.adversaries.attacks import ATTACKS, Attack
from gossiprec.adversaries.attacks.imia import fill_guess, keep_nearest
from gossiprec.adversaries.attacks.reference_models import ReferenceScores, tied_ranks, weighted_mean
from gossiprec.base.options import Options
from gossiprec.base.rng import purpose_id, uniforms
from gossiprec.emulation import simulate
from gossiprec.testing import temporarily_registered
from tests.emulation.tiny_runs import carried_out, tiny
from tests.slow import slow_except_first

N_USERS, N_ITEMS, DIM = 12, 40, 4
SPLIT = {"name": "leave_last_k", "test": 2, "validation": 1}
DATA = {
    "name": "synthetic",
    "users": N_USERS,
    "items": N_ITEMS,
    "interactions": 150,
    "communities": 3,
    "split": SPLIT,
}
PROTOCOLS = {
    "models": {"name": "fedavg", "rounds": 3},
    "updates": {"name": "fedavg", "rounds": 3, "client_model": "none"},
    "gossip": {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 4},
}


class Recorder(Attack):
    """Keeps each message that node 3, or the coordinator, is about to merge, with the version before it."""

    Options = Options

    def __init__(self, options, context):
        super().__init__(options, context)
        self.messages = []

    @property
    def nodes(self):
        return np.array([3 if self.context.coordinator is None else self.context.coordinator])

    def observe(self, seen):
        models = seen.models()
        for k, sender in enumerate(seen.senders.tolist()):
            base = seen.base(k)
            self.messages.append((sender, models[k], seen.own_model(k) if base is None else base))


def items_of(model):
    return model[DIM : DIM + N_ITEMS * DIM].reshape(N_ITEMS, DIM).astype(np.float64)


def played(protocol, *observers):
    """Return the recorded messages of users, and each attack's scores by victim and item."""
    who = {"who": "single", "nodes": [3]} if protocol == "gossip" else {"who": "coordinator"}
    training = {"learning_rate": 0.05, "batch_size": "full", "local_epochs": 3}
    scenario = tiny(
        dataset=DATA,
        model={"name": "mf", "dim": DIM, "init_std": 0.1},
        protocol=PROTOCOLS[protocol],
        training=training,
        observers=[{"name": "recorder"}, *({"pairs": 8, **who, **observer} for observer in observers)],
    )
    with temporarily_registered(ATTACKS, {"recorder": Recorder}):
        recorder, *attacks = carried_out(scenario).attacks
    scores = []
    for attack in attacks:
        (found,) = attack.item_scores()
        pairs = zip(found.victims.tolist(), found.items.tolist(), strict=True)
        scores.append(dict(zip(pairs, found.scores.tolist(), strict=True)))
    return [message for message in recorder.messages if message[0] < N_USERS], scores


def candidates_of(scores, victim):
    return np.array(sorted(item for owner, item in scores if owner == victim))


def direction_of(moves):
    found = (np.linalg.norm(moves, axis=1)[:, None] * moves).sum(axis=0)
    return found / np.linalg.norm(found)


@pytest.mark.parametrize("protocol", slow_except_first(PROTOCOLS))
def test_loss_and_updates(protocol):
    messages, (losses, evidence) = played(protocol, {"name": "loss-mia"}, {"name": "update-mia"})
    expected_losses, expected_evidence, last, sent = {}, {}, {}, None
    for sender, model, base in messages:
        if protocol == "models" and sender == messages[0][0]:
            sent = base  # the first answer of a round replaces the version that was sent
        before = {"updates": base, "models": sent, "gossip": last.get(sender)}[protocol]
        last[sender] = model
        own = candidates_of(losses, sender)
        after_rows, user = items_of(model)[own], model[:DIM].astype(np.float64)
        moves = np.zeros_like(after_rows) if before is None else after_rows - items_of(before)[own]
        logits, gains = after_rows @ user, moves @ user
        whole = np.linalg.norm(gains)
        if protocol == "updates":
            direction = direction_of(moves)
            logits, gains, whole = after_rows @ direction, moves @ direction, np.linalg.norm(moves)
            logits = (logits - logits.mean()) / logits.std()
        for item, logit, gain in zip(own.tolist(), logits, gains, strict=True):
            expected_losses[sender, item] = logit
            sofar = expected_evidence.get((sender, item), 0.0)
            expected_evidence[sender, item] = sofar + (gain / whole if whole else 0.0)

    assert len(losses) > 50
    for found, expected in ((losses, expected_losses), (evidence, expected_evidence)):
        assert found.keys() == expected.keys()
        assert [found[pair] for pair in expected] == pytest.approx(
            list(expected.values()), rel=2e-3, abs=2e-4
        )


def auc(own, other):
    own, other = np.array(own)[:, None], np.array(other)
    return (own > other).mean() + (own == other).mean() / 2


@pytest.mark.parametrize("non_members", ["popularity", "uniform"])
def test_results_of_items_and_of_users_data(non_members, tmp_path):
    attack = {"name": "loss-mia", "who": "coordinator", "pairs": 8, "non_members": non_members}
    scenario = tiny(dataset=DATA, protocol=PROTOCOLS["models"], observers=[attack], seed=5)
    live, run = carried_out(scenario), simulate(scenario, out=tmp_path / "run")
    found = {each["measure"]: each["value"] for each in run.summary["findings"]}
    (scores,) = live.attacks[0].item_scores()
    has = np.zeros((N_USERS, N_ITEMS), bool)
    for user in range(N_USERS):
        has[user, live.components.split.train[user]] = True
    pairs = [
        (victim, item, score, has[victim, item], has[:, item].sum() - has[victim, item])
        for victim, item, score in zip(
            scores.victims.tolist(), scores.items.tolist(), scores.scores.tolist(), strict=True
        )
    ]
    sides = [[pair for pair in pairs if pair[3] == kind] for kind in (True, False)]
    assert found["item_auc"] == pytest.approx(auc(*([pair[2] for pair in side] for side in sides)))
    others = [[pair[4] for pair in side] for side in sides]
    assert found["item_auc_popularity"] == pytest.approx(auc(*others))
    of_users = []
    for victim in range(N_USERS):
        own, other = ([pair for pair in side if pair[0] == victim] for side in sides)
        if non_members == "popularity":
            assert sorted(pair[4] for pair in own) == sorted(pair[4] for pair in other)
        counts = [min(sum(pair[4] == n for pair in side) for side in (own, other)) for n in range(N_USERS)]
        at_random = uniforms(5, np.arange(N_ITEMS), np.full(N_ITEMS, victim), purpose_id("membership-sets"))
        chosen = [
            [
                pair[2]
                for n in range(N_USERS)
                for pair in sorted((p for p in side if p[4] == n), key=lambda p: at_random[p[1]])[: counts[n]]
            ]
            for side in (own, other)
        ]
        of_users += [[np.mean(side) for side in chosen]] if chosen[0] else []
    assert len(of_users) > 5
    assert found["user_auc"] == pytest.approx(auc(*np.transpose(of_users)))


def test_the_likelihood_ratio():
    draw = np.random.default_rng(3)
    items, is_member = draw.integers(0, N_ITEMS - 2, 400).astype(np.int32), draw.random(400) < 0.5
    scores = draw.normal(np.where(is_member, 1.0, -0.5))
    references = ReferenceScores(items, scores, scores, is_member)
    observer = {"name": "lira", "who": "coordinator", "known": [0, 1, 2], "models": 2, "rounds": 1}
    (lira,) = carried_out(
        tiny(dataset=DATA, protocol=PROTOCOLS["models"], observers=[observer]), upto=1
    ).attacks
    asked, heights = np.array([0, 5, N_ITEMS - 1], np.int32), np.array([0.3, 1.0, -2.0])
    ratio = lira.judged(lira.fitted(references), asked, heights, heights)

    def log_density(members):
        kept = is_member == members
        overall = scores[kept].mean()
        means = [
            (scores[kept & (items == item)].sum() + overall) / (np.count_nonzero(kept & (items == item)) + 1)
            for item in range(N_ITEMS)
        ]
        rest = scores[kept] - np.array(means)[items[kept]]
        return norm.logpdf(heights, np.array(means)[asked], np.sqrt((rest**2).mean()))

    assert ratio == pytest.approx(log_density(True) - log_density(False))


def test_reference_models_are_weighted_means_of_users_and_ranks_share_ties():
    rows, weights = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([0.5, 0.3, 0.2])
    assert weighted_mean(rows, weights, slice(1, 3)) == pytest.approx((rows[:, 1:3].T * weights).sum(axis=1))
    assert tied_ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [0.75, 0.125, 0.75, 0.375]


def test_guesses_are_kept_where_rows_come_nearest():
    kept = np.array([1, 0, 0, -1, 0, 0], np.int8)
    draw = np.random.default_rng(0)
    guess = fill_guess(kept, draw)
    assert guess[0]
    assert not guess[3]
    assert guess.sum() == 3
    keep_nearest(kept, np.array([1, 1, 0, 0, 1, 0], bool), np.array([9.0, 2, 1, 9, 3, 4]), 2, draw)
    assert kept.tolist() == [1, 1, -1, -1, 0, 0]
    keep_nearest(kept, np.array([1, 1, 0, 0, 1, 0], bool), np.array([9.0, 9, 9, 9, 0, 4]), 1, draw)
    assert kept.tolist() == [1, 1, -1, -1, 1, -1]
