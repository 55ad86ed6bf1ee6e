"""BERT4Rec: held to torch's own encoder, and to one written out place by place with what drops out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch.func import grad, vmap
from torch.nn.functional import gelu, layer_norm

from gossiprec.compute.executors.tensors import table_views, to_tensor
from gossiprec.models.base.parameter_blocks import BlockRole
from tests.compute.worlds import make_model

N_ITEMS, LENGTH, DIM, HEADS, INNER, LAYERS, MAX_LENGTH = 12, 7, 6, 2, 10, 2, 6
ENCODER = {
    "self_attn.in_proj_weight": "attention_weights",
    "self_attn.in_proj_bias": "attention_biases",
    "self_attn.out_proj.weight": "joining_weights",
    "self_attn.out_proj.bias": "joining_biases",
    "norm1.weight": "joining_scales",
    "norm1.bias": "joining_offsets",
    "linear1.weight": "inner_weights",
    "linear1.bias": "inner_biases",
    "linear2.weight": "outer_weights",
    "linear2.bias": "outer_biases",
    "norm2.weight": "outer_scales",
    "norm2.bias": "outer_offsets",
}
"""Torch's names and ours."""


def made(**options):
    sizes = {"dim": DIM, "heads": HEADS, "inner": INNER, "layers": LAYERS, "max_length": MAX_LENGTH}
    return make_model("bert4rec", **{**sizes, **options})


def blocks_of(model, seed=0, dtype=torch.float64):
    layout = model.layout(N_ITEMS)
    row = torch.randn(layout.size, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return layout.blocks_by_name(table_views(layout, row))


def sequences(*rows, length=LENGTH):
    """Return sequences as columns of a feed; an item is masked where it stands in a list of its own."""
    width = [list(row) + [None] * (length - len(row)) for row in rows]
    previous = [[item if isinstance(item, int) else -1 for item in row] for row in width]
    items = [[item[0] if isinstance(item, list) else -1 for item in row] for row in width]
    return {
        "previous": torch.tensor(previous),
        "items": torch.tensor(items),
        "negatives": torch.tensor([[9, 10, 11]] * len(rows)),
        "weights": torch.ones(len(rows), dtype=torch.float64),
        "user": torch.arange(len(rows)),
    }


BATCH = sequences([3, [1], 4, 1, [5]], [[7]], [2, 0, 6, 8, 9, [10]])


def dropping_out(model, batch=BATCH, seed=0):
    samples = {name: part.numpy() for name, part in batch.items()}
    drawn = model.draws(samples, np.random.default_rng(seed))
    return {name: to_tensor(part).double() for name, part in drawn.items()}


def library_encoder(p):
    """Return torch's own encoder with the weights of a model."""
    layer = torch.nn.TransformerEncoderLayer(
        DIM, HEADS, INNER, dropout=0.0, activation="gelu", layer_norm_eps=1e-12, batch_first=True
    )
    encoder = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).double()
    with torch.no_grad():
        for k, one in enumerate(encoder.layers):
            for theirs, ours in ENCODER.items():
                one.get_parameter(theirs).copy_(p[ours][k])
    return encoder


def embedded(p, batch):
    known = batch["previous"]
    rows = torch.where((known >= 0)[..., None], p["items"][known.clamp(min=0)], p["gap"])
    lengths = real_places(batch).sum(1).tolist()
    ages = torch.tensor([[max(n - 1 - place, 0) for place in range(known.shape[1])] for n in lengths])
    return layer_norm(rows + p["positions"][ages], (DIM,), p["input_scales"], p["input_offsets"], 1e-12)


def with_output(p, rows):
    dense = gelu(rows @ p["output_weights"].T + p["output_biases"])
    return layer_norm(dense, (DIM,), p["output_scales"], p["output_offsets"], 1e-12)


