"""What is wrong with a scenario is said where it was written, all at once, with what is allowed."""

from __future__ import annotations

import pytest

from gossiprec.base.errors import REMOVED, ScenarioError, did_you_mean
from gossiprec.measures import MEASURES

# text appended to the minimal scenario (from line 7 on) -> the one line the user reads
ONE_PROBLEM = {
    "  fanuot: 3": "x.yaml:7: protocol.fanuot: unknown key; did you mean 'fanout'? "
    "(known: fanout, merge, name, train_on, view, wake, wakes)",
    "  view: {sise: 3}": "x.yaml:7: protocol.view.sise: unknown key; did you mean 'size'? "
    "(known: graph, refresh, size)",
    "  train_on: recieve": "x.yaml:7: protocol.train_on: found 'recieve', must be 'wake' or 'receive'; "
    "did you mean 'receive'?",
    "  fanout: 5": "x.yaml:7: protocol.fanout: found 5, but a view has 3 peers; "
    "lower fanout or raise view.size",
    "  view:\n    refresh: {every: 0}": "x.yaml:8: protocol.view.refresh.every: found 0, "
    "must be greater than or equal to 1",
    "  view: {refresh: {law: exponential}}": "x.yaml:7: protocol.view.refresh.mean: is missing",
    "training: {learning_rate: -1}": "x.yaml:7: training.learning_rate: found -1, must be greater than 0",
    "training: {batch_size: half}": "x.yaml:7: training.batch_size: found 'half', "
    "must be a whole number or 'full'",
    "training: {batch_size: 0}": "x.yaml:7: training.batch_size: found 0, must be greater than or equal to 1",
    "training: {local_epochs: yes}": "x.yaml:7: training.local_epochs: found true, must be a whole number",
    "training:": "x.yaml:7: training: found null, must be a mapping of keys "
    "(optimizer, learning_rate, batch_size, ...)",
    "trianing: {}": "x.yaml:7: trianing: unknown key; did you mean 'training'? (known: adversaries, attackers, "
    "changes, checkpoint, churn, coordinator, dataset, evaluate, executor, model, name, network, observers, plots, "
    "policies, preset, protocol, recommender, seconds_per_wake, seed, stop, training)",
    "seed: -1": "x.yaml:7: seed: found -1, must be greater than or equal to 0",
    "seed: 9223372036854775808": "x.yaml:7: seed: found 9223372036854775808, "
    "must be less than or equal to 9223372036854775807",
    "name: other": "x.yaml:7: name: found twice (first in x.yaml:1)",
    "network: {latency: 100ms}": "x.yaml:7: network.latency: found '100ms'; expected a distribution, such as "
    "{law: constant, value: 0.1}; times are in mean wake periods: "
    "if nodes wake once per second on average, 0.1 is 100 ms",
    "network: {latency: {law: constnat}}": "x.yaml:7: network.latency: found law 'constnat', "
    "must be one of constant, uniform, exponential, lognormal, weibull, pairs, geographic, site-pairs, trace; "
    "did you mean 'constant'?",
    "network: {latency: {value: 1}}": "x.yaml:7: network.latency: must have a key 'law'",
    "network: {latency: {law: exponential, mean: .inf}}": "x.yaml:7: network.latency.mean: found inf, "
    "must be a finite number",
    "network: {loss: 1}": "x.yaml:7: network.loss: found 1, must be less than 1",
    "policies: {name: share-less}": "x.yaml:7: policies: found {'name': 'share-less'}, "
    "must be a list of {name: ..., ...}",
    "policies:\n  - {name: shareless}": "x.yaml:8: policies.0.name: unknown policy 'shareless'; "
    "known: dp-sgd, share-less; did you mean 'share-less'?",
    "policies:\n  - share-less": "x.yaml:8: policies.0: found 'share-less', "
    "must be a mapping such as {name: share-less}",
    "policies: [{name: dp-sgd}]": "x.yaml:7: policies.0.epsilon: is missing",
    "policies: [{name: dp-sgd, epsilon: 5000}]": "x.yaml:7: policies.0.epsilon: found 5000.0: "
    "no privacy is left above 1000",
    "policies: [{name: share-less, nodes: {fraction: 2}}]": "x.yaml:7: policies.0.nodes.fraction: found 2, "
    "must be less than or equal to 1",
    "policies: [{name: share-less, nodes: [0, one]}]": "x.yaml:7: policies.0.nodes.1: found 'one', "
    "must be a whole number",
    "policies: [{name: share-less, nodes: al}]": "x.yaml:7: policies.0.nodes: found 'al', "
    "must be 'all' or a mapping of keys or a list; did you mean 'all'?",
    "policies: [{name: share-less}, {name: share-less}]": "x.yaml:7: policies.1: repeats policies.0; "
    "remove one of them",
    "observers: [{who: single}]": "x.yaml:7: observers.0.name: is missing; expected one of cda",
    "observers: [{name: cda, who: coalition}]": "x.yaml:7: observers.0: "
    "a coalition needs fraction or members",
    "observers: [{name: cda, who: single, momentum: [0, 1]}]": "x.yaml:7: observers.0.momentum.1: found 1, "
    "must be less than 1",
    "observers: [{name: cda, who: single, momentum: high}]": "x.yaml:7: observers.0.momentum: found 'high', "
    "must be a number or a list",
    "evaluate: {every: 0}": "x.yaml:7: evaluate.every: found 0, must be greater than or equal to 1",
    "evaluate: {also: [1, 0]}": "x.yaml:7: evaluate.also.1: found 0, must be greater than or equal to 1",
    "evaluate: {also: {every: 4, until: 3}}": "x.yaml:7: evaluate.also: until: 3 is before the first report, "
    "every: 4",
    "evaluate: {also: {every: 2, untill: 3, until: 3}}": "x.yaml:7: evaluate.also.untill: unknown key; "
    "did you mean 'until'? (known: every, until)",
    "evaluate: {also: often}": "x.yaml:7: evaluate.also: found 'often', "
    "must be a list or a mapping of keys (every, until)",
    "evaluate: {metrics: [hr20]}": "x.yaml:7: evaluate.metrics: found 'hr20'; "
    f"expected a measure and a length, such as hr@20; measures: {', '.join(MEASURES)}",
    "evaluate: {metrics: [hr@20, full_ndgc@5]}": "x.yaml:7: evaluate.metrics: found 'full_ndgc@5': "
    f"unknown measure 'ndgc'; known: {', '.join(MEASURES)}; did you mean 'ndcg'?",
    "evaluate: {metrics: [full_hr@20]}": "x.yaml:7: evaluate.metrics: found 'full_hr@20': "
    "this name used to mean recall; write recall@20, or hit@20 for the fraction of users with a hit",
    "evaluate: {targets: [3]}": "x.yaml:7: evaluate: targets requires a metric of target items, such as er@10; "
    "add one, or remove targets",
    "evaluate: {targets: {least_popular: 0}}": "x.yaml:7: evaluate.targets.least_popular: found 0, "
    "must be greater than or equal to 1",
    "attackers: [{name: a-hum, number: 1, targets: null}]": "x.yaml:7: attackers.0.targets: found null, "
    "must be a mapping of keys or a list",
    "evaluate: {targets: least_popular}": "x.yaml:7: evaluate.targets: found 'least_popular', "
    "must be a mapping of keys or a list or 'attacked'",
    "evaluate: {targets: attacked, metrics: [er@5]}": "x.yaml:7: evaluate.targets: found 'attacked', "
    "but there are no attackers; list items, or add the section attackers",
    "attackers: [{name: a-hun, number: 1}]": "x.yaml:7: attackers.0.name: unknown poisoner 'a-hun'; "
    "known: a-hum, a-ra, adaptive, clusterattack, fedrecattack, pamn, pieck, pipattack, psmu, shilling, spattack; "
    "did you mean 'a-hum'?",
    "attackers: [{name: a-hum}]": "x.yaml:7: attackers.0: found neither of fraction and number; "
    "expected exactly one of them",
    "attackers: [{name: a-hum, number: 1, fraction: 0.1}]": "x.yaml:7: attackers.0: found both of fraction and "
    "number; expected exactly one of them",
    "attackers: [{name: a-ra, number: 1, steps: 3}]": "x.yaml:7: attackers.0.steps: unknown key; did you mean "
    "'users'? (known: aim, boost, clip, clip_shared, edges, fraction, linked, name, number, placement, scale, start, "
    "std, targets, users)",
    "attackers: [{name: a-ra, number: 1, clip: 0}]": "x.yaml:7: attackers.0.clip: found 0, must be greater than 0",
    "evaluate: {metrics: [hr@100]}": "x.yaml:7: evaluate.metrics: found 'hr@100', "
    "but only 100 items are ranked; did you mean 'recall@100'?",
    "evaluate: {metrics: [full_f1@20]}": "x.yaml:7: evaluate.metrics: found 'full_f1@20', "
    "but f1 always ranks all items; write f1@20",
    "evaluate: {metrics: [hr@20, hr@20]}": "x.yaml:7: evaluate.metrics: found hr@20 twice; remove the repetition",
    "executor: {name: fussed}": "x.yaml:7: executor.name: found 'fussed', "
    "must be 'auto', 'reference', 'batched', 'fused' or 'ray'; did you mean 'fused'?",
    "executor: {threads: 0}": "x.yaml:7: executor.threads: found 0, must be greater than or equal to 1",
    "executor: {storage: float8}": "x.yaml:7: executor.storage: found 'float8', must be 'float32' or 'float16'; "
    "did you mean 'float32'?",
    "executor: {storage: mapped}": "x.yaml:7: executor.storage: found 'mapped', must be 'float32' or 'float16'; it "
    f"{REMOVED['executor.storage: mapped']}",
    "executor: {folder: /tmp}": f"x.yaml:7: executor.folder: {REMOVED['executor.folder']}",
    "preset: full94": "x.yaml:7: preset: found 'full94', must be one of authors100, full943; "
    "did you mean 'full943'?",
    "1: one": "x.yaml:7: the key '1' must be text",
    "plots: !!python/name:os.system x": "x.yaml:7: plots: the tag 'tag:yaml.org,2002:python/name:os.system' "
    "is not allowed",
}


