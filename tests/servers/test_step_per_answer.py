"""Adam with one step per answer and shared moments, next to torch.optim.Adam stepped and undone client by client."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.base.errors import ScenarioError
from gossiprec.federated.perfedrec.coordinator import AveragedRows
from gossiprec.rules.aggregators import Inbox, ModelDelta
from gossiprec.rules.servers import ClientAnswers, RoundContext, make_server
from tests.layouts import layout_of

N_USERS, N_ITEMS, DIM, N_SHARED = 6, 9, 3, 4
LAYOUT = layout_of(DIM, DIM, N_SHARED, n_items=N_ITEMS)
RATE, BOUND = 0.256, 0.5


class Threads:
    """Several parts of a job, one after the other."""

    def __init__(self, size):
        self.size = size

    def run(self, job):
        for part in range(self.size):
            job(part)


def rounds_of_gradients(seed=3, n_rounds=7, scale=1.0):
    """Return, per round, each asked client with the dense gradients of users, items and shared weights."""
    draw = np.random.default_rng(seed)
    found = []
    for number in range(n_rounds):
        answers = []
        for client in draw.choice(N_USERS, 3 if number % 3 else 1, replace=False).tolist():
            users = np.zeros((N_USERS, DIM), np.float32)
            items = np.zeros((N_ITEMS, DIM), np.float32)
            users[client] = scale * draw.normal(size=DIM)
            some = np.sort(draw.choice(N_ITEMS - 1, 3, replace=False))  # the last item is never touched
            items[some] = scale * draw.normal(size=(3, DIM))
            answers.append(
                (client, users, some, items, (scale * draw.normal(size=N_SHARED)).astype(np.float32))
            )
        found.append(answers)
    return found


def as_published_code(rounds, start, shares_of):
    """Return the tables after all rounds: one Adam, parameters restored after each client, mean difference."""
    tables = [torch.nn.Parameter(torch.tensor(part)) for part in start]
    adam = torch.optim.Adam(tables, lr=RATE)
    for answers in rounds:
        before = [table.detach().clone() for table in tables]
        total = [torch.zeros_like(table) for table in before]
        for (_, users, _, items, shared), share in zip(answers, shares_of(answers), strict=True):
            for table, gradient in zip(tables, (users, items, shared), strict=True):
                table.grad = torch.tensor(gradient)
            adam.step()
            with torch.no_grad():
                for k, table in enumerate(tables):
                    total[k] += share * torch.clamp(table - before[k], -BOUND, BOUND)
                    table.copy_(before[k])
        with torch.no_grad():
            for table, first, moved in zip(tables, before, total, strict=True):
                table.copy_(first + moved)
    return [table.detach().numpy() for table in tables]


def by_server(rounds, start, weights_of, threads=1, resume_after=None):
    """Return the same tables by the coordinator's server, which is sent -gradient as what a client has changed."""
    told = {"name": "adam", "learning_rate": RATE, "step_per": "answer", "step_bound": BOUND}
    users, items, shared = start

    def made():
        table = AveragedRows(N_USERS, DIM, make_server(told))
        table.rows = users.copy()
        return make_server(told), table

    server, table = made()
    version = np.concatenate([items.ravel(), shared])
    for number, answers in enumerate(rounds):
        changes = [
            ModelDelta(some.astype(np.int32), -items[some], -shared) for _, _, some, items, shared in answers
        ]
        clients = np.array([client for client, *_ in answers])
        rows = np.stack([table.rows[client] - own[client] for client, own, *_ in answers])
        inbox = Inbox(version[None], np.zeros(len(answers), int), weights_of(answers), deltas=changes)
        round_ = RoundContext(1, number, N_USERS, LAYOUT, Threads(threads))
        found = ClientAnswers(clients, inbox, rows)
        version = server.round(version, version, found, round_).versions[0].copy()
        table.step(found, round_)
        if number == resume_after:
            states = server.state(), table.state()
            server, table = made()
            server.restore(states[0])
            table.restore(states[1])
    end = N_ITEMS * DIM
    return [table.rows, version[:end].reshape(N_ITEMS, DIM), version[end:]]