def real_places(batch):
    return (batch["previous"] >= 0) | (batch["items"] >= 0)


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("output_layer", [False, True])
def test_its_states_and_gradients_are_those_of_torchs_encoder(output_layer, is_training):
    model = made(output_layer=output_layer)
    p = {name: part.requires_grad_() for name, part in blocks_of(model).items()}
    real, encoder = real_places(BATCH), library_encoder(p).train(is_training)
    expected = encoder(embedded(p, BATCH), src_key_padding_mask=~real)
    if output_layer:
        expected = with_output(p, expected)
    found = model.states(p, BATCH)
    torch.testing.assert_close(found[real], expected[real], rtol=1e-5, atol=1e-5)
    way = torch.randn(found[real].shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (found[real] * way).sum().backward()
    ours = {name: part.grad.clone() for name, part in p.items()}
    for part in p.values():
        part.grad = None
    (expected[real] * way).sum().backward()
    for theirs, name in ENCODER.items():
        there = torch.stack([layer.get_parameter(theirs).grad for layer in encoder.layers])
        torch.testing.assert_close(ours[name], there, rtol=1e-5, atol=1e-5)
    for name in set(p) - set(ENCODER.values()):
        torch.testing.assert_close(ours[name], p[name].grad, rtol=1e-5, atol=1e-5)
        assert ours[name].any()


def written_out(p, batch, s, keep):
    """Return the states of one sequence, without its padding, head by head and place by place."""
    n = int(real_places(batch)[s].sum())
    known = batch["previous"][s, :n].tolist()
    rows = torch.stack([p["items"][item] if item >= 0 else p["gap"] for item in known])
    rows = rows + p["positions"][:n].flip(0)
    rows = layer_norm(rows, (DIM,), p["input_scales"], p["input_offsets"], 1e-12) * keep["keep"][s, :n, 0]
    for k in range(LAYERS):
        mixed = torch.zeros_like(rows)
        query, key, value = (rows @ p["attention_weights"][k].T + p["attention_biases"][k]).chunk(3, -1)
        for h in range(HEADS):
            part = slice(h * DIM // HEADS, (h + 1) * DIM // HEADS)
            for t in range(n):
                shares = torch.softmax(key[:, part] @ query[t, part] / (DIM / HEADS) ** 0.5, 0)
                mixed[t, part] = (shares * keep["keep_attention"][s, k, h, t, :n]) @ value[:, part]
        mixed = mixed @ p["joining_weights"][k].T + p["joining_biases"][k]
        rows = rows + mixed * keep["keep"][s, :n, 1 + 2 * k]
        rows = layer_norm(rows, (DIM,), p["joining_scales"][k], p["joining_offsets"][k], 1e-12)
        raised = gelu(rows @ p["inner_weights"][k].T + p["inner_biases"][k])
        raised = raised @ p["outer_weights"][k].T + p["outer_biases"][k]
        rows = rows + raised * keep["keep"][s, :n, 2 + 2 * k]
        rows = layer_norm(rows, (DIM,), p["outer_scales"][k], p["outer_offsets"][k], 1e-12)
    return with_output(p, rows)


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_what_drops_out_does_so_before_each_sum_and_in_attention(rate):
    model = made(dropout=0.4)
    p, keep = blocks_of(model), dropping_out(model)
    if not rate:
        keep = {name: torch.ones_like(part) for name, part in keep.items()}
    found = model.states(p, BATCH | (keep if rate else {}))
    for s, real in enumerate(real_places(BATCH)):
        expected = written_out(p, BATCH, s, keep)
        torch.testing.assert_close(found[s, real], expected, rtol=1e-9, atol=1e-9)


def test_nothing_drops_out_at_a_rate_of_0():
    assert dropping_out(made(dropout=0)) == {}


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_a_packed_batch_has_the_loss_and_the_gradient_of_the_whole(rate):
    model = made(dropout=rate)
    packed = model.without_padding({name: part.numpy() for name, part in BATCH.items()})
    assert (
        packed["previous"].shape == packed["items"].shape == (3, 6)
    )  # the longest sequence; padding had a seventh
    assert [len(packed[name]) for name in ("real", "places")] == [12, 4]
    keep, batch = {}, dict(BATCH)
    if rate:
        keep = dropping_out(model, {name: torch.from_numpy(part) for name, part in packed.items()})
        rows = torch.full((3, 6, 1 + 2 * LAYERS, DIM), torch.nan, dtype=torch.float64)
        rows.flatten(0, 1)[torch.from_numpy(packed["real"])] = keep["keep"]
        batch = {name: part[:, :6] if name in ("previous", "items") else part for name, part in BATCH.items()}
        batch |= keep | {"keep": rows.nan_to_num(0.7)}
    some = {name: to_tensor(part) for name, part in packed.items()} | {"weights": BATCH["weights"]} | keep
    p = blocks_of(model)
    for job in (model.loss, grad(model.loss)):
        torch.testing.assert_close(job(p, some), job(p, batch), rtol=1e-9, atol=1e-9)


def test_padding_changes_nothing_wherever_a_sequence_ends():
    model = made()
    p, rows = blocks_of(model), [[3, [1], 4], [2, 7, [5]]]
    short, long = (sequences(*rows, length=n) for n in (3, 9))
    torch.testing.assert_close(model.states(p, short), model.states(p, long)[:, :3], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(model.loss(p, short), model.loss(p, long), rtol=1e-12, atol=1e-12)


def test_a_sequence_of_padding_alone_gives_finite_numbers():
    model = made()
    p, batch = blocks_of(model, dtype=torch.float32), sequences([], [3, [1]])
    assert model.states(p, batch).isfinite().all()
    slopes = grad(model.loss)(p, batch | {"weights": torch.tensor([0.0, 1.0])})
    assert all(part.isfinite().all() for part in slopes.values())


@pytest.mark.parametrize("loss", ["all", "sampled"])
def test_stacked_models_learn_what_each_does_alone(loss):
    model = made(loss=loss, dropout=0.4)
    each = [blocks_of(model, seed) for seed in (0, 1)]
    batches = [BATCH | dropping_out(model, seed=seed) for seed in (2, 3)]
    stacks = [
        {name: torch.stack([one[name] for one in some]) for name in some[0]} for some in (each, batches)
    ]
    found = vmap(grad(model.loss))(*stacks)
    for k, (p, batch) in enumerate(zip(each, batches, strict=True)):
        for name, slope in grad(model.loss)(p, batch).items():
            torch.testing.assert_close(found[name][k], slope, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("width", [MAX_LENGTH - 1, 32])
@pytest.mark.parametrize("history", [[3, 1, 4], [], [2, 0, 6, 8, 9]])
def test_a_user_is_the_output_at_a_gap_behind_the_history(history, width):
    model, user = made(), torch.tensor([0])
    p = blocks_of(model)
    filled = torch.tensor(history + [-1] * (width - len(history)))
    found = model.scores_after(p, filled[None], user)[0]
    gap = model.states(p, sequences([*history, [0]]))[0, len(history)]
    torch.testing.assert_close(found, p["items"] @ gap, rtol=1e-9, atol=1e-9)
    asked = {"items": torch.arange(N_ITEMS), "user": user}
    torch.testing.assert_close(model.score(p, asked | {"history": filled}), found)
    if not history:
        torch.testing.assert_close(model.score(p, asked), found)


def test_the_item_before_is_a_history_of_one():
    model, user = made(), torch.tensor([0])
    p, items = blocks_of(model), torch.tensor([5, 6])
    asked = model.score(p, {"items": items, "user": user, "previous": torch.tensor([3, -1])})
    for k, history in enumerate(([3], [-1])):
        alone = model.score(p, {"items": items, "user": user, "history": torch.tensor(history)})
        torch.testing.assert_close(asked[k], alone[k])


def test_a_score_tells_the_order_of_a_history():
    model, user = made(), torch.tensor([0])
    p, items = blocks_of(model), torch.arange(N_ITEMS)
    one, other = (
        model.score(p, {"items": items, "user": user, "history": torch.tensor(each)})
        for each in ([3, 1], [1, 3])
    )
    assert not torch.allclose(one, other)


def test_it_begins_with_small_weights_norms_of_one_and_offsets_of_zero():
    model = make_model("bert4rec")
    layout = model.layout(100)
    p = layout.blocks_by_name(
        table_views(layout, torch.from_numpy(model.initial_rows(layout, 1, 3)[0, : layout.size]))
    )
    for name, part in p.items():
        if name.endswith("scales"):
            assert (part == 1).all(), name
        elif name.endswith(("biases", "offsets")):
            assert not part.any(), name
        else:  # at least 64 draws: five standard deviations of their standard deviation
            assert abs(float(part.std()) / 0.02 - 1) < 5 / np.sqrt(2 * part.numel()), name


def test_it_has_the_sizes_of_recbole_and_no_row_for_a_user():
    layout = make_model("bert4rec").layout(100)
    assert not layout.blocks_of_role(BlockRole.USER)
    per_layer = 4 * (64 * 64 + 64) + 2 * 64 * 256 + 256 + 64 + 4 * 64
    assert layout.n_shared == 64 + 50 * 64 + 2 * 64 + 2 * per_layer + 64 * 64 + 3 * 64
    plain = make_model("bert4rec", output_layer=False).layout(100)
    assert layout.n_shared - plain.n_shared == 64 * 64 + 3 * 64


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dim": 7}, "heads: found 2 for dim 7; expected a divisor of dim"),
        ({"max_length": 1}, "greater than or equal to 2"),
        ({"max_length": 0}, "greater than or equal to 2"),
        ({"dropout": 1}, "less than 1"),
        ({"mask": 1}, "less than 1"),
        ({"last_alone": 1.5}, "less than or equal to 1"),
        ({"random_end": 1.5}, "less than or equal to 1"),
    ],
)
def test_impossible_sizes_are_refused(options, words):
    with pytest.raises(ValidationError, match=words):
        made(**options)
