"""DP-SGD and the drift penalty, in every executor: against Opacus, plain torch loops, and arithmetic by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from gossiprec.compute.local_update import TrainingSettings, dp_noise_row, local_batches
from tests.compute.test_executors import everyone_trains, one_wave, state_bytes
from tests.compute.worlds import EVERY, World, make_executor, run_waves, same, up_to_date
from tests.slow import slow_except_first

SGD = TrainingSettings(optimizer="sgd", learning_rate=0.1, batch_size=None)
ADAM = TrainingSettings(epsilon=1e-3, batch_size=7, local_epochs=2)


def trained(name, world, node=3, times=1):
    """Return the node's row before and after local updates, and the workload."""
    executor = make_executor(name, world.workload())
    size = executor.work.layout.size
    before = executor.work.arena.rows[node, :size].copy()
    for wave in range(times):
        waves = everyone_trains(world.n_nodes, times=times)
        executor.run(waves.program, np.arange(waves.starts[wave], waves.starts[wave + 1]))
    return before, up_to_date(executor.work.arena).rows[node, :size].copy(), executor.work


def samples_of(work):
    """Return what node 3 learns from in its first local update."""
    return work.feed.samples(3, update=0, negatives=4, seed=work.seed)


def batches_of(work, node, update):
    return list(local_batches(work.feed, work.training, node, update, work.seed))


class Scored(torch.nn.Module):
    """GMF of one node as a torch user writes it: an embedding, and a linear unit with bias."""

    def __init__(self, row, layout):
        super().__init__()
        user, items, shared = (
            torch.from_numpy(row[part].copy()) for part in (layout.users, layout.items, layout.shared)
        )
        self.user = torch.nn.Embedding.from_pretrained(user[None], freeze=False)
        self.items = torch.nn.Embedding.from_pretrained(items.view(layout.n_items, -1), freeze=False)
        self.unit = torch.nn.Linear(layout.item_width, 1)
        self.unit.weight.data, self.unit.bias.data = shared[None, :-1].clone(), shared[-1:].clone()

    def forward(self, items):
        return self.unit(self.user(torch.zeros_like(items)) * self.items(items)).squeeze(-1)

    def flat(self, attribute="data"):
        parts = (self.user.weight, self.items.weight, self.unit.weight, self.unit.bias)
        return torch.cat([getattr(part, attribute).flatten() for part in parts]).detach().numpy()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("clip", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("name", EVERY)
def test_the_clipped_gradient_is_opacus(name, clip):
    """One full-batch SGD step without noise: Opacus' per-sample gradients, norms, clip and mean."""
    from opacus import PrivacyEngine

    world = World(training=SGD, clip_norm=(clip,))
    before, after, work = trained(name, world)
    samples = samples_of(work)
    data = TensorDataset(torch.from_numpy(samples["items"]).long(), torch.from_numpy(samples["labels"]))
    model = Scored(before, work.layout)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=len(data)), noise_multiplier=0.0, max_grad_norm=clip,
        poisson_sampling=False,
    )  # fmt: skip

    for batch, wanted in loader:
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(model(batch), wanted).backward()
        optimizer.step()

    assert np.abs(after - before).max() > 1e-4
    np.testing.assert_allclose(after, model._module.flat(), atol=1e-6)


@pytest.mark.parametrize("clip", [0.01, 0.1])
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.cases(2)
def test_no_sample_contributes_more_than_the_clip_norm(name, clip):
    """A batch of one sample moves the model by at most rate times C; here every gradient exceeds C, so by just that."""
    training = replace(SGD, batch_size=1, learning_rate=1.0)
    one, two = (
        trained(name, World(training=training, clip_norm=(c,), n_nodes=4), node=2) for c in (clip, clip / 2)
    )
    steps = len(batches_of(one[2], 2, 0))

    for (before, after, _), bound in ((one, clip), (two, clip / 2)):
        assert np.linalg.norm(after - before) <= steps * bound * (1 + 1e-5)
    full = replace(training, batch_size=None)
    before, after, _ = trained(name, World(training=full, clip_norm=(clip,), n_nodes=4), node=2)
    assert 0 < np.linalg.norm(after - before) <= clip * (1 + 1e-5)


@pytest.mark.parametrize("name", EVERY)
def test_a_sample_within_the_clip_norm_is_not_changed(name):
    _, clipped, _ = trained(name, World(training=SGD, clip_norm=(1e4,)))
    _, plain, _ = trained(name, World(training=SGD))

    np.testing.assert_allclose(clipped, plain, atol=1e-6)


