"""Claims about the formula of a model: random numbers, samples of a node, gradients of pairs, initial rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, vmap

from gossiprec.base.arrays import F32
from gossiprec.compute.executors.tensors import Tensors, constants_to_tensors, table_views, to_tensor
from gossiprec.data.split import Split
from gossiprec.models import Layout, Model
from gossiprec.models.base.graph import GraphModel
from gossiprec.models.base.kernel_interface import (
    LabelledBatch,
    PairBatch,
    SequenceBatch,
    has_own_gradient,
)
from gossiprec.models.feeds import Feed, PairwiseFeed
from gossiprec.numerics.torch_setup import make_adam

NODE, SEED = 5, 3
WIDTH = 6
"""Limit on the samples of a batch."""
N_ITEMS = 9
"""Limit on the items of pairs."""
_assert_close = partial(torch.testing.assert_close, rtol=1e-7, atol=1e-9)


@dataclass(frozen=True)
class ModelCase:
    """A model on small data, and a random version of it in float64."""

    model: Model
    split: Split
    layout: Layout

    @cached_property
    def feed(self) -> Feed:
        """The training data of its nodes."""
        return self.model.make_feed(self.split.training_data(for_feed=True))

    @cached_property
    def row(self) -> Tensor:
        """A random version."""
        draw = torch.Generator().manual_seed(SEED)
        return torch.randn(self.layout.size, generator=draw, dtype=torch.float64)

    @cached_property
    def user(self) -> Tensor:
        """The row of the node's user."""
        return torch.from_numpy(self.layout.user_index(np.array([NODE])))

    @cached_property
    def batch(self) -> Tensors:
        """Samples of the node."""
        columns = self.feed.samples(NODE, update=0, negatives=2, seed=SEED)
        batch = {name: _double(to_tensor(column[:WIDTH])) for name, column in columns.items()}
        return {**batch, "weights": torch.ones(len(batch["items"]), dtype=torch.float64)}

    @cached_property
    def query(self) -> Tensors:
        """The items that the node has taken, with their context."""
        return {name: to_tensor(column) for name, column in self.feed.targets(NODE).items()}

    @cached_property
    def constants(self) -> Tensors:
        """The constants of the items that the model uses."""
        return {name: _double(part) for name, part in constants_to_tensors(self.model.constants).items()}

    def parameters(self, row: Tensor) -> Tensors:
        """Return the blocks of a row, and the constants."""
        blocks: Tensors = self.layout.blocks_by_name(table_views(self.layout, row))
        return blocks | self.constants

    def loss(self, row: Tensor, batch: Tensors) -> Tensor:
        """Return the loss of a batch for the node's user."""
        return self.model.loss(self.parameters(row), {**batch, "user": self.user})

    def score(self, row: Tensor, query: Tensors) -> Tensor:
        """Return scores for the node's user."""
        return self.model.score(self.parameters(row), {**query, "user": self.user})


def _double(part: Tensor) -> Tensor:
    return part.double() if part.is_floating_point() else part


def _some(columns: Tensors, chosen: slice) -> Tensors:
    return {name: column[chosen] for name, column in columns.items()}


def there_is_a_score_for_each_item(case: ModelCase) -> None:
    """Return one finite score for each item requested, and none if no item is."""
    for n in (0, 1, len(case.query["items"])):
        found = case.score(case.row, _some(case.query, slice(0, n)))
        assert found.shape == (n,), f"Found shape {tuple(found.shape)} for {n} items."
        assert found.isfinite().all(), f"Found {found.tolist()}."


def a_score_depends_on_its_query_only(case: ModelCase) -> None:
    """Read only the rows of the user, of the items and of their context: observers keep no others."""
    row, layout, shown = case.row, case.layout, case.row.clone()
    queried = torch.cat([case.query["items"], *(case.query[name] for name in case.feed.context_columns)])
    users, items = (table_views(layout, shown).get(name) for name in ("users", "items"))
    for table, kept in ((users, case.user), (items, queried)):
        if table is not None:
            others = torch.ones(len(table), dtype=torch.bool)
            others[kept[kept >= 0]] = False
            table[others] = torch.nan
    found, expected = case.score(shown, case.query), case.score(row, case.query)
    assert torch.equal(found, expected), "Overwriting all other rows changes scores."


