"""LightGCN and what contrasts its views, beside torch_geometric, dense matrices in float64, and loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gossiprec.base.ragged import Ragged
from gossiprec.models import MODELS
from gossiprec.models.base.contrastive import sum_info_nce
from gossiprec.models.base.graph import InteractionGraph
from gossiprec.models.lightgcn import mean_of_layers, propagate

N_USERS, N_ITEMS, DIM = 9, 14, 6
CLOSE = 1e-4
SGL, SIMGCL, XSIMGCL = "sgl", "simgcl", "xsimgcl"


@pytest.fixture(scope="module")
def positives():
    """Six items each; user 3 has none, and item 13 nobody."""
    draw = np.random.default_rng(0)
    each = [draw.choice(N_ITEMS - 1, 0 if user == 3 else 6, replace=False) for user in range(N_USERS)]
    return Ragged.from_parts([np.sort(items).astype(np.int32) for items in each])


@pytest.fixture(scope="module")
def graph(positives):
    return InteractionGraph.of(positives, N_ITEMS)


def model(name="lightgcn", **options):
    made = MODELS[name]
    return made(made.Options(**{"dim": DIM, **options}))


def tables(seed=1, dtype=torch.float32):
    draw = np.random.default_rng(seed)
    return {
        "users": torch.from_numpy(draw.normal(size=(N_USERS, DIM))).to(dtype),
        "items": torch.from_numpy(draw.normal(size=(N_ITEMS, DIM))).to(dtype),
    }


def batch(positives, seed, size=12):
    """Return samples: a user, one of its items, and an item that is not."""
    draw = np.random.default_rng(seed)
    chosen = draw.choice(len(positives.values), size, replace=False)
    users, items = positives.row_of_each_value[chosen], positives.values[chosen].astype(np.int64)
    others = [draw.choice(np.setdiff1d(np.arange(N_ITEMS), positives[user])) for user in users]
    columns = {"user": users, "items": items, "negatives": np.array(others)}
    return {name: torch.from_numpy(column) for name, column in columns.items()} | {
        "weights": torch.ones(size)
    }


def dense(positives):
    """Return D^-1/2 A D^-1/2 written as its definition: a square matrix, entry by entry, in float64."""
    size = N_USERS + N_ITEMS
    joined = np.zeros((size, size))
    for user in range(N_USERS):
        for item in positives[user]:
            joined[user, N_USERS + item] = joined[N_USERS + item, user] = 1.0
    found = np.zeros_like(joined)
    for one, other in zip(*np.nonzero(joined), strict=True):
        found[one, other] = 1.0 / (joined[one].sum() * joined[other].sum()) ** 0.5
    return found


def stacked(p):
    return torch.cat([p["users"], p["items"]])


def ten_steps(loss_of, parameters):
    """Take ten steps of Adam; return the gradient of the last one."""
    adam = torch.optim.Adam(parameters, lr=0.05)
    for number in range(10):
        adam.zero_grad()
        loss_of(number).backward()
        adam.step()
    return [parameter.grad for parameter in parameters]


def trained(positives, graph, layers, l2):
    """Return the scores and the last gradient of our own model after ten steps."""
    ours = model(layers=layers, l2=l2)
    p = {name: table.requires_grad_() for name, table in tables().items()}
    slopes = ten_steps(
        lambda number: ours.loss(ours.encode_step(p, graph, (), None), batch(positives, number)),
        list(p.values()),
    )
    with torch.no_grad():
        seen = ours.encode(p, graph)
        scores = torch.stack([ours.score_all_items(seen)(torch.tensor([user])) for user in range(N_USERS)])
    return scores, torch.cat(slopes)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_ten_steps_of_adam_end_where_dense_matrices_do(positives, graph, layers):
    scores, slopes = trained(positives, graph, layers, l2=0.01)

    matrix = torch.from_numpy(dense(positives))
    read_out = sum(torch.linalg.matrix_power(matrix, k) for k in range(layers + 1)) / (layers + 1)
    rows = torch.nn.Parameter(stacked(tables(dtype=torch.float64)))

    def loss_of(number):
        b = batch(positives, number)
        user, item, other = b["user"], N_USERS + b["items"], N_USERS + b["negatives"]
        ratings = (read_out @ rows) @ (read_out @ rows).T
        lost = torch.log1p(torch.exp(ratings[user, other] - ratings[user, item]))
        squares = (rows**2).sum(1)
        return (lost + 0.005 * (squares[user] + squares[item] + squares[other])).mean()

    (due,) = ten_steps(loss_of, [rows])
    expected = (read_out @ rows).detach()
    torch.testing.assert_close(
        scores, (expected[:N_USERS] @ expected[N_USERS:].T).float(), atol=CLOSE, rtol=CLOSE
    )
    torch.testing.assert_close(slopes, due.float(), atol=CLOSE, rtol=CLOSE)


@pytest.mark.slow
def test_ten_steps_of_adam_end_where_those_of_torch_geometric_do(positives, graph):
    models = pytest.importorskip("torch_geometric.nn.models")
    scores, slopes = trained(positives, graph, 2, l2=0.01)

    theirs = models.LightGCN(N_USERS + N_ITEMS, DIM, 2)
    theirs.embedding.weight.data = stacked(tables())
    ends = torch.from_numpy(np.stack([graph.users, graph.items + N_USERS]))
    edges = torch.cat([ends, ends.flip(0)], dim=1)

    def loss_of(number):
        b = batch(positives, number)
        pairs = torch.stack([b["user"].repeat(2), N_USERS + torch.cat([b["items"], b["negatives"]])])
        good, bad = theirs(edges, pairs).chunk(2)
        touched = torch.cat([b["user"], pairs[1]])
        return theirs.recommendation_loss(good, bad, touched, lambda_reg=0.005)  # ours is of half the squares

    (due,) = ten_steps(loss_of, [theirs.embedding.weight])
    with torch.no_grad():
        found = theirs.get_embedding(edges)
    torch.testing.assert_close(scores, found[:N_USERS] @ found[N_USERS:].T, atol=CLOSE, rtol=CLOSE)
    torch.testing.assert_close(slopes, due, atol=CLOSE, rtol=CLOSE)


def test_one_clients_star_is_a_graph_too():
    """A user with two items: by hand, 1/sqrt(2) of the items' sum, and 1/sqrt(2) of the user."""
    star = InteractionGraph.of(Ragged.from_parts([np.array([0, 2], np.int32)]), 3)
    rows = torch.tensor([[1.0], [2.0], [4.0], [6.0]])
    (layer,) = propagate(rows, star, 1)
    expected = torch.tensor([[8.0], [1.0], [0.0], [1.0]]) / 2**0.5
    torch.testing.assert_close(layer, expected)
    torch.testing.assert_close(mean_of_layers([rows, layer]), (rows + expected) / 2)


