"""DP-SGD with the unit user: one clip of each whole local update, and noise, in every executor and protocol."""

from __future__ import annotations

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant

from gossiprec import network_epsilon
from gossiprec.base.errors import ScenarioError
from gossiprec.compute.executors.reference import _Learner
from gossiprec.compute.local_update import NodeSettings, TrainingSettings
from gossiprec.defences import compute_epsilon, min_noise_multiplier
from gossiprec.defences.dp_sgd import DPSGD
from gossiprec.emulation import simulate
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.assembly.schedule import build_and_schedule, planned_settings
from gossiprec.emulation.progress import NullProgress, Stopwatch
from gossiprec.emulation.run.contact_replay import ContactTape
from gossiprec.emulation.run.epsilon_coverage import NodeNoise, linear_gap
from gossiprec.emulation.run.network_epsilon import linear_exposures, round_exposures
from gossiprec.numerics.noise import gaussian_noise
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import carried_out, final_models, tiny
from tests.slow import slow_except_first

USER = {"name": "dp-sgd", "unit": "user", "epsilon": 8.0, "delta": 1e-3, "clip_norm": 0.05}
GOSSIP = {"name": "rand-gossip", "fanout": 2, "view": {"size": 2}, "wakes": 2}
FEDAVG = {"name": "fedavg", "rounds": 3, "merge": "mean"}


def scenario(protocol, **sections):
    return tiny(**{"protocol": protocol, "observers": [], "policies": [USER], **sections})


@pytest.mark.parametrize("protocol", [GOSSIP, FEDAVG], ids=["gossip", "fedavg"])
def test_every_local_update_is_clipped_and_noisy(protocol, monkeypatch):
    """By hand: the next model a node trains or sends is its start, plus the clipped change, plus its noise."""
    seen, train = {}, _Learner.train

    def recorded(learner, row, update):
        before = row.astype(np.float64)
        train(learner, row, update)
        seen[learner._node, update] = before, row.astype(np.float64) - before

    monkeypatch.setattr(_Learner, "train", recorded)
    prepared = carried_out(scenario(protocol, executor={"name": "reference"}))
    sigma = prepared.executor.work.node_settings.update_noise
    assert len(seen) == 12 * (2 if protocol is GOSSIP else 3)
    sent = {}
    for (node, update), (before, move) in sorted(seen.items(), key=lambda entry: entry[0][1]):
        assert np.linalg.norm(move) > 0.05, "the clip matters"
        noise = float(sigma[node]) * 0.05 * gaussian_noise(5, node, update, len(before))
        sent[node] = before + move * 0.05 / np.linalg.norm(move) + noise
    if protocol is FEDAVG:  # own rows stay with the clients between rounds
        for (node, update), (before, _) in seen.items():
            if update == 2:
                earlier, move = seen[node, 1]
                noise = float(sigma[node]) * 0.05 * gaussian_noise(5, node, 1, len(before))
                expected = earlier + move * 0.05 / np.linalg.norm(move) + noise
                np.testing.assert_allclose(before[:8], expected[:8], atol=1e-6)
        version = np.mean([sent[node] for node in range(12)], axis=0)[8 : prepared.components.layout.size]
        np.testing.assert_allclose(final_models(prepared)[12, 8:], version, atol=1e-6)
    else:
        models = final_models(prepared)
        np.testing.assert_allclose(models[:, :8], [sent[node][:8] for node in range(12)], atol=1e-6)


@pytest.mark.parametrize(
    ("model", "executor"),
    slow_except_first([("gmf", "fused"), ("gmf", "batched"), ("gru4rec", "batched"), ("prme-g", "fused")]),
)
@pytest.mark.cases(1)
def test_executors_agree(model, executor):
    options = {"name": model, "dim": 8}
    sections = {"model": options, "protocol": {**GOSSIP, "train_on": "receive"}}
    if model == "prme-g":
        sections["dataset"] = {
            "name": "synthetic-checkins", "users": 12, "items": 40, "checkins": 300,
            "split": tiny()["dataset"]["split"],
        }  # fmt: skip
        sections["training"] = {"optimizer": "sgd"}
    first, second = (
        final_models(carried_out(scenario(**sections, executor={"name": name, "threads": threads})))
        for name, threads in (("reference", 1), (executor, 2))
    )
    np.testing.assert_allclose(first, second, atol=2e-4)


@pytest.mark.slow
def test_epsilon_counts_local_updates_not_steps(tmp_path):
    run = simulate(scenario(GOSSIP, training={"local_epochs": 3, "batch_size": 8}), out=tmp_path / "run")
    privacy = run.summary["privacy"]
    assert privacy["epsilon_max"] == pytest.approx(8.0, rel=1e-6)
    assert privacy["noise_multiplier_max"] == pytest.approx(
        min_noise_multiplier(8.0, 1e-3) * 2**0.5, rel=1e-6
    )


