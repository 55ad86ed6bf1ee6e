"""What a run needs, told before it starts, and what a machine cannot hold refused."""

import importlib
import os
import re

import numba
import numpy as np
import pytest

from gossiprec.base.errors import ResourceError
from gossiprec.base.machine import available_bytes, peak_rss_mib
from gossiprec.cli.summary_text import _format_observers
from gossiprec.compute.executors.base import STACK_BYTES
from gossiprec.emulation import estimate_run, prepare
from gossiprec.emulation.assembly.data_loading import drawing_bytes
from gossiprec.emulation.assembly.memory import (
    COMPILING,
    KERNELS,
    MATPLOTLIB,
    MIB,
    OF_A_MODULE,
    PICTURES,
    PYTHON,
    TORCH,
    WORKING,
    bytes_available_to_run,
    check_event_memory,
    check_memory,
    count_machines,
    figure_bytes,
)
from gossiprec.modes import RunMode
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import SINGLE, tiny


def test_what_fits_is_let_through():
    check_memory({"parameters": available_bytes() // 4, "moments": 0})
    check_memory({})


def test_what_does_not_fit_is_refused_with_the_parts_and_what_to_lower():
    with pytest.raises(ResourceError) as caught:
        check_memory({"parameters": 3 * 2**50, "observers": 2**50})
    message = str(caught.value)

    assert (
        "the run needs 4,294,967,296 MiB (parameters 3,221,225,472 MiB, observers 1,073,741,824 MiB)"
        in message
    )
    assert re.search(r"but only [\d,]+ MiB are available", message)
    for advice in ("limit_users", "model.dim", "momenta", "reference_items"):
        assert advice in message


@pytest.mark.parametrize(
    "protocol", [{"name": "fedavg", "rounds": 2**31 - 1}, {"name": "rand-gossip", "wakes": 2**31 - 1}]
)
def test_more_wakes_than_memory_can_hold_are_refused_before_they_are_played(protocol):
    with pytest.raises(ResourceError, match=r"lower protocol\.wakes or protocol\.rounds"):
        prepare(load_scenario(tiny(protocol=protocol, observers=[])))


def test_the_events_of_a_large_run_fit():
    check_event_memory(943 * 500, 3)


def test_the_sum_of_the_parts_decides():
    half = available_bytes() // 2
    check_memory({"parameters": half})
    with pytest.raises(ResourceError):
        check_memory({"parameters": half + 2**32, "moments": half + 2**32})


@pytest.mark.full
def test_what_is_available_and_taken_lies_within_the_machine():
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    taken = np.ones(2**25)  # 256 MiB, every page written

    assert 0 < available_bytes() < machine
    assert taken.nbytes < peak_rss_mib() * MIB < machine


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_prepared_run_tells_what_it_needs(optimizer):
    coalition = {
        "name": "cda",
        "who": "coalition",
        "fraction": 0.5,
        "reference_items": 9,
        "community_size": 3,
    }
    scenario = tiny(training={"optimizer": optimizer}, observers=[SINGLE, coalition])
    prepared = prepare(load_scenario(scenario))
    row_bytes = 4 * 352  # 8 of the user, 40 x 8 of the items, 9 shared: 337 numbers, in whole cache lines

    assert prepared.memory_bytes["parameters"] == 12 * row_bytes
    assert prepared.memory_bytes["versions in waiting"] == 24 * row_bytes
    assert prepared.memory_bytes["moments"] == (2 * 12 * row_bytes if optimizer == "adam" else 0)
    assert prepared.memory_bytes["observers"] == sum(attack.state_bytes for attack in prepared.attacks)
    assert prepared.attacks[1].state_bytes == 12 * row_bytes + 4 * 6 * 12


def test_float16_takes_half_the_memory_but_for_moments():
    full, half = (
        prepare(load_scenario(tiny(observers=[], executor={"name": "batched", "storage": storage})))
        for storage in ("float32", "float16")
    )

    assert half.executor.work.arena.rows.dtype == np.float16
    assert half.memory_bytes["parameters"] == full.memory_bytes["parameters"] // 2
    assert half.memory_bytes["versions in waiting"] == full.memory_bytes["versions in waiting"] // 2
    assert half.memory_bytes["moments"] == full.memory_bytes["moments"] > 0


def test_auto_takes_an_executor_that_has_the_storage(monkeypatch):
    monkeypatch.setattr(RunMode, "few_epochs", 0)
    chosen = [
        prepare(load_scenario(tiny(observers=[], executor={"storage": storage}))).executor.name
        for storage in ("float32", "float16")
    ]

    assert chosen == ["fused", "batched"]


@pytest.mark.slow
@pytest.mark.full
def test_a_run_too_large_for_any_machine_is_refused_before_memory_is_taken():
    data = {"name": "synthetic", "users": 100, "items": 1_000_000, "interactions": 1_000}
    scenario = tiny(dataset={**data, "split": {"name": "published"}}, model={"name": "gmf", "dim": 1024})
    with pytest.raises(ResourceError, match=r"parameters 390,6\d\d MiB.*moments 781,\d+ MiB.*reduce"):
        prepare(load_scenario(scenario))


LIBRARIES = {
    "compiled": ({"executor": {"name": "fused"}}, {"kernels": KERNELS}),
    "reference": ({"executor": {"name": "reference"}}, {"torch": TORCH["reference"] + WORKING["reference"]}),
    "stacked": ({"executor": {"name": "batched"}}, {"torch": TORCH["batched"] + WORKING["batched"]}),
    "with plots": ({"executor": {"name": "fused"}, "plots": True}, {"kernels": KERNELS}),
    "poisoners": (
        {"executor": {"name": "fused"}, "attackers": [{"name": "a-ra", "number": 3, "targets": [1]}], "observers": []},
        {"kernels": KERNELS, "torch": TORCH["reference"]},
    ),
    "central": (
        {"executor": {"name": "auto"}, "protocol": {"name": "central", "epochs": 2}, "observers": []},
        {"torch": TORCH["central"] + WORKING["central"]},
    ),
    "clients without models": (
        {
            "executor": {"name": "auto"},
            "protocol": {"name": "fedavg", "rounds": 40, "client_model": "none"},
            "training": {"batch_size": "full"},
        },
        {"torch": TORCH["clients"]},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("sections", "libraries"), LIBRARIES.values(), ids=LIBRARIES)
def test_the_interpreter_and_the_libraries_of_a_run_are_in_its_estimate(sections, libraries):
    scenario = load_scenario(tiny(**sections))
    needed = estimate_run(scenario).memory_bytes
    of_process = {"python": PYTHON, **libraries}

    assert needed["data while loading"] == 160 * prepare(scenario).components.split.n_interactions
    assert {part: needed.get(part, 0) / MIB for part in ("python", "kernels", "torch", *OF_A_MODULE)} == {
        part: of_process.get(part, 0) for part in ("python", "kernels", "torch", *OF_A_MODULE)
    }


def test_a_run_whose_libraries_alone_do_not_fit_is_refused(monkeypatch):
    memory = importlib.import_module("gossiprec.emulation.assembly.memory")
    monkeypatch.setattr(memory, "available_bytes", lambda: 100 * MIB)
    monkeypatch.setattr(memory, "resident_bytes", lambda: 50 * MIB)
    scenario = load_scenario(tiny(executor={"name": "reference"}))

    with pytest.raises(
        ResourceError, match=r"needs 338 MiB \(python 131 MiB, torch 207 MiB.*but only 150 MiB are"
    ):
        estimate_run(scenario).check_fits()
    with pytest.raises(ResourceError, match="python 131 MiB, torch 207 MiB"):
        prepare(scenario)


def test_what_this_process_has_of_the_libraries_is_not_asked_for_twice(monkeypatch):
    memory = importlib.import_module("gossiprec.emulation.assembly.memory")
    monkeypatch.setattr(memory, "available_bytes", lambda: 100 * MIB)
    monkeypatch.setattr(memory, "resident_bytes", lambda: 400 * MIB)

    assert (
        bytes_available_to_run({"python": 131 * MIB, "torch": 207 * MIB, "parameters": 50 * MIB}) == 438 * MIB
    )
    check_memory({"python": 131 * MIB, "torch": 207 * MIB, "parameters": 50 * MIB})
    with pytest.raises(ResourceError, match="but only 438 MiB are available"):
        check_memory({"python": 131 * MIB, "torch": 207 * MIB, "parameters": 101 * MIB})


def test_compiling_counts_where_no_kernels_are_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kernels"))
    scenario = load_scenario(tiny(executor={"name": "fused"}))
    before = estimate_run(scenario).memory_bytes
    (tmp_path / "kernels" / "gossiprec.some.module").mkdir(parents=True)
    after = estimate_run(scenario).memory_bytes

    assert before["compiling"] == COMPILING * MIB
    assert "compiling" not in after
    assert "compiling" not in estimate_run(load_scenario(tiny(executor={"name": "reference"}))).memory_bytes


def test_pictures_count_as_far_as_the_run_gives_back_less():
    with_plots, without = (load_scenario(tiny(plots=plots)) for plots in (True, False))
    small = estimate_run(with_plots).memory_bytes
    small_run = prepare(with_plots).memory_bytes

    assert 80 * MIB < small["pictures"] < PICTURES * MIB
    assert small_run["pictures"] == pytest.approx(small["pictures"], rel=0.01)
    assert "pictures" not in estimate_run(without).memory_bytes
    assert figure_bytes(with_plots, {"python": PYTHON * MIB, "parameters": PICTURES * MIB}) == {}
    assert figure_bytes(with_plots, {"sklearn": 138 * MIB}) == {"pictures": MATPLOTLIB * MIB}


def test_models_that_are_trained_stacked_count():
    needed = {
        (name, dim): estimate_run(
            load_scenario(tiny(executor={"name": name}, model={"name": "gmf", "dim": dim}))
        ).memory_bytes
        for name, dim in (("batched", 8), ("batched", 1024), ("fused", 8))
    }

    assert needed["batched", 8]["training"] == 8 * 12 * 4 * 352  # all 12 nodes
    assert 15 * MIB < needed["batched", 1024]["training"] <= 8 * STACK_BYTES["cpu"]
    assert "training" not in needed["fused", 8]


def test_negatives_of_sequences_that_are_trained_stacked_count():
    model = {"name": "gru4rec", "dim": 8, "hidden": 8, "loss": "sampled"}
    few, many = (
        estimate_run(
            load_scenario(
                tiny(
                    executor={"name": "batched"},
                    model=model,
                    training={"batch_size": "full", "negatives": negatives},
                )
            )
        ).memory_bytes["training"]
        for negatives in (5, 25)
    )
    length = -(-150 // 12)

    assert many - few == pytest.approx(8 * 4 * 12 * length * (25 - 5) * 8, rel=0.1)


def test_a_run_that_does_not_fit_is_told_the_number_of_machines():
    divided = {"python": 100, "parameters": 900, "observers": 100}

    assert "among 4 machines like this one (executor: {name: ray, shards: 4})" in count_machines(divided, 400)
    assert "memory of 3 machines like this one" in count_machines({"python": 1000}, 400)
    assert "cannot be divided" in count_machines({"python": 500, "parameters": 10}, 400)


@pytest.mark.slow
def test_a_large_run_takes_the_memory_that_loading_gives_back():
    data = {"name": "synthetic", "users": 100_000, "items": 20_000, "interactions": 4_000_000}
    protocol = {"name": "fedavg", "rounds": 1, "client_model": "none", "participation": 0.001}
    dataset = {**data, "split": {"name": "leave_last_k", "test": 1}}
    training = {"batch_size": "full"}
    sections = {"dataset": dataset, "model": {"name": "mf"}, "protocol": protocol, "training": training}
    scenario = load_scenario({"name": "large", **sections})
    needed = estimate_run(scenario).memory_bytes
    later = sum(size for part, size in needed.items() if part not in ("python", "data while loading"))

    assert drawing_bytes(4_000_000) < 160 * 4_000_000
    assert needed["data while loading"] == max(drawing_bytes(2**20), drawing_bytes(4_000_000) - later)


def test_a_large_observer_has_a_line_with_the_settings_that_lower_it():
    observers = load_scenario(
        tiny(observers=[SINGLE, {"name": "cda", "who": "coalition", "fraction": 0.5}])
    ).observers
    text = _format_observers([60.0, 1500.0], observers)

    assert text.startswith("observers.0 (cda single) 60.0 MiB: storage: float16, or name fewer nodes")
    assert "observers.1 (cda coalition) 1,500.0 MiB: name fewer fractions" in text
    assert _format_observers([1.0, 2.0], observers) == ""