def test_a_view_lacks_a_share_of_the_edges_and_has_no_others(graph):
    view = graph.drop_random_edges(0.25, np.random.default_rng(3))
    edges, kept = (set(zip(g.users.tolist(), g.items.tolist(), strict=True)) for g in (graph, view))
    assert kept < edges
    assert len(kept) == len(view.users) == int(0.75 * len(edges))


def layers_by_hand(matrix, rows, n_layers, epsilon=0.0, draw=None):
    """Return layers 0 to n_layers, with noise of norm epsilon and the signs of the rows, one row after the other."""
    found = [rows]
    for _ in range(n_layers):
        layer = matrix @ found[-1]
        if epsilon:
            uniform = draw.random(layer.shape, np.float32).astype(np.float64)
            for row, noise in zip(layer, uniform, strict=True):
                row += epsilon * np.sign(row) * noise / np.sqrt((noise**2).sum())
        found.append(layer)
    return found


def info_nce_by_hand(one, other, rows, among, temperature):
    """Return the losses of some rows among others, each by its own sum."""

    def alike(a, b):
        norms = np.sqrt((a @ a) * (b @ b))
        return np.exp(a @ b / norms / temperature) if norms else 1.0  # a user without items has zeros

    return [-np.log(alike(one[r], other[r]) / sum(alike(one[r], other[s]) for s in among)) for r in rows]


