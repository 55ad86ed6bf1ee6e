"""Where blocks lie in a row, and how they are called again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.compute.executors.tensors import table_views
from gossiprec.models import MODELS, BlockRole, Layout, ParameterBlock
from gossiprec.models.base.parameter_blocks import normal, uniform, zeros
from tests.compute.worlds import make_model

N_ITEMS, N_USERS = 7, 4
MANY = (
    ParameterBlock("level", BlockRole.SHARED, (1,)),
    ParameterBlock("taste", BlockRole.USER, (2, 3)),
    ParameterBlock("kind", BlockRole.ITEM, (2, 3)),
    ParameterBlock("own", BlockRole.PRIVATE, (3, 2)),
    ParameterBlock("mood", BlockRole.USER, (1,)),
    ParameterBlock("bias", BlockRole.ITEM, (1,)),
    ParameterBlock("matrix", BlockRole.SHARED, (2, 2)),
)


@pytest.fixture(params=[1, N_USERS], ids=["own-row", "user-table"])
def n_users(request):
    return request.param


@pytest.fixture(params=["many", *MODELS])
def layout(request, n_users):
    if request.param == "many":
        return Layout(MANY, N_ITEMS, n_users)
    return make_model(request.param).layout(N_ITEMS, n_users)


def test_roles_are_disjoint_and_cover_the_parameters(layout):
    roles = (layout.users, layout.items, layout.shared, layout.private)
    covered = [place for role in roles for place in range(role.start, role.stop)]

    assert covered == list(range(layout.size))


def test_rows_are_whole_cache_lines(layout):
    assert layout.row_size % 16 == 0
    assert layout.size <= layout.row_size < layout.size + 16


def test_merging_spares_the_own_row_but_not_a_user_table_and_never_what_is_private(layout):
    first = layout.users.stop if layout.n_users == 1 else 0

    assert layout.merged == slice(first, layout.private.start)
    assert layout.message_bytes == 4 * layout.private.start


def test_the_tensors_of_a_row_are_the_row_in_order(layout):
    row = torch.arange(float(layout.row_size))
    tables = table_views(layout, row)

    assert torch.cat([part.flatten() for part in tables.values()]).tolist() == row[: layout.size].tolist()
    stacked = table_views(layout, torch.stack([row, -row]))
    assert all(
        (part[0] == tables[name]).all() and (part[1] == -tables[name]).all() for name, part in stacked.items()
    )


def test_blocks_lie_where_their_role_says_in_the_order_in_which_they_are_named(n_users):
    layout = Layout(MANY, N_ITEMS, n_users)
    row = np.arange(layout.size)
    tables = {name: part.numpy() for name, part in table_views(layout, torch.from_numpy(row)).items()}
    named = layout.blocks_by_name(tables)

    users = row[layout.users].reshape(n_users, 7)
    assert named["taste"].tolist() == users[:, :6].reshape(n_users, 2, 3).tolist()
    assert named["mood"].tolist() == users[:, 6:].tolist()
    items = row[layout.items].reshape(N_ITEMS, 7)
    assert named["kind"].tolist() == items[:, :6].reshape(N_ITEMS, 2, 3).tolist()
    assert named["bias"].tolist() == items[:, 6:].tolist()
    shared = row[layout.shared]
    assert named["level"].tolist() == shared[:1].tolist()
    assert named["matrix"].tolist() == shared[1:].reshape(2, 2).tolist()
    assert named["own"].tolist() == row[layout.private].reshape(3, 2).tolist()
    assert (layout.user_width, layout.item_width, layout.n_shared) == (7, 7, 5)


def test_a_block_is_a_view_of_the_row():
    layout = Layout(MANY, N_ITEMS, N_USERS)
    row = torch.zeros(layout.size)
    for part in layout.blocks_by_name(table_views(layout, row)).values():
        part += 1

    in_tables = 2.0  # those of users and items are also parts of their tables
    assert row[: layout.items.stop].unique().tolist() == [in_tables]
    assert row[layout.items.stop :].unique().tolist() == [1.0]


def test_a_versions_tables_are_views_of_items_and_shared_blocks_whatever_it_is_made_of():
    layout = Layout(MANY, N_ITEMS)
    row = np.arange(float(layout.row_size))
    version = row[layout.merged]
    expected = table_views(layout, torch.from_numpy(row))

    for flat in (version, torch.from_numpy(version)):
        found = layout.version_tables(flat)
        assert list(found) == ["items", "level", "matrix"]
        for name, table in found.items():
            assert table.tolist() == expected[name].tolist()
            table += 1
    assert (row[layout.merged] == np.arange(layout.merged.start, layout.merged.stop) + 2).all()
    assert list(Layout(MANY[:2], N_ITEMS).version_tables(version[:1])) == ["level"]  # no item table


def test_a_part_is_one_users_row_some_items_and_the_shared_weights(n_users):
    layout = Layout(MANY, N_ITEMS, n_users)
    row, kept, user = np.arange(layout.row_size, dtype=np.float32), np.array([5, 0, 2]), 3
    small = Layout(MANY, len(kept))

    part = layout.extract_submodel(row, kept, user)

    assert part.shape == (small.row_size,)
    begin = 0 if n_users == 1 else 3 * 7
    assert part[small.users].tolist() == row[begin : begin + 7].tolist()
    assert part[small.items].tolist() == row[layout.items].reshape(N_ITEMS, 7)[kept].ravel().tolist()
    assert part[small.shared].tolist() == row[layout.shared].tolist()
    assert not part[small.private].any()


def test_user_index_is_the_place_of_the_nodes_own_row():
    nodes = np.arange(N_USERS)

    assert Layout(MANY, N_ITEMS, 1).user_index(nodes).tolist() == [0] * N_USERS
    assert Layout(MANY, N_ITEMS, N_USERS).user_index(nodes).tolist() == nodes.tolist()


def test_first_versions_are_drawn_by_each_blocks_own_law_in_the_order_of_the_row():
    """Draws of a block follow those of the one before, of one generator for each role."""
    blocks = (
        ParameterBlock("p", BlockRole.ITEM, (2,), normal(0.5)),
        ParameterBlock("q", BlockRole.ITEM, (1,), uniform(2.0)),
        ParameterBlock("w", BlockRole.SHARED, (3,), zeros),
    )
    layout = Layout(blocks, N_ITEMS)
    drawn, rng = layout.initial_common(np.random.default_rng(1)), np.random.default_rng(1)
    p, q = rng.normal(0.0, 0.5, 2 * N_ITEMS).reshape(-1, 2), rng.uniform(-1.0, 1.0, N_ITEMS)[:, None] * 2.0

    expected = np.concatenate([np.concatenate([p, q], axis=1).ravel(), np.zeros(3)])
    assert drawn.tolist() == expected.astype(np.float32).tolist()


def test_what_is_private_begins_at_each_node_with_draws_of_its_own():
    class Model(type(make_model("gmf"))):
        def blocks(self):
            return (*super().blocks(), ParameterBlock("own", BlockRole.PRIVATE, (4,), normal(1.0)))

    model = Model(Model.Options())
    rows = model.initial_rows(model.layout(N_ITEMS), N_USERS, 3)
    private = rows[:, model.layout(N_ITEMS).private]

    assert len(np.unique(private)) == 4 * N_USERS
    gmf = make_model("gmf")
    assert (
        rows[:, : gmf.layout(N_ITEMS).size].tolist()
        == gmf.initial_rows(gmf.layout(N_ITEMS), N_USERS, 3)[:, : gmf.layout(N_ITEMS).size].tolist()
    )
