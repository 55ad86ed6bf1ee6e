"""Presets lie under a file's own values, overrides above them."""

from __future__ import annotations

import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.scenario.yaml_source import preset_names

FULL943 = "name: x\npreset: full943\ndataset: {name: synthetic, split: {name: published}}\n"
AUTHORS100 = FULL943.replace("full943", "authors100")


def test_full943_is_the_published_setting(load):
    scenario = load(FULL943)
    protocol = scenario.protocol.options
    assert (protocol.wakes, protocol.train_on, protocol.view.refresh.every) == (500, "wake", 1)
    assert (scenario.training.local_epochs, scenario.training.batch_size) == (1, 64)
    assert {observer.options.community_size for observer in scenario.observers} == {50}


def test_authors100_is_the_setting_of_the_published_code(load):
    scenario = load(AUTHORS100)
    protocol = scenario.protocol.options
    assert scenario.dataset.limit_users == 100
    assert (protocol.wakes, protocol.train_on, protocol.view.refresh.every) == (500, "receive", 10)
    assert protocol.wake.redraw is False
    assert (scenario.training.local_epochs, scenario.training.batch_size) == (2, "full")
    assert {observer.options.community_size for observer in scenario.observers} == {5}


def test_own_values_lie_over_the_preset(load):
    scenario = load(
        FULL943 + "protocol: {wakes: 7, view: {size: 4}}\ntraining: {negatives: 2}\nobservers: []\n"
    )
    assert scenario.protocol.options.wakes == 7
    assert scenario.protocol.options.view.size == 4
    assert scenario.protocol.options.view.refresh.every == 1
    assert (scenario.training.negatives, scenario.training.batch_size) == (2, 64)
    assert scenario.observers == ()


def test_naming_another_thing_drops_the_presets_options_of_the_first(load):
    assert load(FULL943 + "protocol: {name: fedavg, rounds: 3}\n").protocol.options.rounds == 3


def test_another_kind_of_refresh_replaces_the_presets(load):
    assert (
        load(FULL943 + "protocol: {view: {refresh: {every: 5}}}\n").protocol.options.view.refresh.every == 5
    )
    clock = "protocol: {view: {refresh: {law: exponential, mean: 2}}}\n"
    assert load(AUTHORS100 + clock).protocol.options.view.refresh.mean == 2


def test_a_preset_can_be_chosen_by_override(load):
    scenario = load(FULL943, "preset=authors100", "observers.0.momentum=0.5")
    assert scenario.dataset.limit_users == 100
    assert scenario.observers[0].options.momentum == 0.5


@pytest.mark.parametrize("preset", preset_names())
def test_a_resolved_scenario_no_longer_needs_its_preset(load, preset):
    assert "preset" not in load(FULL943, f"preset={preset}").resolved()


def test_a_problem_with_a_presets_value_names_the_preset(load):
    with pytest.raises(
        ScenarioError, match=r"^preset full943:7: protocol\.fanout: found 3, but a view has 2"
    ):
        load(FULL943, "protocol.view.size=2")


def test_overrides_read_their_values_as_yaml(load, minimal):
    scenario = load(
        minimal,
        "seed=7",
        "training.learning_rate=1e-3",
        "network.latency={law: exponential, mean: 2}",
        "plots=no",
    )
    assert (scenario.seed, scenario.plots) == (7, False)
    assert scenario.training.learning_rate == 0.001
    assert scenario.network.latency.mean == 2


def test_overrides_lead_into_lists_and_append_to_them(load, minimal):
    scenario = load(
        minimal + "observers: [{name: cda, who: single}]\n",
        "observers.0.momentum=[0, 0.9]",
        "observers.1={name: cda, who: coordinator}",
        "policies.0.name=share-less",
        "policies.0.nodes=[1, 2]",
    )
    assert [observer.options.who for observer in scenario.observers] == ["single", "coordinator"]
    assert scenario.observers[0].options.momentum == (0, 0.9)
    assert scenario.policies[0].nodes == (1, 2)


def test_of_two_overrides_the_later_wins(load, minimal):
    assert load(minimal, "seed=1", "seed=2").seed == 2


def test_an_override_that_mends_the_file_leaves_no_problem(load, minimal):
    assert load(minimal + "  view: {size: nine}\n", "protocol.view.size=9").protocol.options.view.size == 9


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("protocol.fanuot=3", "protocol.fanuot: unknown key; did you mean 'fanout'? (known: "),
        ("protocol.wakse=3", "protocol.wakse: unknown key; did you mean 'wakes'? (known: "),
        ("protocl.fanout=3", "protocl: unknown key; did you mean 'protocol'? (known: "),
        ("protocol.veiw.size=3", "protocol.veiw: unknown key; did you mean 'view'? (known: "),
        ("protocol.wake=3", "protocol.wake: found 3, must be a mapping of keys; did you mean 'wakes'?"),
        (
            "executor=fused",
            "executor: found 'fused', must be a mapping of keys (name, threads, wave_size, ...)",
        ),
        ("model=gmf", "model: found 'gmf', must be a mapping such as {name: gmf}"),
        (
            "protocol.view={refresh: {every: 3, men: 2}}",
            "protocol.view.refresh.men: unknown key; did you mean 'mean'?",
        ),
        (
            "churn={sessions: [{period: 4, offline_from: 1, offline_until: 2, perod: 4}]}",
            "churn.sessions.0.perod: unknown key; did you mean 'period'?",
        ),
        (
            "policies=[{nam: dp-sgd}]",
            "policies.0.name: is missing, found 'nam'; expected one of dp-sgd",
        ),
        ("wakes=3", "wakes: unknown key; did you mean 'protocol.wakes'? (known: adversaries, "),
        ("training.learning_rate=-1", "training.learning_rate: found -1, must be greater than 0"),
        ("name.first=x", "name is 'tiny', not a section that can contain 'first'"),
        ("seed", "expected key.path=value, such as protocol.wakes=10"),
        ("=3", "expected key.path=value, such as protocol.wakes=10"),
        ("protocol..wakes=3", "expected key.path=value, such as protocol.wakes=10"),
        ("seed=[1", "not valid YAML: "),
        ("seed=", "seed: found null, must be a whole number"),
        (
            "observers.2.momentum=0",
            "observers is a list with 1 entries, counted from 0; '2' is not one of them",
        ),
        (
            "observers.last.momentum=0",
            "observers is a list with 1 entries, counted from 0; 'last' is not one",
        ),
        ("preset=full94", "preset: found 'full94', must be one of authors100, full943"),
        ("training={eps: 1, eps: 2}", "training.eps: found twice"),
    ],
)
def test_a_problem_with_an_override_names_the_override(load, minimal, override, expected):
    with pytest.raises(ScenarioError) as caught:
        load(minimal + "observers: [{name: cda, who: single}]\n", override)
    assert str(caught.value).startswith(f"override '{override}': {expected}")


def test_every_bad_override_is_reported(load, minimal):
    with pytest.raises(ScenarioError) as caught:
        load(minimal, "sede=1", "training.eps=0", "what")
    assert len(str(caught.value).splitlines()) == 3
