"""What policies write into the treatment, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.compute.local_update import NO_LIMIT, NodeSettings, TrainingSettings
from gossiprec.compute.messages import OutgoingTransforms, Transform
from gossiprec.defences import POLICIES, compute_epsilon, max_epochs
from gossiprec.defences.share_less import DRIFT
from gossiprec.emulation import prepare
from gossiprec.models import MODELS
from gossiprec.models.base import BlockRole
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import tiny
from tests.layouts import layout_of

N = 6
GMF = MODELS["gmf"](MODELS["gmf"].Options())
UPDATES = np.array([10, 20, 0, 40, 50, 60])


def policy(name, nodes=(1, 3, 4), **options):
    cls = POLICIES[name]
    return cls(cls.Options(**options), np.array(nodes))


def treated(*policies, local_epochs=2):
    node_settings = NodeSettings.without_policies(N)
    for one in policies:
        one.configure(node_settings, training=TrainingSettings(local_epochs=local_epochs), updates=UPDATES)
    return node_settings


def sent(*policies, layout=GMF.layout(5)):  # noqa: B008 (a layout is a frozen fact)
    outgoing = OutgoingTransforms(layout, N)
    for one in policies:
        outgoing.add("share-less", one.transform(), one.nodes)
    return outgoing


def test_share_less_withholds_the_user_row_and_penalises_drift_on_its_nodes_only():
    node_settings = treated(policy("share-less", tau=0.5))

    outgoing = sent(policy("share-less", tau=0.5))
    assert outgoing.withholds_role(BlockRole.USER).tolist() == [False, True, False, True, True, False]
    assert not outgoing.withholds_role(BlockRole.ITEM).any()
    whole = GMF.layout(5).message_bytes
    assert (whole - outgoing.message_bytes).tolist() == [0, 32, 0, 32, 32, 0]
    assert node_settings.terms.keys() == {DRIFT}
    assert node_settings.terms[DRIFT].tolist() == [0, 0.5, 0, 0.5, 0.5, 0]
    assert not node_settings.clip_norm.any()


def test_noise_is_calibrated_to_each_nodes_own_number_of_local_epochs():
    node_settings = treated(policy("dp-sgd", epsilon=10, clip_norm=3.0))

    assert node_settings.clip_norm.tolist() == [0, 3, 0, 3, 3, 0]
    for node, updates in ((1, 20), (3, 40), (4, 50)):
        noise = float(node_settings.noise_multiplier[node])
        assert 9.9999 < compute_epsilon(noise, 2 * updates, 1e-6) <= 10
    assert (node_settings.most_updates == NO_LIMIT).all()


def test_a_node_that_never_trains_is_given_noise_all_the_same():
    assert treated(policy("dp-sgd", nodes=[2], epsilon=10)).noise_multiplier[2] > 0


def test_infinite_epsilon_clips_only():
    node_settings = treated(policy("dp-sgd", epsilon="inf"))

    assert node_settings.clip_norm[1] == 2.0
    assert not node_settings.noise_multiplier.any()


def test_given_noise_stops_training_when_the_budget_is_spent():
    node_settings = treated(policy("dp-sgd", epsilon=10, noise_multiplier=5.0))

    most = max_epochs(5.0, 10.0, 1e-6) // 2
    assert 0 < most < 40
    assert node_settings.most_updates.tolist() == [NO_LIMIT, most, NO_LIMIT, most, most, NO_LIMIT]
    assert node_settings.noise_multiplier[1] == 5.0


def test_given_noise_without_a_budget_never_stops_training():
    node_settings = treated(policy("dp-sgd", epsilon="inf", noise_multiplier=0.5))

    assert (node_settings.most_updates == NO_LIMIT).all()
    assert node_settings.noise_multiplier[3] == 0.5


def test_steps_give_all_nodes_the_same_noise_and_the_same_end():
    one = policy("dp-sgd", epsilon=10, steps=61)
    node_settings = treated(one)

    assert node_settings.most_updates[[1, 3, 4]].tolist() == [30, 30, 30]
    assert len(set(node_settings.noise_multiplier[[1, 3, 4]].tolist())) == 1
    assert one.privacy_spent(np.minimum(UPDATES, 30), UPDATES).epsilon[1] == pytest.approx(10, rel=1e-5)


def test_spent_privacy_grows_with_the_updates_of_each_node():
    one = policy("dp-sgd", epsilon=10)
    node_settings = treated(one)

    half, whole = one.privacy_spent(UPDATES // 2, UPDATES), one.privacy_spent(UPDATES, UPDATES)

    assert whole.nodes.tolist() == [1, 3, 4]
    assert whole.epsilon == pytest.approx([10, 10, 10], rel=1e-5)
    expected = [
        compute_epsilon(float(node_settings.noise_multiplier[n]), int(UPDATES[n]), 1e-6) for n in (1, 3, 4)
    ]
    assert half.epsilon == pytest.approx(expected)


def test_both_policies_can_be_used_together():
    node_settings = treated(policy("share-less", nodes=[0, 1]), policy("dp-sgd", nodes=[1, 2], epsilon=10))

    assert node_settings.training_modes.tolist() == [1, 2, 2, 0, 0, 0]


@pytest.mark.parametrize("name", ["share-less", "dp-sgd"])
def test_a_node_uses_a_policy_once(name):
    entry = {"name": name, **({"epsilon": 10} if name == "dp-sgd" else {})}
    policies = [{**entry, "nodes": [1, 3, 4]}, {**entry, "nodes": [3, 4, 5]}]
    with pytest.raises(ScenarioError, match=f"2 nodes, such as node 3, would use {name} twice"):
        prepare(load_scenario(tiny(policies=policies)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"epsilon": 0.1},
            r"epsilon: found 0.1, but the accountant cannot prove an epsilon below 0\.1\d+ at delta 1e-06",
        ),
        (
            {"epsilon": 1e14},
            r"epsilon: found 1e\+14, for which the noise would be lost in rounding; set it to 'inf'",
        ),
        ({"epsilon": 10, "noise_multiplier": 1e-90}, "found 1e-90, too small for the accountant"),
        ({"epsilon": "inf", "noise_multiplier": 1e-90}, "found 1e-90, too small for the accountant"),
        ({"epsilon": 10, "noise_multiplier": 0.1}, "first local update spends epsilon 172.4 of 10; raise"),
        ({"epsilon": 10, "steps": 1}, "steps: found 1, but a local update takes 2 local epochs"),
        ({"epsilon": 10, "steps": 9, "noise_multiplier": 1.0}, "steps requires noise_multiplier 'auto'"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused(options, message):
    with pytest.raises(ScenarioError, match=message):
        treated(policy("dp-sgd", **options))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"name": "dp-sgd"}, "policies.0.epsilon: is missing"),
        ({"name": "dp-sgd", "epsilon": 0}, "policies.0.epsilon"),
        ({"name": "dp-sgd", "epsilon": -1}, "policies.0.epsilon"),
        ({"name": "dp-sgd", "epsilon": "infinite"}, "policies.0.epsilon"),
        ({"name": "dp-sgd", "epsilon": 1, "delta": 0}, "policies.0.delta: found 0"),
        ({"name": "dp-sgd", "epsilon": 1, "delta": 1}, "policies.0.delta: found 1"),
        ({"name": "dp-sgd", "epsilon": 1, "clip_norm": 0}, "policies.0.clip_norm: found 0"),
        ({"name": "dp-sgd", "epsilon": 1, "noise_multiplier": 0}, "policies.0.noise_multiplier"),
        ({"name": "dp-sgd", "epsilon": 1, "steps": 0}, "policies.0.steps: found 0"),
        ({"name": "share-less", "tau": -0.1}, "policies.0.tau: found -0.1"),
    ],
)
def test_bad_options_are_named(entry, message):
    with pytest.raises(ScenarioError) as caught:
        load_scenario(tiny(policies=[entry]))
    assert message in str(caught.value)


def test_a_row_cannot_be_withheld_that_nobody_has_or_that_everybody_holds():
    one = policy("share-less")

    with pytest.raises(ScenarioError, match=r"share-less .* with protocol\.user_table 'averaged' every node"):
        sent(one, layout=GMF.layout(5, 6))
    with pytest.raises(ScenarioError, match=r"share-less .* the model has none; remove the policy"):
        sent(one, layout=layout_of(0, 2, 1, n_items=3))


def test_what_receivers_merge_cannot_be_withheld():
    class ItemsStay(Transform):
        hides = frozenset({BlockRole.ITEM})

    with pytest.raises(ScenarioError, match="policies: mine hides the item blocks, but receivers merge them"):
        OutgoingTransforms(GMF.layout(5), N).add("mine", ItemsStay(), np.arange(2))


def test_dp_sgd_refuses_a_model_whose_loss_has_no_samples():
    class Whole(MODELS["gmf"]):
        has_sample_gradients = False

    model = Whole(Whole.Options())
    with pytest.raises(ScenarioError, match="the loss of Whole is not a mean over samples"):
        policy("dp-sgd", epsilon=1).check(model, model.layout(5))