def scoring_all_items_equals_scoring_one(case: ModelCase) -> None:
    """Return equal scores by ``score_all_items``, unless it is None, as item by item, for any user and repeatedly."""
    p = case.parameters(case.row)
    before = {name: part.clone() for name, part in p.items()}
    score_all = case.model.score_all_items(p)
    if score_all is None:
        return
    query = {"items": torch.arange(case.layout.n_items)}
    for user in (case.user, torch.zeros_like(case.user), case.user):
        expected = case.model.score(p, {**query, "user": user})
        torch.testing.assert_close(score_all(user), expected, rtol=1e-9, atol=1e-9)
    assert all(torch.equal(p[name], part) for name, part in before.items()), "It changes its parameters."


def a_model_of_few_items_scores_equally(case: ModelCase) -> None:
    """Give equal scores in a model of a few renumbered items, with their constants."""
    whole = case.query
    queries = torch.stack([whole["items"], *(whole[name] for name in case.feed.context_columns)])
    kept, numbers = torch.unique(queries, return_inverse=True)
    unknown = int(kept[0] < 0)
    kept, numbers = kept[unknown:].numpy(), numbers - unknown
    small = replace(case.layout, n_items=len(kept), n_users=1)
    numbers_of = case.layout.extract_submodel(case.row.numpy(), kept, NODE)
    vector = torch.from_numpy(numbers_of[: small.size]).double()
    vector[small.private] = case.row[case.layout.private]
    p = small.blocks_by_name(table_views(small, vector))
    p |= {name: part[kept] for name, part in case.constants.items()}
    query = dict(zip(("items", *case.feed.context_columns), numbers, strict=True))
    found = case.model.score(p, {**query, "user": torch.zeros(1, dtype=torch.int64)})
    torch.testing.assert_close(found, case.score(case.row, whole), rtol=1e-4, atol=1e-4)


def its_formula_works_stacked(case: ModelCase) -> None:
    """Give each of several versions in a stack the same scores, losses and gradients as by itself."""
    rows = torch.stack([case.row, 0.5 * case.row])
    for job, given in ((case.score, case.query), (case.loss, case.batch), (grad(case.loss), case.batch)):
        twice = {name: torch.stack([column, column.flip(0)]) for name, column in given.items()}
        stacked = vmap(job)(rows, twice)
        for k, row in enumerate(rows):
            _assert_close(stacked[k], job(row, {name: column[k] for name, column in twice.items()}))


def the_gradient_predicts_differences(case: ModelCase) -> None:
    """Have a gradient of the loss that predicts the change by a small step."""
    gradient, step = grad(case.loss)(case.row, case.batch), 1e-6
    draw = torch.Generator().manual_seed(SEED + 1)
    for _ in range(5):
        way = torch.randn(case.layout.size, generator=draw, dtype=torch.float64)
        ahead, behind = (case.loss(case.row + sign * step * way, case.batch) for sign in (1, -1))
        torch.testing.assert_close(gradient @ way, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-6)


def its_compiled_gradient_is_that_of_autograd(case: ModelCase) -> None:
    """Have a compiled gradient, if any, equal to autograd's: twice on the same object, with items of no sample."""
    layout = case.layout
    if layout.n_users > 1 or not has_own_gradient(case.model) or case.model.gradient() is None:
        return
    row = 0.5 * case.row.numpy().astype(np.float32)
    for batch in _gradient_batches(case):
        found = _compiled_gradient(case, row, batch)
        values = torch.from_numpy(row)
        if not isinstance(case.model, GraphModel):  # its graph has products of float32 only
            values = values.double()
        expected = grad(lambda values, batch=batch: _client_loss(case, values, batch))(values)
        rounding = 1e-5 * float(expected.abs().max())
        torch.testing.assert_close(torch.from_numpy(found), expected.float(), rtol=1e-4, atol=rounding)


def _gradient_batches(case: ModelCase) -> Iterator[Tensors]:
    """Yield batches of different sizes; pairs are repeated and reversed, too."""
    samples = {name: column for name, column in case.batch.items() if name != "weights"}
    if case.model.feed is not PairwiseFeed:
        yield samples
        yield _some(samples, slice(0, 1))
        return
    draw = np.random.default_rng(SEED)
    for n_pairs in (1, 2, 30):
        liked, others = torch.from_numpy(draw.integers(min(N_ITEMS, case.layout.n_items), size=(2, n_pairs)))
        yield {"items": liked, "negatives": others}


def _client_loss(case: ModelCase, row: Tensor, batch: Tensors) -> Tensor:
    """Return the loss of a batch at a client."""
    batch = {**batch, "user": case.user, "weights": torch.ones(len(batch["items"]), dtype=row.dtype)}
    p, model = case.parameters(row), case.model
    return model.loss(model.encode_client(p, batch) if isinstance(model, GraphModel) else p, batch)