@pytest.mark.parametrize("text", ONE_PROBLEM)
def test_a_problem_is_one_line_with_its_place(load, minimal, text):
    with pytest.raises(ScenarioError) as caught:
        load(minimal + text + "\n")
    assert ONE_PROBLEM[text] in str(caught.value).splitlines()


@pytest.mark.parametrize("text", [t for t in ONE_PROBLEM if not t.startswith("plots")])
def test_one_problem_is_not_reported_as_several(load, minimal, text):
    with pytest.raises(ScenarioError) as caught:
        load(minimal + text + "\n")
    assert str(caught.value) == ONE_PROBLEM[text]


def test_all_problems_are_listed_at_once_in_the_order_of_the_file(load, minimal):
    text = minimal.replace("gmf", "gmff") + "seed: x\nexecutor: {threads: none}\ntraining: {epochs: 1}\n"
    with pytest.raises(ScenarioError) as caught:
        load(text)
    places = [line.split(": ")[:2] for line in str(caught.value).splitlines()]
    assert places == [
        ["x.yaml:3", "model.name"],
        ["x.yaml:7", "seed"],
        ["x.yaml:8", "executor.threads"],
        ["x.yaml:9", "training.epochs"],
    ]


def test_missing_sections_name_the_choices(load):
    with pytest.raises(ScenarioError) as caught:
        load("name: x\ndataset: {name: synthetic}\n")
    assert str(caught.value).splitlines() == [
        "x.yaml: model: is missing; expected {name: ...} with one of gmf, ncf",
        "x.yaml: protocol: is missing; expected {name: ...} with one of fedavg, rand-gossip",
        "x.yaml:2: dataset.split: is missing; expected {name: ...} with one of leave_last_k, published",
    ]


