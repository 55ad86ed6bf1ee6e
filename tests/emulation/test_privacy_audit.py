"""Audits: guesses about canaries never refute a true claim, and refute a false one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import binom

from gossiprec import audit_privacy
from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.compute import update_noise
from gossiprec.compute.executors import reference
from gossiprec.defences import compute_epsilon
from gossiprec.emulation import simulate
from gossiprec.emulation.run.network_epsilon import update_exposures
from gossiprec.emulation.run.privacy_audit import PrivacyAudit, audit_scores, lower_epsilon
from tests.cli.calls import invoke
from tests.emulation import exposure_formulas
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first

CLAIM = {"name": "dp-sgd", "epsilon": 1.0, "delta": 1e-5}
BY_USER = {**CLAIM, "unit": "user", "clip_norm": 0.1}


def made(folder, policies, **sections):
    protocol = {"name": "rand-gossip", "fanout": 1, "view": {"size": 2}, "wakes": 2}
    training = {"optimizer": "sgd", "batch_size": "full"}
    dataset = {**tiny()["dataset"], "items": 80}
    scenario = tiny(dataset=dataset, protocol=protocol, training=training, observers=[], policies=policies)
    scenario["executor"] = {"name": "reference"}
    return simulate({**scenario, **sections}, out=folder / "run").path


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return runs that claim epsilon 1 by sample and by user, and one that only clips."""
    policies = {"interaction": CLAIM, "user": BY_USER, "none": {**CLAIM, "epsilon": "inf"}}
    return {name: made(tmp_path_factory.mktemp(name), [policy]) for name, policy in policies.items()}


def test_bound_is_that_of_biased_coins():
    """Without delta: the epsilon at which so many right guesses have a chance of 5 %."""
    found = lower_epsilon(0.0, 0.95, canaries=100, guesses=50, right=45)
    assert binom.sf(44, 50, 1 / (1 + np.exp(-found))) == pytest.approx(0.05, rel=1e-4)
    assert lower_epsilon(0.0, 0.95, canaries=100, guesses=50, right=27) == 0.0
    assert lower_epsilon(1e-3, 0.95, canaries=100, guesses=50, right=45) < found


@pytest.mark.slow
@pytest.mark.full
def test_a_true_claim_is_seldom_refuted():
    """Randomised response is (1, 0)-private: 100 audits at 95 % refute it in at most 15 (5 and four deviations)."""
    draw, refuted = np.random.default_rng(1), 0
    for _ in range(100):
        members = draw.random(100) < 0.5
        honest = draw.random(100) < np.e / (1 + np.e)
        refuted += audit_scores(np.where(honest, members, ~members) + 0.0, members, 0.0, 0.95)[0] > 1.0
    assert refuted <= 15


@pytest.mark.parametrize("unit", slow_except_first(["interaction", "user"]))
@pytest.mark.cases(1)
def test_claims_of_a_run_stand(runs, unit):
    found = audit_privacy(runs[unit], updates=2, canaries=8)
    assert (found.unit, found.canaries) == (unit, 12 * 8)
    assert found.claimed == pytest.approx(1.0, rel=1e-5)
    assert not found.refuted
    assert found.right > found.guesses / 2


@pytest.mark.parametrize(
    ("unit", "module"), slow_except_first([("interaction", reference), ("user", update_noise)])
)
@pytest.mark.cases(1)
def test_noise_that_is_too_small_is_refuted(runs, unit, module, monkeypatch):
    draw = module.dp_noise_row
    monkeypatch.setattr(module, "dp_noise_row", lambda *key: np.float32(0.1) * draw(*key))
    assert audit_privacy(runs[unit], updates=2, canaries=8).refuted


@pytest.mark.slow
@pytest.mark.full
def test_a_clip_that_does_not_hold_is_refuted(runs, monkeypatch):
    monkeypatch.setattr(update_noise, "min", lambda *_: 5.0, raising=False)
    assert audit_privacy(runs["user"], updates=2, canaries=8).refuted


