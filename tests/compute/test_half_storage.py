"""Rows in float16: executors agree, rounding keeps the mean, and memory is taken by rows that are written."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ResourceError, ScenarioError
from gossiprec.compute.executors import EXECUTORS
from gossiprec.compute.local_update import TrainingSettings
from gossiprec.compute.store.arena import RESERVE, Arena
from gossiprec.numerics.noise import rounding_noise, to_float16
from tests.compute.test_executors import distance, everyone_trains, one_wave, state_bytes
from tests.compute.worlds import ON_CUDA, World, make_executor, make_model, run_waves

HALF = World(model="prme-g", storage="float16")
UNIT = 2.0**-10
"""Between neighbours in float16, relative to a number at most."""


@pytest.mark.parametrize("name", [*(name for name in EXECUTORS if name != "reference"), *ON_CUDA[1:]])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.full
def test_executors_agree_in_float16_but_for_roundings_that_fall_on_the_edge(name, seed):
    """A number differs by one unit if an error of 1e-7 crosses its threshold: one in UNIT / 1e-7 or so, a step."""
    world = World(model="prme-g", storage="float16", seed=seed)
    found, expected = (
        run_waves(make_executor(n, world.workload()), world.waves()) for n in (name, "reference")
    )

    differs = found.rows != expected.rows
    assert found.rows.dtype == np.float16
    assert differs.mean() < 0.01
    assert distance(found.rows, expected.rows.astype(np.float64)) < UNIT


@pytest.mark.parametrize("name", list(EXECUTORS))
def test_float16_stays_close_to_float32(name):
    waves = HALF.waves()
    half, full = (
        run_waves(make_executor(name, World(model="prme-g", storage=s).workload()), waves)
        for s in ("float16", "float32")
    )

    assert 1e-6 < distance(half.rows.astype(np.float32), full.rows.astype(np.float64)) < 4 * UNIT


@pytest.mark.parametrize("name", list(EXECUTORS))
@pytest.mark.cases(1)
def test_bytes_in_float16_do_not_depend_on_the_wave_size(name):
    world = World(n_nodes=40, n_items=101, model="prme-g", storage="float16")
    waves = world.waves()

    states = [
        state_bytes(run_waves(make_executor(name, world.workload()), waves, size)) for size in (1, 7, None)
    ]

    assert states[0] == states[1] == states[2]


@pytest.mark.parametrize("name", list(EXECUTORS))
def test_adopting_a_version_rounds_nothing(name):
    executor = make_executor(name, HALF.workload())
    rows, merged = executor.work.arena.rows, executor.work.layout.merged

    run_waves(executor, one_wave(5, (0, 5, [1], [0.0], False)))

    assert rows[5, merged].tobytes() == rows[1, merged].tobytes()


@pytest.mark.parametrize("name", list(EXECUTORS))
def test_merging_rounds_each_number_to_a_neighbour_and_not_always_to_the_nearest(name):
    executor = make_executor(name, HALF.workload())
    rows, merged = executor.work.arena.rows, executor.work.layout.merged
    exact = (rows[0, merged].astype(np.float64) + rows[1, merged]) / 2

    run_waves(executor, one_wave(5, (0, 5, [1], [0.5], False)))

    found = rows[5, merged].astype(np.float64)
    step = np.spacing(np.abs(exact).astype(np.float16)).astype(np.float64)
    assert (np.abs(found - exact) < step).all()
    assert 0.1 < (found != exact.astype(np.float16)).mean() < 0.5


def test_rounding_keeps_the_mean():
    """A mean over n keys has a standard deviation of at most half a unit / sqrt(n)."""
    value, n = np.float32(0.0123456), 40_000
    rounded = to_float16(np.full((n, 1), value), np.arange(n, dtype=np.uint32) * np.uint32(2654435761))
    unit = np.spacing(np.float16(value))

    assert set(np.unique(rounded)) == {np.float16(0.012344), np.float16(0.012344) + unit}
    assert abs(rounded.astype(np.float64).mean() - value) < 4 * unit / 2 / np.sqrt(n)


def test_noise_is_uniform_over_columns_and_differs_between_keys():
    """Counts of 16 classes over 64,000 columns: chi-square with 15 degrees is below 37.7 with probability 0.999."""
    columns, keys = np.arange(64_000, dtype=np.uint32), np.array([[1], [2], [2**31]], np.uint32)
    drawn = rounding_noise(keys, columns)

    assert drawn.max() < 2**13
    for row in drawn:
        counts = np.bincount(row >> 9, minlength=16)
        assert ((counts - 4000) ** 2 / 4000).sum() < 37.7
    assert abs(np.corrcoef(drawn)[0, 1]) < 0.02


def test_numbers_that_float16_has_are_kept_whatever_the_noise():
    values = np.arange(2**15, dtype=np.uint16).view(np.float16)
    values = values[np.isfinite(values)].astype(np.float32)[None]

    for key in (1, 77, 2**32 - 1):
        assert to_float16(values, np.array([key], np.uint32)).astype(np.float32).tobytes() == values.tobytes()


def test_fused_gmf_with_adam_in_float16_says_what_to_use():
    with pytest.raises(ScenarioError, match=r"'fused' has no kernels for gmf with float16 .*'batched'"):
        make_executor("fused", World(storage="float16").workload())


def test_fused_prme_with_adam_in_float16_says_what_to_use():
    world = World(model="prme-g", training=TrainingSettings(), storage="float16")
    with pytest.raises(ScenarioError, match=r"prme-g with float16 .*'sgd'"):
        make_executor("fused", world.workload())


def test_fused_prme_under_dp_sgd_is_refused():
    work = World(model="prme-g").workload()
    work.node_settings.clip_norm[2] = 1

    with pytest.raises(ScenarioError, match="prme-g with dp-sgd"):
        make_executor("fused", work)


@pytest.mark.parametrize("name", ["reference", "batched"])
def test_gmf_trains_in_float16_where_rows_are_converted(name):
    half, full = (
        run_waves(make_executor(name, World(storage=s).workload()), everyone_trains(5))
        for s in ("float16", "float32")
    )

    assert half.rows.dtype == np.float16
    assert distance(half.rows.astype(np.float32), full.rows.astype(np.float64)) < 4 * UNIT


def test_growing_copies_no_row_until_all_that_is_reserved_is_used():
    arena = Arena(make_model("gmf").layout(100), n_nodes=3, capacity=4, moments=False)
    arena.rows[3] = 7.0
    before = arena.rows.ctypes.data

    arena.grow(4 * RESERVE)
    assert (len(arena.rows), arena.rows.ctypes.data) == (4 * RESERVE, before)

    arena.grow(4 * RESERVE + 1)
    assert len(arena.rows) == 4 * RESERVE + 1
    assert (arena.rows[3] == 7.0).all()
    assert not arena.rows[4:].any()


def test_an_arena_larger_than_the_machine_is_addresses_only():
    arena = Arena(
        make_model("prme-g", dim=60).layout(40_000),
        n_nodes=2,
        capacity=4_000,
        moments=False,
        storage="float16",
    )

    arena.rows[3_999, :5] = 1.0

    assert arena.rows.nbytes > 35 * 2**30


def test_more_addresses_than_a_processor_has_are_refused_with_what_to_lower():
    with pytest.raises(ResourceError, match=r"MiB of address space.*limit_users"):
        Arena(make_model("prme-g", dim=60).layout(40_000), n_nodes=2, capacity=2**35, moments=False)