def _compiled_gradient(case: ModelCase, row: F32, batch: Tensors) -> F32:
    """Return the compiled gradient of a batch in the layout of a whole version."""
    gradient, layout, labelled = case.model.gradient(), case.layout, "labels" in batch
    assert gradient is not None
    everything = labelled or getattr(case.model, "needs_all_items", False)
    named = [batch[name].numpy().ravel() for name in case.feed.item_columns if name in batch]
    used = np.arange(layout.n_items) if everything else np.unique(np.concatenate(named))
    used = used[used >= 0]
    core = np.concatenate([row[layout.users], row[layout.shared]])
    items = row[layout.items].reshape(layout.n_items, -1)[used]
    items = np.ascontiguousarray(items.T if labelled else items)
    slopes, item_slopes = np.full_like(core, np.nan), np.full_like(items, np.nan)
    room = np.full(gradient.room, np.nan, np.float32)
    given = _kernel_batch(batch, used, summed=gradient.summed, everything=everything)
    for _ in range(2):
        gradient.fill(core, items, slopes, item_slopes, given, gradient.shape, room)
    found = np.zeros_like(row)
    found[layout.users], found[layout.shared] = np.split(slopes, [layout.user_width])
    found[layout.items].reshape(layout.n_items, -1)[used] = item_slopes.T if labelled else item_slopes
    return found


def _kernel_batch(
    batch: Tensors, used: np.typing.NDArray[np.int64], *, summed: bool, everything: bool
) -> LabelledBatch | PairBatch | SequenceBatch:
    """Return a batch of one user as kernels get it, given the items in use."""
    if "labels" in batch:
        place, labels = batch["items"].numpy(), batch["labels"].numpy()
        sums = (np.bincount(place, of, len(used)) for of in (np.ones_like(labels), labels))
        return LabelledBatch(
            *(each.astype(np.float32) / np.float32(1 if summed else len(place)) for each in sums)
        )
    places = {
        name: np.where(column.numpy() >= 0, np.searchsorted(used, column), -1).astype(np.int32)
        for name, column in batch.items()
    }
    if places["items"].ndim == 1:
        return PairBatch(places["items"], places["negatives"])
    wanted, keep = places["items"][0], np.zeros((0, 1), np.float32)
    others = np.arange(len(used), dtype=np.int32)[None] if everything else places["negatives"]
    previous = places["previous"][0] if "previous" in places else np.full_like(wanted, -1)
    return SequenceBatch(previous, wanted, others[0] if others.ndim == 3 else others, keep)


def draws_have_an_entry_for_each_sample(case: ModelCase) -> None:
    """Draw equal columns for equal generators, an entry per sample, with which the loss is finite."""
    samples = {name: column.numpy() for name, column in case.batch.items() if name != "weights"}
    first, again = (case.model.draws(samples, np.random.default_rng(SEED)) for _ in range(2))
    known = first.keys() & {*samples, "user", "weights"}
    assert not known, f"Found {sorted(first)}, which a batch has already."
    for name, column in first.items():
        assert column.tobytes() == again[name].tobytes(), f"The same generator gives other {name}."
        assert len(column) == len(samples["items"]), f"Found {len(column)} entries of {name}."
    drawn = {name: _double(to_tensor(column)) for name, column in first.items()}
    found = case.loss(case.row, {**case.batch, **drawn})
    assert found.isfinite(), f"Found the loss {float(found)}."


def padding_does_not_count(case: ModelCase) -> None:
    """Have the same loss and gradient with samples of weight 0 behind the others."""
    batch = case.batch
    padding = {name: column.new_zeros(3, *column.shape[1:]) for name, column in batch.items()}
    padded = {name: torch.cat([column, padding[name]]) for name, column in batch.items()}
    for job in (case.loss, grad(case.loss)):
        _assert_close(job(case.row, padded), job(case.row, case.batch))


def samples_of_several_users_make_a_batch(case: ModelCase) -> None:
    """Have as loss, for samples of two users named by ``user``, the mean or the sum of the users' own losses."""
    if case.layout.n_users == 1 or not case.model.has_sample_gradients:
        return
    other = (case.user + 1) % case.layout.n_users
    both = {name: torch.cat([column, column]) for name, column in case.batch.items()}
    n = len(case.batch["weights"])
    users = torch.cat([case.user.expand(n), other.expand(n)])
    p = case.parameters(case.row)
    found = case.model.loss(p, {**both, "user": users})
    own = torch.stack([case.model.loss(p, {**case.batch, "user": user}) for user in (case.user, other)])
    close = [torch.allclose(found, mixed, rtol=1e-7, atol=1e-9) for mixed in (own.mean(), own.sum())]
    assert any(close), f"Found {float(found):.6g}, but the users' own losses are {own.tolist()}."