@pytest.mark.parametrize("clip_norm", slow_except_first([2.0, 0.1]))
@pytest.mark.full
def test_an_audit_says_if_updates_are_too_short_for_the_noise(clip_norm, tmp_path, capsys):
    policy = {**BY_USER, "epsilon": 4.0, "clip_norm": clip_norm}
    path = made(tmp_path, [policy])
    arguments = ("audit", path, "--updates", 2, "--canaries", 4 if clip_norm == 2.0 else 16, "-q")
    found = json.loads(invoke(capsys, *arguments, "--json")[1])
    printed = invoke(capsys, *arguments)[1]
    if clip_norm == 2.0:
        assert found["lower"] == 0
        assert found["reach"] == pytest.approx(0.235, abs=0.03)
        assert (
            "note: no power: it would not find a claim that is too low; a local update on a canary has 0.2"
            in printed
        )
        assert "audit a run with clip_norm at most 0.2" in printed
    else:
        assert found["lower"] > 0
        assert found["reach"] == pytest.approx(1, abs=1e-4)
        assert found["power_note"] is None
        assert "note" not in printed


def test_an_audit_that_proves_nothing_says_what_would():
    found = PrivacyAudit(4.0, 0.0, 1e-5, 0.95, "interaction", 5, 8, 8, 5)
    assert found.power_note.endswith("raise --canaries or --updates")


def test_without_noise_any_finite_claim_is_refuted(runs):
    found = audit_privacy(runs["none"], updates=1, canaries=8)
    assert found.claimed == np.inf
    assert found.right == found.guesses
    assert found.lower > 2


def lower_bound_of(view, victim, sigma, trials=4000):
    """Return the lower bound by the best linear guess at a victim's number, 0 or 1, in messages of a view."""
    draw = np.random.default_rng(3)
    members = draw.random(trials) < 0.5
    noise = draw.normal(0.0, sigma, (trials, view.shape[1]))
    noise[:, victim] += members
    seen = noise @ view.T
    return audit_scores(seen @ np.linalg.pinv(view @ view.T) @ view[:, victim], members, 1e-5, 0.95)[0]


@pytest.mark.parametrize(("members", "heard"), [([0], [1, 10]), ([0, 8], [1, 7, 9, 10])])
def test_muffliatos_sum_is_refuted_and_the_projection_stands(members, heard):
    """Three hops away on a ring, after three rounds of averaging, for node 0 and for a coalition with node 8."""
    sigma, n = 1.0, 11
    view = exposure_formulas.averaging_view(exposure_formulas.ring_mixing(n), np.isin(np.arange(n), heard), 3)
    if len(members) > 1:
        view[:, members] = 0.0  # they subtract their own noise

    def claim(shares):
        return compute_epsilon(float(sigma / np.sqrt(shares[3])), 1, 1e-5)

    found = lower_bound_of(view, 3, sigma)
    assert claim(exposure_formulas.message_exposures(view)) < found
    assert found < claim(update_exposures(view, np.arange(n)))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"items": [*range(80)]}, DataError, "expected items from 0 to 79 that no user has"),
        ({"items": [80]}, DataError, r"found items \[80\]"),
        ({"canaries": 75}, DataError, "canaries would collide with its items; lower canaries"),
        ({"updates": 0}, ScenarioError, "expected at least one update and one canary"),
    ],
)
def test_bad_canaries_are_refused(runs, options, error, words):
    with pytest.raises(error, match=words):
        audit_privacy(runs["interaction"], **options)


@pytest.mark.parametrize(
    ("policies", "sections", "words"),
    [
        ([], {}, "found no dp-sgd"),
        ([{**CLAIM, "nodes": [1]}, {**BY_USER, "nodes": [2]}], {}, "found 2 units"),
        ([BY_USER], {"model": {"name": "mult-vae"}}, "audit the noise with mf or gmf"),
    ],
    ids=["none", "two-units", "no-rows"],
)
@pytest.mark.cases(2)
def test_runs_that_cannot_be_audited_are_refused(policies, sections, words, tmp_path):
    path = made(tmp_path, policies, **sections)
    with pytest.raises(ScenarioError, match=words):
        audit_privacy(path)


def test_command_prints_the_bound_next_to_the_claim(runs, capsys):
    code, printed, _ = invoke(capsys, "audit", runs["interaction"], "--updates", "1", "--canaries", "2", "-q")
    assert code == 0
    assert "1 local updates" in printed
    assert "claimed epsilon" in printed
    found = json.loads(
        invoke(capsys, "audit", runs["none"], "--updates", 1, "--canaries", 2, "-q", "--json")[1]
    )
    assert (found["claimed"], found["refuted"]) == (None, False)
    assert invoke(capsys, "audit", runs["interaction"], "--item", "99", "-q")[0] == 2