def start():
    draw = np.random.default_rng(1)
    return [
        draw.normal(size=shape).astype(np.float32) for shape in ((N_USERS, DIM), (N_ITEMS, DIM), N_SHARED)
    ]


def equal(answers):
    return np.ones(len(answers))


def by_size(answers):
    return np.array([1.0 + client for client, *_ in answers])


@pytest.mark.parametrize("scale", [1.0, 1e-3])
@pytest.mark.parametrize("weights", [equal, by_size])
@pytest.mark.parametrize("threads", [1, 3])
def test_moments_shared_over_answers_are_those_of_one_adam_for_all_clients(scale, weights, threads):
    rounds = rounds_of_gradients(scale=scale)
    wanted = as_published_code(rounds, start(), lambda answers: weights(answers) / weights(answers).sum())
    found = by_server(rounds, start(), weights, threads)
    for table, one, other in zip(start(), wanted, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=2e-5)
        assert np.abs(one - table).max() > 0.1


def test_moments_continue_after_a_resumption():
    rounds = rounds_of_gradients()
    for one, other in zip(
        by_server(rounds, start(), equal), by_server(rounds, start(), equal, resume_after=3), strict=True
    ):
        assert one.tobytes() == other.tobytes()


def test_a_row_at_rest_begins_to_move_with_the_right_square():
    """Thirty rounds without the item, then one with it: the square has decayed, the mean is nothing."""
    rounds = rounds_of_gradients(n_rounds=2)
    rest = [[(0, np.zeros((N_USERS, DIM), np.float32), np.array([8]), np.zeros((N_ITEMS, DIM), np.float32),
              np.zeros(N_SHARED, np.float32))] * 40] * 10  # fmt: skip
    wanted = as_published_code([*rounds, *rest, *rounds], start(), lambda a: np.full(len(a), 1 / len(a)))
    found = by_server([*rounds, *rest, *rounds], start(), equal)
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=5e-5)


def test_a_step_is_bounded_per_round_as_well():
    server = make_server({"name": "adam", "learning_rate": 0.4, "step_bound": 0.25})
    version = np.zeros(7, np.float32)
    answers = ClientAnswers(np.array([0]), Inbox(version[None], np.array([0]), np.ones(1)))
    found = server.round(
        version, np.full(7, 3.0, np.float32), answers, RoundContext(1, 0, 4, LAYOUT)
    ).versions[0]
    assert found.tolist() == [0.25] * 7


def test_rows_without_a_server_move_by_their_client_s_share():
    table = AveragedRows(3, 2, None)
    told = np.array([[4.0, 8.0], [np.nan, np.nan]], np.float32)  # the second, a poisoner, tells of no user
    inbox = Inbox(np.zeros((2, 1)), np.arange(2), np.array([1.0, 3.0]))
    table.step(ClientAnswers(np.array([2, 0]), inbox, told), RoundContext(1, 1, 3, LAYOUT))
    assert table.rows.tolist() == [[0, 0], [0, 0], [1, 2]]


def test_both_answers_of_a_client_in_a_round_move_its_row():
    table = AveragedRows(2, 2, None)
    told = np.array([[4.0, 8.0], [8.0, 0.0]], np.float32)
    inbox = Inbox(np.zeros((2, 1)), np.arange(2), np.array([1.0, 3.0]))
    table.step(ClientAnswers(np.array([1, 1]), inbox, told), RoundContext(1, 1, 2, LAYOUT))
    assert table.rows.tolist() == [[0, 0], [7, 2]]


def test_whole_models_are_refused():
    server = make_server({"name": "adam", "step_per": "answer"})
    version = np.zeros(7, np.float32)
    answers = ClientAnswers(np.array([0]), Inbox(version[None], np.array([0]), np.ones(1)))
    with pytest.raises(ScenarioError, match="step_per 'answer', but clients answer with whole models; set"):
        server.round(version, version, answers, RoundContext(1, 0, 4, LAYOUT))
