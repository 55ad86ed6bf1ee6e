"""Models that stay on a device: the same bytes as on the host, and no copies that nobody looks at.

The device is the CPU, with tensors of its own, so that a row which was not copied is another one.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import islice

import numpy as np
import pytest
import torch

from gossiprec.base.errors import ResourceError
from gossiprec.compute.executors.batched import BatchedExecutor
from gossiprec.compute.store.device_arena import DeviceArena
from gossiprec.emulation import prepare, resume, simulate
from gossiprec.emulation.progress import Stopwatch
from gossiprec.federated import RECOMMENDERS
from gossiprec.models import MODELS
from gossiprec.models.base.graph import GraphModel
from gossiprec.scenario import load_scenario
from gossiprec.testing import recommenders
from gossiprec.testing.tiny_runs import current_models, tiny_scenario
from tests.contracts.test_recommender_contract import MODELS as MODELS_OF
from tests.contracts.test_recommender_contract import OPTIONS
from tests.emulation.ended_early import Patient, ended_early, often, outcome
from tests.emulation.test_bert4rec_runs import MODEL as BERT4REC
from tests.emulation.test_bert4rec_runs import SAMPLED as BERT4REC_OF_CLIENTS
from tests.emulation.test_clients_of_pairs import FULL as ONE_BATCH
from tests.emulation.test_clients_of_pairs import LIGHTGCN
from tests.emulation.test_clients_without_models import MODELS as STAR_MODELS
from tests.emulation.test_clients_without_models import star
from tests.emulation.test_resume import COALITIONS, FEDAVG, JUDGING, PERSONAL, SLOW
from tests.emulation.test_sequence_runs import federated, run
from tests.emulation.tiny_runs import COORDINATOR, SINGLE, tiny
from tests.slow import slow_except_first

BATCHED = {"name": "batched", "threads": 2, "device": "cpu"}
WATCHED = [SINGLE, COALITIONS]
FULL = {"optimizer": "sgd", "learning_rate": 0.05, "batch_size": "full"}
SESSIONS = {"online": {"law": "exponential", "mean": 4.0}, "offline": {"law": "exponential", "mean": 1.0}}
WORLDS = {
    "nobody watches": {"observers": []},
    "all watch": {"observers": WATCHED, "network": SLOW},
    "fictive users": {
        "observers": [{**SINGLE, "fictive_user": "fitted", "refit_every": 2.0, "nodes": [0, 3, 7]}],
        "policies": [{"name": "share-less", "nodes": {"fraction": 0.5}, "tau": 0.5}],
    },
    "guesses": {"observers": [{"name": "entropy-mia", "who": "coalition", "fraction": 0.5, "community_size": 3}]},
    "by performance": {"protocol": PERSONAL, "dataset": JUDGING, "observers": WATCHED},
    "by performance, unseen": {"protocol": PERSONAL, "dataset": JUDGING, "observers": []},
    "inboxes": {
        "observers": WATCHED,
        "policies": [{"name": "robust-merge", "rule": "median", "nodes": {"fraction": 0.5}}],
    },
    "noise": {
        "observers": [SINGLE],
        "policies": [{"name": "dp-sgd", "epsilon": 10, "nodes": {"fraction": 0.5}}],
    },
    "resets": {"observers": WATCHED, "churn": {"model": "reset", "sessions": SESSIONS}},
    "poisoned": {
        "observers": WATCHED,
        "training": FULL,
        "attackers": [{"name": "a-ra", "number": 2, "targets": [4, 17], "start": 2}],
        "policies": [{"name": "robust-merge", "rule": "median", "nodes": {"fraction": 0.5}}],
    },
    "federated": {"protocol": {**FEDAVG, "server": {"name": "momentum", "beta": 0.5}}, "observers": [COORDINATOR]},
    "federated, poisoned": {
        "protocol": {**FEDAVG, "merge": "median"},
        "training": FULL,
        "attackers": [{"name": "a-ra", "number": 2, "targets": [4, 17], "start": 2}],
        "observers": [COORDINATOR],
    },
}  # fmt: skip


@contextmanager
def on_device():
    """Let the batched executor keep models on a device for a while; yield the arenas that are made."""
    made = []

    def make_arena(layout, *, n_nodes, moments, storage, divided, device):
        about = {"n_nodes": n_nodes, "capacity": n_nodes, "moments": moments}
        made.append(DeviceArena(layout, **about, device=torch.device("cpu")))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchedExecutor, "make_arena", make_arena)
        yield made


@pytest.mark.parametrize("world", slow_except_first(WORLDS))
@pytest.mark.full
def test_a_run_is_to_the_byte_what_it_is_with_models_on_the_host(world, tmp_path):
    scenario = often(**WORLDS[world], executor=BATCHED)
    host = simulate(scenario, out=tmp_path / "host")
    with on_device() as made:
        device = simulate(scenario, out=tmp_path / "device")

    assert outcome(device.path) == outcome(host.path)
    assert [arena.n_brought > 0 for arena in made] == [True]


@pytest.mark.slow
@pytest.mark.parametrize(
    "world", ["nobody watches", "all watch", "by performance", "inboxes", "resets", "poisoned", "federated"]
)
@pytest.mark.full
def test_a_run_goes_on_from_a_checkpoint_to_the_same_bytes(world, tmp_path):
    scenario = often(**WORLDS[world], executor=BATCHED)
    host = simulate(scenario, out=tmp_path / "host")
    with on_device():
        run = ended_early(tmp_path / "device", scenario, stop=5)
        resume(run.path)

    assert outcome(run.path) == outcome(host.path)


@pytest.mark.slow
@pytest.mark.full
def test_models_go_from_host_to_device_and_back_by_a_checkpoint(tmp_path):
    scenario = often(observers=WATCHED, executor=BATCHED)
    whole = simulate(scenario, out=tmp_path / "whole")
    run = ended_early(tmp_path / "broken", scenario, stop=3)
    with on_device():
        assert resume(run.path, progress=Patient(3)).manifest["status"] == "interrupted"
    resume(run.path)

    assert outcome(run.path) == outcome(whole.path)


def test_between_reports_rows_nobody_looks_at_are_not_copied():
    scenario = tiny(observers=[], executor=BATCHED, evaluate={"every": 1, "metrics": ["hr@5"]})
    with on_device() as made:
        prepared = prepare(load_scenario(scenario))
        runner, [arena] = prepared.tape_runner(Stopwatch()), made
        copied = []
        for _ in prepared.schedule.play(runner.run_segment):
            copied.append((arena.n_fetched, arena.n_brought))

    first_versions_and_their_moments = 3 * 12
    assert {fetched for fetched, _ in copied} == {0}
    assert {brought for _, brought in copied[len(copied) // 2 :]} == {first_versions_and_their_moments}


def test_looking_at_a_few_nodes_copies_what_these_receive():
    nodes = {**SINGLE, "nodes": [0, 7]}
    with on_device() as made:
        prepared = prepare(load_scenario(tiny(observers=[nodes], executor=BATCHED)))
        for _ in islice(prepared.schedule.play(prepared.tape_runner(Stopwatch()).run_segment), 3):
            pass
        received = int(np.isin(prepared.schedule.deliveries.receiver, [0, 7]).sum())

    assert 0 < made[0].n_fetched <= received + 2 * 6


BIASED = {"training": {"eps": 1e-3}}
"""Adam in which rounding stays small."""
CLIENTS = {
    "clients of ncf": star(model=STAR_MODELS["ncf"]),
    "clients of gmf, adam": star(**BIASED),
    "clients of lightgcn": star(model=LIGHTGCN, training={**ONE_BATCH, "eps": 1e-3}),
    "clients of gru4rec": federated(),
    "clients of bert4rec": federated(model=BERT4REC_OF_CLIENTS),
    **{
        f"clients with {name}, {model['name']}": tiny_scenario(
            model=model, training=recommenders.PLAIN, protocol=recommenders.SLICES,
            recommender={"name": name, **OPTIONS.get(name, [{}])[0]},
        )
        for name in RECOMMENDERS
        for model in MODELS_OF.get(name, [recommenders.MODEL])
    },
}  # fmt: skip
ON_CUDA = {
    **{world: tiny(**BIASED | sections) for world, sections in WORLDS.items()},
    **{
        name: tiny_scenario(model={"name": name})
        for name in MODELS
        if not issubclass(MODELS[name], GraphModel)
    },
    "gru4rec, adam": run(),
    "bert4rec, adam": run(model=BERT4REC),
    **CLIENTS,
}
HAS_CUDA = torch.cuda.is_available()
WITHOUT_CUDA = pytest.mark.skipif(
    not HAS_CUDA, reason="pytest --device cuda runs it, where torch finds a CUDA device"
)


@WITHOUT_CUDA
@pytest.mark.parametrize("world", ON_CUDA if HAS_CUDA else [*ON_CUDA][:1])
def test_a_run_on_cuda_ends_where_it_does_on_the_cpu(world):
    """To 1e-3 of the way that models go (`gossiprec.testing.models.SAME`)."""
    found = {}
    for device in ("cpu", "cuda"):
        prepared = prepare(load_scenario({**ON_CUDA[world], "executor": {**BATCHED, "device": device}}))
        first = current_models(prepared)
        for _ in prepared.schedule.play(prepared.tape_runner(Stopwatch()).run_segment):
            pass
        found[device] = current_models(prepared)
    assert isinstance(prepared.executor.work.arena, DeviceArena) != (world in CLIENTS)

    assert np.linalg.norm(found["cuda"] - found["cpu"]) < 1e-3 * np.linalg.norm(found["cpu"] - first)


@WITHOUT_CUDA
def test_a_run_on_cuda_goes_on_from_a_checkpoint(tmp_path):
    scenario = often(observers=WATCHED, executor={**BATCHED, "device": "cuda"})
    whole = simulate(scenario, out=tmp_path / "whole")
    broken = ended_early(tmp_path / "broken", scenario, stop=4)
    resume(broken.path)

    assert outcome(broken.path) == outcome(whole.path)


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch sees a CUDA device")
def test_a_device_that_is_not_there_is_said_before_data_are_read():
    def read(scenario):
        pytest.fail("data were read")

    with pytest.raises(ResourceError, match="found 'cuda', but torch finds no CUDA device"):
        prepare(load_scenario(tiny(executor={"name": "batched", "device": "cuda"})), load=read)