def the_loss_is_a_mean_or_sum_over_samples(case: ModelCase) -> None:
    """Have the mean or the sum of the samples' own losses as loss, unless `has_sample_gradients` is False."""
    if case.model.has_sample_gradients:
        each = range(len(case.batch["weights"]))
        own = torch.stack([case.loss(case.row, _some(case.batch, slice(s, s + 1))) for s in each])
        whole = case.loss(case.row, case.batch)
        close = [torch.allclose(whole, found, rtol=1e-7, atol=1e-9) for found in (own.mean(), own.sum())]
        assert any(close), f"Found {float(whole):.6g}, the samples' mean is {float(own.mean()):.6g}."


def training_raises_the_scores_of_positives(case: ModelCase) -> None:
    """Score the items of a node higher, compared with all others, after some training on them."""
    first = case.model.initial_rows(case.layout, case.split.n_users, SEED)[NODE, : case.layout.size]
    row = torch.from_numpy(first).double().requires_grad_()
    adam = make_adam([row], lr=0.01)
    before = _advantages(case, row.detach())
    for batch in _batches(case):
        adam.zero_grad()
        torch.autograd.backward(case.loss(row, batch))
        adam.step()
    after = _advantages(case, row.detach())
    assert any(now > then for now, then in zip(after, before, strict=True)), (
        f"They were {before[-1]:.6g} above the others on average, and are {after[-1]:.6g} now."
    )


def _batches(case: ModelCase) -> Iterator[Tensors]:
    for update in range(40):
        columns = case.feed.samples(NODE, update=update, negatives=2, seed=SEED)
        batch = {name: _double(to_tensor(column)) for name, column in columns.items()}
        yield {**batch, "weights": torch.ones(len(batch["items"]), dtype=torch.float64)}


def _advantages(case: ModelCase, row: Tensor) -> list[float]:
    """Return differences in mean score between the items that the node has taken and the others.

    The first is without the node's history; if the model reads histories, there is a second with it.
    """
    own = torch.zeros(case.layout.n_items, dtype=torch.bool)
    own[torch.from_numpy(case.split.train[NODE].astype(np.int64))] = True
    known = case.feed.histories(case.split, "validation")
    history = {name: _double(to_tensor(column[NODE])) for name, column in known.items()}
    found = []
    for about in ({}, history) if history else ({},):
        scores = case.score(row, {"items": torch.arange(case.layout.n_items), **about})
        found.append(float(scores[own].mean() - scores[~own].mean()))
    return found


def _rows(
    case: ModelCase, *, n_nodes: int | None = None, seed: int = SEED, n_users: int | None = None
) -> F32:
    layout = case.model.layout(case.split.n_items, case.layout.n_users if n_users is None else n_users)
    return case.model.initial_rows(layout, n_nodes or case.split.n_users, seed)


def initial_rows_depend_on_the_seed(case: ModelCase) -> None:
    """Begin at the same finite numbers for the same seed, and at others for another seed."""
    rows = _rows(case)
    assert rows.tobytes() == _rows(case).tobytes(), "Two calls gave different rows."
    assert np.isfinite(rows).all(), "Found rows that are not finite."
    other = _rows(case, seed=SEED + 1)
    assert not rows.any() or rows.tobytes() != other.tobytes(), "Another seed gave the same."


def items_and_shared_weights_are_common(case: ModelCase) -> None:
    """Begin with the same items and shared weights at every node."""
    common = _rows(case)[:, case.layout.items.start : case.layout.shared.stop]
    assert (common == common[0]).all(), "Nodes differ."


def each_user_has_its_own_initial_row(case: ModelCase) -> None:
    """Begin with a different row for each user, independent of the other users and of the node that holds it."""
    n = case.split.n_users
    columns = case.model.layout(case.split.n_items).users
    few, many = (_rows(case, n_nodes=k, n_users=1)[:, columns] for k in (n, 2 * n))
    assert few.tobytes() == many[:n].tobytes(), "Rows change when there are more nodes."
    assert not few.any() or len(np.unique(many, axis=0)) == 2 * n, "Several users have the same row."
    if case.layout.n_users > 1:
        table = _rows(case)[:, case.layout.users]
        assert all(row.tobytes() == few.tobytes() for row in table), "A table of users holds other rows."


def padding_is_zero(case: ModelCase) -> None:
    """Begin with zeros after the parameters."""
    assert not _rows(case)[:, case.layout.size :].any(), "Found other values."
