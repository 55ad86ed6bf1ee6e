"""What every registered model must keep: a new file in gossiprec/models is tested before it has a test."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.func import functional_call, vmap

from gossiprec.models import MODELS

N_ITEMS, N_USERS, SEED = 7, 4, 5


@pytest.fixture(params=list(MODELS))
def model(request):
    member = MODELS[request.param]
    return member(member.Options())


@pytest.fixture(params=[1, N_USERS], ids=["own-row", "user-table"])
def layout(request, model):
    return model.layout(N_ITEMS, request.param)


def random_module(model, layout):
    """Return the module in float64 with random parameters."""
    module = model.module(layout).double()
    rng = torch.Generator().manual_seed(SEED)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=rng, dtype=torch.float64)
    return module


def item_tables(model, layout):
    """Return the names of the parameters that the layout's item region holds."""
    start, names = 0, []
    for name, parameter in model.module(layout).named_parameters():
        if layout.items.start <= start < layout.items.stop:
            names.append(name)
        start += parameter.numel()
    return names


def batch():
    """Return five samples, the last two of which are padding."""
    items = torch.tensor([3, 0, 3, 0, 0])
    labels = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    return items, labels, torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0], dtype=torch.float64)


def test_roles_are_disjoint_and_cover_the_parameters(layout):
    covered = [
        i for role in (layout.users, layout.items, layout.shared) for i in range(role.start, role.stop)
    ]

    assert covered == list(range(layout.size))


def test_rows_are_whole_cache_lines(layout):
    assert layout.row_size % 16 == 0
    assert layout.size <= layout.row_size < layout.size + 16


def test_merging_spares_the_own_row_but_not_a_user_table(model):
    own, table = model.layout(N_ITEMS, 1), model.layout(N_ITEMS, N_USERS)

    assert own.merged == slice(own.users.stop, own.size)
    assert table.merged == slice(0, table.size)


def test_module_has_users_first_then_item_tables_then_shared_weights(model, layout):
    shapes = {name: parameter.shape for name, parameter in model.module(layout).named_parameters()}
    tables = item_tables(model, layout)

    assert next(iter(shapes)) == "users"
    assert shapes["users"] == (layout.n_users, layout.user_width)
    assert list(shapes)[1 : 1 + len(tables)] == tables
    assert all(shapes[name][0] == N_ITEMS for name in tables)
    assert sum(shapes[name].numel() for name in tables) == N_ITEMS * layout.item_width
    assert sum(shape.numel() for shape in shapes.values()) == layout.size


def test_a_logit_depends_on_the_asked_user_and_item_alone(model, layout):
    module, user, item = random_module(model, layout), layout.n_users - 1, 3

    module(torch.tensor([user]), torch.tensor([item])).sum().backward()

    gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
    touched = {
        name: gradients[name].flatten(1).any(1).nonzero().ravel().tolist()
        for name in gradients
        if gradients[name].ndim > 1
    }
    assert touched["users"] == [user]
    assert all(touched[name] == [item] for name in item_tables(model, layout))


def test_forward_gives_one_logit_per_item(model, layout):
    logits = random_module(model, layout)(torch.tensor([0]), torch.arange(N_ITEMS))

    assert logits.shape == (N_ITEMS,)


def test_module_works_stacked(model, layout):
    module = random_module(model, layout)
    parameters = {name: torch.stack([p.data, 2 * p.data]) for name, p in module.named_parameters()}
    items = torch.tensor([[0, 1], [2, 2]])
    user = torch.zeros(2, 1, dtype=torch.int64)

    stacked = vmap(lambda p, u, i: functional_call(module, p, (u, i)))(parameters, user, items)

    torch.testing.assert_close(stacked[0], module(user[0], items[0]).detach())


def test_gradient_of_the_loss_is_that_of_finite_differences(model, layout):
    module, (items, labels, weights) = random_module(model, layout), batch()
    named = dict(module.named_parameters())

    def loss(*values):
        logits = functional_call(module, dict(zip(named, values, strict=True)), (torch.tensor([0]), items))
        return model.loss(logits, labels, weights)

    assert torch.autograd.gradcheck(loss, tuple(named.values()), eps=1e-6, atol=1e-7)


def test_loss_is_a_mean_or_said_to_be_a_sum_and_ignores_padding(model):
    logits = torch.tensor([0.3, -1.2, 0.7, 9.0, -9.0], dtype=torch.float64)
    _, labels, weights = batch()

    padded = model.loss(logits, labels, weights)

    torch.testing.assert_close(padded, model.loss(logits[:3], labels[:3], weights[:3]))
    twice = model.loss(logits[:3].repeat(2), labels[:3].repeat(2), weights[:3].repeat(2))
    summed = getattr(model.options, "loss_reduction", "mean") == "sum"
    torch.testing.assert_close(2 * padded if summed else padded, twice)


def test_loss_pulls_positives_up_and_negatives_down(model):
    logits = torch.zeros(2, dtype=torch.float64, requires_grad=True)

    model.loss(logits, torch.tensor([1.0, 0.0]).double(), torch.ones(2).double()).backward()

    assert logits.grad[0] < 0 < logits.grad[1]


def test_initial_rows_are_the_same_every_time(model, layout):
    first, again = (model.initial_rows(layout, N_USERS, SEED).tobytes() for _ in range(2))

    assert first == again
    assert first != model.initial_rows(layout, N_USERS, SEED + 1).tobytes()


def test_initial_items_and_shared_weights_are_common(model, layout):
    rows = model.initial_rows(layout, N_USERS, SEED)[:, layout.items.start : layout.size]

    assert rows[0].any()
    assert (rows == rows[0]).all()


def test_initial_users_differ_and_ignore_who_else_exists(model):
    layout = model.layout(N_ITEMS)
    few, many = (model.initial_rows(layout, n, SEED)[:, layout.users] for n in (N_USERS, 2 * N_USERS))

    assert len(np.unique(many, axis=0)) == 2 * N_USERS
    assert few.tobytes() == many[:N_USERS].tobytes()


def test_initial_user_table_holds_every_nodes_row(model):
    alone, table = (model.layout(N_ITEMS, n) for n in (1, N_USERS))
    own = model.initial_rows(alone, N_USERS, SEED)[:, alone.users]

    rows = model.initial_rows(table, N_USERS, SEED)[:, table.users]

    assert all(row.tobytes() == own.tobytes() for row in rows)


def test_initial_padding_is_zero(model, layout):
    assert not model.initial_rows(layout, N_USERS, SEED)[:, layout.size :].any()


def test_user_index_is_the_place_of_the_nodes_own_row(model):
    nodes = np.arange(N_USERS)

    assert model.layout(N_ITEMS, 1).user_index(nodes).tolist() == [0] * N_USERS
    assert model.layout(N_ITEMS, N_USERS).user_index(nodes).tolist() == nodes.tolist()
