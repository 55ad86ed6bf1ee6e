"""What a study file may say, and every problem of it in one message."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from small_studies import BASE, COALITION, FANOUT, SINGLE, planned, study_file

from gossiprec.base.errors import ScenarioError
from gossiprec.study.plan import make_plan
from gossiprec.study.spec import load_study, study_schema


def problems(folder, **keys):
    with pytest.raises(ScenarioError) as caught:
        planned(folder, **keys)
    return str(caught.value).splitlines()


def line_of(path, text):
    return next(n for n, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def test_every_combination_runs_with_every_seed(tmp_path):
    axes = {**FANOUT, "lr": {"key": "training.learning_rate", "values": [0.1, 0.01]}}
    plan = planned(tmp_path, axes=axes, seeds=[4, 9])
    told = [(v.labels["fanout"], v.labels["lr"], v.seed) for v in plan.variants]
    assert told == [(f, lr, s) for f in (1, 2, 3) for lr in (0.1, 0.01) for s in (4, 9)]
    for variant in plan.variants:
        resolved = variant.scenario.resolved()
        assert resolved["protocol"]["fanout"] == variant.labels["fanout"]
        assert resolved["training"]["learning_rate"] == variant.labels["lr"]


def test_the_base_is_found_beside_the_study(tmp_path):
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE))
    assert planned(tmp_path, base="base.yaml").variants[0].scenario.name == "tiny"


WORLDS = {
    "gossip": {"base": "base.yaml"},
    "star": {"base": "star.yaml", "protocol.rounds": 2, "seeds": [7, 9]},
}
STAR = {**BASE, "name": "star", "protocol": {"name": "fedavg", "rounds": 5}, "observers": []}


def worlds(folder, **keys):
    """Write a study without a base of its own, whose axis `world` brings two."""
    (folder / "base.yaml").write_text(yaml.safe_dump(BASE))
    (folder / "star.yaml").write_text(yaml.safe_dump(STAR))
    path = study_file(folder, axes={"world": {"values": WORLDS}}, **keys)
    path.write_text(
        yaml.safe_dump({k: v for k, v in yaml.safe_load(path.read_text()).items() if k != "base"})
    )
    return path


def test_a_value_can_bring_a_base_and_seeds_of_its_own(tmp_path):
    plan = make_plan(load_study(worlds(tmp_path, set={"model.dim": 3})))
    told = [
        (v.labels["world"], v.seed, v.scenario.protocol.name, v.scenario.model.options.dim)
        for v in plan.variants
    ]
    assert told == [
        ("gossip", 1, "rand-gossip", 3), ("gossip", 2, "rand-gossip", 3),
        ("star", 7, "fedavg", 3), ("star", 9, "fedavg", 3),
    ]  # fmt: skip
    assert plan.variants[-1].scenario.resolved()["protocol"]["rounds"] == 2


def test_a_study_with_several_bases_told_anew_is_the_same_study(tmp_path):
    study = load_study(worlds(tmp_path))
    again = load_study(study.to_plain_data())
    assert again.to_plain_data() == study.to_plain_data()
    assert [v.hash for v in make_plan(again).variants] == [v.hash for v in make_plan(study).variants]


def test_a_problem_of_one_base_names_the_value_that_brings_it(tmp_path):
    path = worlds(tmp_path)
    (tmp_path / "star.yaml").write_text(yaml.safe_dump({**STAR, "model": {"name": "gmf", "dim": 0}}))
    with pytest.raises(ScenarioError) as caught:
        make_plan(load_study(path))
    (found,) = str(caught.value).splitlines()
    assert found.startswith(f"{tmp_path / 'star.yaml'}:")
    assert found.endswith("(with world=star)")


def test_runs_that_differ_in_observers_alone_are_apart_where_the_study_says_so(tmp_path):
    axes = {"who": {"key": "observers", "values": {"one": [SINGLE], "some": [COALITION]}}}
    assert len(planned(tmp_path, axes=axes, seeds=1).simulations) == 1
    plan = planned(tmp_path, axes=axes, seeds=1, share=False)
    assert [s.hash for s in plan.simulations] == [v.hash for v in plan.variants]


def test_common_values_lie_under_those_of_the_axes(tmp_path):
    plan = planned(tmp_path, set={"protocol.wakes": 7, "protocol.fanout": 2})
    assert {v.scenario.resolved()["protocol"]["wakes"] for v in plan.variants} == {7}
    assert [v.scenario.resolved()["protocol"]["fanout"] for v in plan.variants[::2]] == [1, 2, 3]


def test_an_axis_can_set_several_keys_under_one_label(tmp_path):
    values = {"slow": {"protocol.wakes": 1, "protocol.fanout": 1}, "fast": {"protocol.wakes": 3}}
    plan = planned(tmp_path, axes={"pace": {"values": values}}, seeds=1)
    assert [v.labels["pace"] for v in plan.variants] == ["slow", "fast"]
    assert (
        plan.variants[0].scenario.resolved()["protocol"] | {"fanout": 1, "wakes": 1}
        == (plan.variants[0].scenario.resolved()["protocol"])
    )


def test_an_unknown_key_is_said_once_with_its_line_and_the_near_one(tmp_path):
    found = problems(tmp_path, axes={"fanout": {"key": "protocol.fanuot", "values": [1, 2]}}, seeds=3)
    assert len(found) == 1
    line = line_of(tmp_path / "study.yaml", "- 1")
    assert found[0].startswith(
        f"{tmp_path / 'study.yaml'}:{line}: protocol.fanuot: unknown key; did you mean 'fanout'?"
    )


def test_the_problems_of_all_runs_come_together(tmp_path):
    axes = {
        "fanout": {"key": "protocol.fanout", "values": [1, 5]},
        "lr": {"key": "training.learning_rate", "values": [0.1, -1]},
    }
    found = problems(tmp_path, axes=axes, measures=["hr@5", "haste"])
    assert [line.split(": ")[1] for line in found] == [
        "protocol",
        "training.learning_rate",
        "measures.1",
    ]


def test_a_problem_that_no_line_of_the_study_tells_names_a_variant(tmp_path):
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE))
    axes = {"fanout": {"key": "protocol.fanout", "values": [1, 5]}}
    (found,) = problems(tmp_path, base="base.yaml", axes=axes)
    assert found.startswith(f"{tmp_path / 'base.yaml'}:")
    assert found.endswith("(with fanout=5)")


def test_a_problem_of_the_base_is_said_once(tmp_path):
    (tmp_path / "base.yaml").write_text(yaml.safe_dump({**BASE, "model": {"name": "gmf", "dim": 0}}))
    (found,) = problems(tmp_path, base="base.yaml")
    assert found.startswith(f"{tmp_path / 'base.yaml'}:")
    assert "(with" not in found


def test_values_that_the_data_cannot_carry_are_found_before_anything_runs(tmp_path):
    found = problems(tmp_path, axes={"view": {"key": "protocol.view.size", "values": [3, 12]}})
    assert len(found) == 1
    assert "protocol.view.size: found 12, but a node has only 11 possible peers" in found[0]


def test_two_observers_of_one_run_with_one_name_are_found_before_anything_runs(tmp_path):
    found = problems(tmp_path, set={"observers": [SINGLE, {**SINGLE, "reference_items": 5}]})
    assert len(found) == 1
    assert "an earlier observer has the same key single/standardized/b0.9/k3" in found[0]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"axes": {"a": {"key": "protocol.fanout"}}}, "a grid needs values"),
        ({"axes": {"a": {"key": "protocol.fanout", "low": 1, "high": 3}}}, "a grid needs values"),
        ({"axes": {"a": {"key": "protocol.fanout", "values": []}}}, "values is empty"),
        ({"axes": {"a": {"key": "protocol.fanout", "values": [1], "low": 1, "high": 3}}}, "both values and a range"),
        ({"axes": {"a": {"low": 1, "high": 3}}}, "requires a key"),
        ({"axes": {"a": {"values": [1, 2]}}}, "requires a key"),
        ({"axes": {"a": {"values": {"x": 3}}}}, "'x' must be a mapping from keys to values ({} changes nothing)"),
        ({"axes": {"a": {"values": {"x": {"base": 3}}}}}, "the base of 'x' must be a scenario file"),
        ({"axes": {"a": {"values": {"x": {"base": "missing.yaml"}}}}}, "axes.a.values.x.base: "),
        ({"axes": {"a": {"values": {"x": {"seeds": [1, 1]}}}}}, "for the seeds of 'x', must be different"),
        ({"base": None}, "base is missing"),
        ({"axes": {"a": {"key": "x", "low": 3, "high": 3}}}, "low must be below high"),
        ({"axes": {"a": {"key": "x", "low": 0, "high": 3, "scale": "log"}}}, "must be above 0"),
        ({"axes": {"a": {"key": "x", "low": 1.2, "high": 1.8, "integer": True}}}, "no whole number"),
        ({"axes": {"a": {"key": "x", "values": [1], "scale": "log"}}}, "require a range"),
        ({"axes": {"seed": {"key": "protocol.fanout", "values": [1]}}}, "is already a column of the table"),
        ({"axes": {"a b": {"key": "protocol.fanout", "values": [1]}}}, "of the form"),
        ({"axes": {"a": {"key": "seed", "values": [1]}}}, "write seeds"),
        ({"axes": {"a": {"values": {"x": {"seed": 3}}}}}, "write seeds"),
        ({"set": {"seed": 1}}, "write seeds"),
        ({"seeds": []}, "expected 1 or more entries"),
        ({"seeds": [1, 1]}, "listed twice"),
        ({"seeds": True}, "found true"),
        ({"search": {"method": "random"}}, "requires samples"),
        ({"search": {"method": "gird"}}, "did you mean 'grid'"),
        ({"search": {"samples": 3}}, "require method random"),
        ({"search": {"method": "list"}}, "must be given together"),
        ({"search": {"method": "list", "list": [{"fanuot": 1}]}}, "did you mean 'fanout'"),
        ({"search": {"method": "list", "list": [{"fanout": 7}]}}, "must be one of 1, 2, 3"),
        ({"baseline": {"fan": 1}}, "is not an axis; axes are: fanout"),
        ({"baseline": {"fanout": 9}}, "found 9, must be one of 1, 2, 3"),
        ({"measures": ["max_acc"]}, "did you mean 'max_aac'"),
        ({"measures": ["wall_seconds"]}, "differs between runs"),
        ({"measures": ["hr@7"]}, "evaluate.metrics has hr@5"),
        ({"measures": ["max_aac[coalition-5%]"]}, "no run has such an attack"),
        ({"measures": ["hr@5[single]"]}, "describes the whole run"),
        ({"measures": ["max_aac[single,standardized,high]"]}, "must be a number"),
        ({"measures": ["hr@5", "hr@5"]}, "twice"),
        ({"frobnicate": 1}, "unknown key"),
        ({"base": "missing.yaml"}, "no such file"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_a_line(tmp_path, keys, words):
    found = problems(tmp_path, **keys)
    assert words in found[0]
    assert found[0].startswith(f"{tmp_path / 'study.yaml'}:")


@pytest.mark.parametrize("text", ["", "[]", "3", "name: x", "a: [", "name: x\nbase: 3"])
def test_a_file_that_is_no_study_is_refused(tmp_path, text):
    path = tmp_path / "study.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=r"study\.yaml"):
        load_study(path)


def test_a_study_told_anew_is_the_same_study(tmp_path):
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE))
    study = load_study(study_file(tmp_path, base="base.yaml", baseline={"fanout": 3}))
    again = tmp_path / "elsewhere" / "study.yaml"
    again.parent.mkdir()
    again.write_text(yaml.safe_dump(study.to_plain_data()))
    one, other = make_plan(study), make_plan(load_study(again))
    assert [v.hash for v in one.variants] == [v.hash for v in other.variants]
    assert [s.hash for s in one.simulations] == [s.hash for s in other.simulations]


def test_runs_that_are_the_same_once_resolved_run_once(tmp_path):
    values = {
        "written": {"protocol.fanout": 3},
        "left": {"protocol.wakes": 2},
        "other": {"protocol.fanout": 2},
    }
    plan = planned(tmp_path, axes={"a": {"values": values}})
    assert (len(plan.variants), plan.n_repeated, len(plan.simulations)) == (6, 2, 4)


def test_an_axis_over_observers_names_them(tmp_path):
    axes = {"who": {"key": "observers", "values": {"one": [SINGLE], "some": [COALITION]}}}
    assert [v.labels["who"] for v in planned(tmp_path, axes=axes, seeds=1).variants] == ["one", "some"]


def test_the_schema_knows_every_key_and_refers_to_nothing_it_lacks():
    schema = study_schema()
    assert set(schema["properties"]) == {
        "name", "base", "set", "seeds", "axes", "search", "measures", "baseline", "picture", "share",
    }  # fmt: skip
    references = set(re.findall(r'"#/\$defs/([^"]+)"', json.dumps(schema)))
    assert references <= set(schema["$defs"])
    assert len(references) > 20
    assert not schema["additionalProperties"]


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        ({"kind": "pie"}, "picture.kind: found 'pie', must be 'lines', 'heat', 'front' or 'paired'"),
        ({"x": "fanuot"}, "picture: found the axis 'fanuot'; the axes are: fanout; did you mean 'fanout'?"),
        ({"by": "graph"}, "picture: found the axis 'graph'"),
        ({"to": {"fanout": 7}}, "picture: found fanout: 7; the values of fanout are: 1, 2, 3"),
        ({"where": {"graph": "ring"}}, "picture: found the axis 'graph'"),
        ({"y": ["max_aac"]}, "picture: found the measure 'max_aac'; the study collects: hr@5"),
        ({"against": "hr@10"}, "picture: found the measure 'hr@10'"),
        ({"y": ["hr@5[a,b,c"]}, "picture.y: found 'hr@5[a,b,c'; expected"),
    ],
)
def test_a_picture_of_what_the_study_lacks_is_refused(tmp_path, picture, words):
    [problem] = problems(tmp_path, measures=["hr@5"], picture=picture)
    assert words in problem


def test_a_picture_may_name_all_that_the_study_has(tmp_path):
    picture = {"kind": "paired", "by": "measure", "y": ["hr@5", "max_aac[single]"], "to": {"fanout": 1}}
    file = load_study(study_file(tmp_path, picture=picture)).file
    assert file.first_picture == {**picture, "to": {"fanout": "1"}}


def test_axes_can_have_words(tmp_path):
    axes = {**FANOUT, "lr": {"key": "training.learning_rate", "values": [0.1], "words": "learning rate"}}
    file = load_study(study_file(tmp_path, axes=axes)).file
    assert (file.words, file.first_picture) == ({"lr": "learning rate"}, {})


def test_a_variant_that_changes_nothing_is_the_base(tmp_path):
    axes = {"peers": {"values": {"as ever": {}, "few": {"protocol.fanout": 1}}}}
    base = {**BASE, "protocol": {**BASE["protocol"], "fanout": 2}}
    plan = planned(tmp_path, base=base, axes=axes, seeds=1)
    found = {v.labels["peers"]: v.scenario.resolved()["protocol"]["fanout"] for v in plan.variants}
    assert found == {"as ever": 2, "few": 1}