def test_a_key_of_the_section_is_suggested_beside_those_of_the_thing_it_names(load, minimal):
    with pytest.raises(ScenarioError, match=r"dataset.limit_user: unknown key; did you mean 'limit_users'\?"):
        load(minimal, "dataset.limit_user=10")


def test_a_flood_of_problems_is_cut_short(load, minimal):
    with pytest.raises(ScenarioError) as caught:
        load(minimal + "policies:\n" + "  - {name: dp-sgd}\n" * 80)
    lines = str(caught.value).splitlines()
    assert len(lines) == 51
    assert lines[-1] == "... and 30 more problems"


@pytest.mark.parametrize("name", ["../up", "a b", "", "-x", "a--b", "x" * 65, "é"])
def test_a_name_that_is_no_folder_name_is_refused(load, minimal, name):
    with pytest.raises(ScenarioError, match=r"x\.yaml:1: name: "):
        load(minimal.replace("tiny", f'"{name}"'))


@pytest.mark.parametrize(
    ("name", "meant"),
    [("lr", "learning_rate"), ("dimension", "dim"), ("optim", "optimizer"), ("optimiser", "optimizer"), ("d", None)],
)  # fmt: skip
def test_short_and_written_out_names_are_understood(name, meant):
    told = did_you_mean(name, ["dim", "learning_rate", "optimizer"])
    assert told == (f"; did you mean {meant!r}?" if meant else "")