@pytest.mark.parametrize("user_table", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_the_noise_of_a_step_is_sigma_c_over_the_batch_size_on_every_parameter(name, user_table):
    """The step with noise less the step without is the noise itself, divided by the batch size."""
    clip, sigma = 0.5, 20.0
    worlds = [
        World(training=SGD, clip_norm=(clip,), noise_multiplier=(s,), user_table=user_table)
        for s in (sigma, 0.0)
    ]
    (_, noisy, work), (_, quiet, _) = (trained(name, world) for world in worlds)
    n = len(samples_of(work)["items"])

    found = (quiet - noisy) * n / (0.1 * sigma * clip)

    np.testing.assert_allclose(found, dp_noise_row(work.layout, 0, 3, 0), atol=1e-4)


@pytest.mark.parametrize("name", EVERY)
def test_every_step_has_noise_of_its_own(name):
    """Two updates from the same row; sums of gradients of at most C = 1e-6 leave the noise alone."""
    world = World(training=SGD, clip_norm=(1e-6,), noise_multiplier=(1e6,))
    first, second = (trained(name, world, times=times) for times in (1, 2))
    work = first[2]
    n = len(samples_of(work)["items"])

    found = (first[1] - second[1]) * n / 0.1

    np.testing.assert_allclose(found, dp_noise_row(work.layout, 0, 3, 1), atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("training", [SGD, ADAM], ids=["sgd", "adam"])
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.cases(4)
def test_the_drift_penalty_is_that_of_a_plain_torch_loop(name, training):
    """Two local updates, each with the items it starts from as reference."""
    tau, training = 0.7, replace(training, local_epochs=3)
    before, after, work = trained(name, World(training=training, drift=(tau,)), times=2)
    model = Scored(before, work.layout)
    settings = {"lr": training.learning_rate}
    make = torch.optim.SGD if training.optimizer == "sgd" else torch.optim.Adam
    optimizer = make(
        model.parameters(), **settings, **({} if make is torch.optim.SGD else {"eps": training.epsilon})
    )
    for update in range(2):
        start = model.items.weight.detach().clone()
        for batch in batches_of(work, 3, update):
            asked = torch.from_numpy(batch["items"]).long()
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                model(asked), torch.from_numpy(batch["labels"])
            )
            for item in set(batch["items"].tolist()):
                loss = loss + tau * ((model.items.weight[item] - start[item]) ** 2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    np.testing.assert_allclose(after, model.flat(), atol=2e-6)
    assert np.abs(after - trained(name, World(training=training), times=2)[1]).max() > 5e-4


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.cases(2)
def test_a_strong_penalty_keeps_items_where_they_began(name):
    training = replace(ADAM, optimizer="sgd", learning_rate=0.01, batch_size=1)
    drifts = []
    for tau in (0.0, 10.0):
        before, after, work = trained(name, World(training=training, drift=(tau,)))
        drifts.append(np.linalg.norm((after - before)[work.layout.items]))

    assert drifts[1] < 0.9 * drifts[0]


@pytest.mark.parametrize("name", EVERY)
def test_under_dp_the_penalty_draws_all_items_back_after_the_noise(name):
    """Two SGD steps by hand: gradients are clipped to nothing, so only noise moves the items, and the penalty after."""
    tau, clip, sigma = 0.5, 1e-6, 1e6
    training = replace(SGD, local_epochs=2)
    world = World(training=training, clip_norm=(clip,), noise_multiplier=(sigma,), drift=(tau,))
    before, after, work = trained(name, world)
    n, items = len(samples_of(work)["items"]), work.layout.items

    first, second = (dp_noise_row(work.layout, 0, 3, step)[items] / n for step in (0, 1))
    moved = -0.1 * first
    expected = moved - 0.1 * (second + 2 * tau * moved)

    np.testing.assert_allclose((after - before)[items], expected, atol=1e-5)


FOR_KIND = {
    "drift": (0.0, 1.0, 0.0),
    "clip_norm": (0.0, 0.0, 0.5, 2.0),
    "noise_multiplier": (1.0, 0.0),
}


@pytest.mark.parametrize("name", slow_except_first(EVERY))
@pytest.mark.full
def test_bytes_of_treated_nodes_do_not_depend_on_the_wave_size(name):
    world = World(n_nodes=12, n_items=45, training=TrainingSettings(batch_size=32), **FOR_KIND)
    waves = everyone_trains(12, times=2)

    states = [
        state_bytes(run_waves(make_executor(name, world.workload()), waves, size)) for size in (1, 3, None)
    ]

    assert same(name, states[0], states[2])
    assert same(name, states[1], states[2])


@pytest.mark.parametrize("name", EVERY)
def test_a_treatment_of_some_nodes_changes_no_byte_of_the_others(name):
    world = World(n_nodes=12, training=TrainingSettings(batch_size=16))
    waves = everyone_trains(12, times=2)
    plain = run_waves(make_executor(name, world.workload()), waves)

    mixed = run_waves(make_executor(name, replace(world, **FOR_KIND).workload()), waves)

    untouched = replace(world, **FOR_KIND).node_settings().training_modes == 0
    assert 0 < untouched.sum() < 12
    for now, before in ((mixed.rows, plain.rows), (mixed.first, plain.first), (mixed.second, plain.second)):
        assert same(name, now[:12][untouched].tobytes(), before[:12][untouched].tobytes())
        assert (now[:12][~untouched] != before[:12][~untouched]).any(axis=1).all()


@pytest.mark.parametrize("name", EVERY)
def test_a_treatment_that_does_nothing_changes_no_byte(name):
    world = World(training=ADAM)
    idle = replace(world, drift=(0.0,), clip_norm=(0.0,), noise_multiplier=(5.0,))

    states = [state_bytes(run_waves(make_executor(name, w.workload()), w.waves())) for w in (world, idle)]

    assert same(name, *states)


@pytest.mark.parametrize("name", EVERY)
def test_a_treated_node_merges_like_any_other(name):
    world = World(clip_norm=(1.0,), noise_multiplier=(1.0,), drift=(1.0,))
    wave = one_wave(5, (0, 5, [1, 2], [0.5, 0.25], False))

    treated = run_waves(make_executor(name, world.workload()), wave)
    plain = run_waves(make_executor(name, World().workload()), wave)

    assert same(name, state_bytes(treated), state_bytes(plain))