def test_other_clients_see_the_mean_of_a_round(tmp_path):
    """Exposure is 1 / (n - 1) per round, also with Adam, batches and hidden user rows."""
    run = simulate(scenario(FEDAVG), out=tmp_path / "run")
    found = network_epsilon(run.path)
    sigma = run.summary["privacy"]["noise_multiplier_max"]
    assert found.reason is None
    seen = 2  # the answers to the last push reach no client
    expected = compute_epsilon(sigma / np.sqrt(seen / 11), 1, 1e-3)
    np.testing.assert_allclose(found.epsilon[:, :12][~np.eye(12, dtype=bool)], expected, rtol=1e-6)
    np.testing.assert_allclose(found.epsilon[:, 12], compute_epsilon(sigma, 3, 1e-3), rtol=1e-6)


def exposures_of(path, **sections):
    """Return the exposures of a run by its rounds, and by its linear view."""
    run = simulate(scenario(**sections), out=path)
    loaded = load_scenario(run.path / "scenario.yaml")
    parts, schedule = build_and_schedule(loaded, load_data(loaded), NullProgress(), Stopwatch())
    noise = NodeNoise.of(parts, planned_settings(parts, schedule))
    tape = ContactTape.of(run, parts.protocol, schedule)
    assert linear_gap(parts, noise) is None
    groups = [*(np.array([node]) for node in range(13)), np.array([1, 6, 9]), np.array([2, 12])]
    return (
        *(found(tape, parts, noise, groups) for found in (round_exposures, linear_exposures)),
        np.array([[user in own for own in groups] for user in range(12)]),
    )


MIXED = [{**USER, "nodes": [0, 1, 2, 3, 4]}, {"name": "dp-sgd", "epsilon": 9.0, "nodes": [6, 7, 8]}]


@pytest.mark.parametrize(
    ("policies", "network"),
    slow_except_first(
        [(MIXED, {"loss": 0.2}), ([USER], {}), ([{**MIXED[1], "nodes": "all"}], {"loss": 0.2})]
    ),
)
def test_rounds_are_the_linear_view_of_a_federation(policies, network, tmp_path):
    """Two computations agree, also with lost answers, unequal weights, two units and undefended clients."""
    protocol = {"name": "fedavg", "rounds": 4, "participation": 0.5, "merge": "samples"}
    training = {"optimizer": "sgd", "batch_size": "full"}
    by_round, by_view, is_own = exposures_of(
        tmp_path / "run", protocol=protocol, policies=policies, network=network, training=training
    )
    others = ~is_own
    np.testing.assert_allclose(by_round[others], by_view[others], atol=1e-9)
    assert 0 < by_round[:, :12][others[:, :12]].max() < 4
    assert (by_round[:, 13] >= by_round[:, [1, 6, 9]].max(axis=1) - 1e-9)[others[:, 13]].all()
    np.testing.assert_allclose(by_round[others[:, 14], 14], by_round[others[:, 14], 12])


@pytest.mark.slow
@pytest.mark.full
def test_secret_samples_are_credited_apart(tmp_path):
    """The mean of 6 of 12 clients, as dp_accounting has it; all need the same noise, and no state between rounds."""
    protocol = {**FEDAVG, "participation": 0.5}
    stateless = {"model": {"name": "mult-vae"}, "training": {"optimizer": "sgd"}}
    fixed = [{**USER, "epsilon": "inf", "noise_multiplier": 3.0}]
    found = network_epsilon(
        simulate(scenario(protocol, policies=fixed, **stateless), out=tmp_path / "fixed").path
    )
    accountant = RdpAccountant(range(2, 64), dp_accounting.NeighboringRelation.REPLACE_ONE)
    event = dp_accounting.GaussianDpEvent(3.0 * 5**0.5 / 2)
    accountant.compose(dp_accounting.SampledWithoutReplacementDpEvent(11, 6, event), 2)
    assert np.nanmax(found.sampled) == pytest.approx(accountant.get_epsilon(1e-3), rel=1e-6)
    assert np.isnan(found.sampled[:, 12]).all()
    assert "sampled_mean" in found.table()[0]
    for name, sections in {"auto": stateless, "rows": {"policies": fixed}}.items():
        assert (
            network_epsilon(simulate(scenario(protocol, **sections), out=tmp_path / name).path).sampled
            is None
        )


@pytest.mark.parametrize(
    ("policies", "protocol", "words"),
    [
        ([USER, {"name": "dp-sgd", "epsilon": 3.0, "nodes": [4]}], GOSSIP, "would use dp-sgd twice"),
        ([{**USER, "noise_multiplier": 0}], GOSSIP, "noise_multiplier"),
        ([{**USER, "noise_multiplier": 0.01}], GOSSIP, "the first local update spends"),
        ([USER], {**FEDAVG, "client_model": "none"}, "dp-sgd adds noise to every item"),
    ],
)
def test_bad_entries_are_refused(policies, protocol, words):
    with pytest.raises(ScenarioError, match=words):
        carried_out(scenario(protocol, policies=policies))


def test_models_without_sample_gradients_are_defended_by_user():
    settings = NodeSettings.without_policies(3)
    policy = DPSGD(DPSGD.Options(epsilon=5, unit="user"), np.array([1]))
    policy.configure(settings, training=TrainingSettings(local_epochs=4), updates=np.array([0, 9, 0]))
    assert settings.update_clip.tolist() == [0, 2, 0]
    assert compute_epsilon(float(settings.update_noise[1]), 9, 1e-6) == pytest.approx(5, rel=1e-6)
    assert not settings.clip_norm.any()