def expected_loss(name, options, positives, views, b):
    """Return the loss of a step in float64, with draws in the order of the specification: view by view."""
    matrix, rows = dense(positives), stacked(tables(dtype=torch.float64)).numpy()
    draw, tau, epsilon = np.random.default_rng(7), options.temperature, getattr(options, "noise", 0.0)
    if name == SGL:
        seen = np.mean(layers_by_hand(matrix, rows, 2), axis=0)
        one, other = (np.mean(layers_by_hand(dense(view), rows, 2), axis=0) for view in views)
    elif name == SIMGCL:
        seen = np.mean(layers_by_hand(matrix, rows, 2)[1:], axis=0)
        one, other = (np.mean(layers_by_hand(matrix, rows, 2, epsilon, draw)[1:], axis=0) for _ in range(2))
    else:
        layers = layers_by_hand(matrix, rows, 2, epsilon, draw)
        one = seen = np.mean(layers[1:], axis=0)
        other = layers[1]
    users, items = b["user"].tolist(), [N_USERS + item for item in b["items"].tolist()]
    if options.contrast_with == "all":
        groups = (users, range(N_USERS)), (items, range(N_USERS, N_USERS + N_ITEMS))
    else:
        some = [sorted(set(users)), sorted(set(items))]
        groups = [(each, each) for each in ([some[0] + some[1]] if name == SGL else some)]
    reduce = getattr(np, options.contrast_reduction)
    contrast = sum(reduce(info_nce_by_hand(one, other, *group, tau)) for group in groups)
    lost = 0.0
    for user, item, other in zip(*(b[key].tolist() for key in ("user", "items", "negatives")), strict=True):
        ends = [user, N_USERS + item, N_USERS + other]
        gain = seen[ends[0]] @ (seen[ends[1]] - seen[ends[2]])
        lost += np.log1p(np.exp(-gain)) + options.l2 / 2 * (rows[ends] ** 2).sum()
    return lost / len(b["user"]) + options.weight * contrast


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("among", ["batch", "all"])
@pytest.mark.parametrize("name", [SGL, SIMGCL, XSIMGCL])
def test_a_contrastive_loss_is_that_of_loops(positives, graph, name, among, reduction):
    ours = model(name, l2=0.01, contrast_with=among, contrast_reduction=reduction)
    b, views = batch(positives, 5), ours.draw_views(graph, np.random.default_rng(2))
    assert max(torch.unique(b["user"], return_counts=True)[1]) > 1  # of all, a repeated user counts as often
    p = ours.encode_step(tables(), graph, views, np.random.default_rng(7))
    sets = [Ragged.sets_from_pairs(view.users, view.items, N_USERS) for view in views]
    expected = expected_loss(name, ours.options, positives, sets, b)
    assert float(ours.loss(p, b)) == pytest.approx(expected, rel=CLOSE)


def test_slopes_of_summed_contrast_are_those_of_autograd():
    draw, rows = torch.Generator().manual_seed(1), torch.tensor([4, 0, 4, 2])
    one, other = (torch.randn(6, 3, generator=draw, dtype=torch.float64).requires_grad_() for _ in range(2))
    a, b = (view / view.norm(dim=1, keepdim=True) for view in (one, other))
    plain = torch.nn.functional.cross_entropy(a[rows] @ b.T / 0.1, rows, reduction="sum")
    due = torch.autograd.grad(3 * plain, (one, other))
    found = torch.autograd.grad(3 * sum_info_nce(one, other, rows, 0.1), (one, other))
    torch.testing.assert_close(found, due)


@pytest.mark.parametrize("name", [SGL, SIMGCL, XSIMGCL])
def test_nothing_random_is_recommended_by(graph, name):
    ours = model(name)
    one, again = (ours.encode(tables(), graph)["users"] for _ in range(2))
    assert torch.equal(one, again)
    first = 0 if name == SGL else 1
    rows = stacked(tables())
    torch.testing.assert_close(one, mean_of_layers([rows, *propagate(rows, graph, 2)][first:])[:N_USERS])


def test_first_rows_are_xavier_uniform():
    class Sizes:
        n_users, n_items = 200, 800

    fitted = model(dim=40).bind_to_data(Sizes)
    layout = fitted.layout(800, 200)
    row = fitted.initial_row(layout, 3)
    for part, n in ((layout.users, 200), (layout.items, 800)):
        bound = (6 / (n + 40)) ** 0.5
        assert np.abs(row[part]).max() == pytest.approx(bound, rel=1e-3)
        assert row[part].std() == pytest.approx(bound / 3**0.5, rel=0.02)


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
@pytest.mark.parametrize("first_layer", [0, 1])
def test_a_client_encodes_as_the_graph_of_its_own_items_would(layers, first_layer):
    made, p = model(layers=layers), tables()
    made.first_layer = first_layer
    own = {"users": p["users"][:1], "items": p["items"]}
    items = torch.tensor([2, 5, 5, 11, 0])  # 5 twice: two negatives; 0 is padding
    found = made.encode_client(own, {"items": items, "weights": torch.tensor([1.0, 1, 1, 1, 0])})
    star = InteractionGraph.of(Ragged.from_parts([np.array([2, 5, 11], np.int32)]), N_ITEMS)
    expected = made.encode(own, star)
    for name in ("users", "items"):
        torch.testing.assert_close(found[name], expected[name], rtol=0, atol=1e-6)
    assert found["ego_items"] is own["items"]


def test_a_client_without_items_encodes_itself_alone():
    own = {"users": tables()["users"][:1], "items": tables()["items"]}
    nothing = {"items": torch.tensor([0]), "weights": torch.tensor([0.0])}
    found = model(layers=2).encode_client(own, nothing)
    torch.testing.assert_close(found["users"], own["users"] / 3)


@pytest.mark.parametrize("name", [SGL, SIMGCL, XSIMGCL])
def test_models_that_contrast_views_of_the_whole_graph_are_not_for_clients(name):
    assert model().at_clients
    assert not model(name).at_clients
