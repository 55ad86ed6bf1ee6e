"""``gossiprec list``: kinds, members with their origin, and the options of one."""

from __future__ import annotations

import json

import pytest
from calls import invoke
from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.models.gmf import GMFOptions
from gossiprec.rules.aggregators import AGGREGATORS
from gossiprec.scenario import bundled, registries
from gossiprec.scenario.registries import KINDS, get_registry


def listed(capsys, *arguments):
    code, out, err = invoke(capsys, "list", *arguments)
    assert (code, err) == (0, "")
    return out


def test_every_kind_is_listed_with_its_count_and_names(capsys):
    lines = {line.split()[0]: line for line in listed(capsys).splitlines()}

    assert set(lines) == {*KINDS, *bundled.KINDS}
    for kind, line in lines.items():
        names = list(bundled.bundled_files(kind) if kind in bundled.KINDS else get_registry(kind))
        assert line.split(maxsplit=2)[1:] == [str(len(names)), ", ".join(names)]
    assert json.loads(listed(capsys, "--json"))["splits"] == [
        "files",
        "last",
        "leave_last_k",
        "published",
        "random",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_called_like_its_group_and_all_in_it_has_a_line_and_options(kind, capsys):
    assert get_registry(kind).group == kind
    for line, name in zip(listed(capsys, kind).splitlines(), get_registry(kind), strict=True):
        found, origin, summary = line.split(maxsplit=2)
        assert (found, origin) == (name, "gossiprec")
        assert len(summary) > 15
        assert all(option.type for option in registries.describe_options(kind, name))


def test_the_line_of_a_model_says_how_it_trains(capsys):
    lines = {line.split()[0]: line.split() for line in listed(capsys, "models").splitlines()}
    for name, trained in (
        ("ncf", ["compiled"]),
        ("lightgcn", ["compiled", "at", "clients"]),
        ("deepfm", ["torch"]),
    ):
        assert lines[name][2 : 2 + len(trained)] == trained


def test_the_options_of_one_are_told_with_types_defaults_and_descriptions(capsys):
    page = listed(capsys, "models", "gmf")
    told = json.loads(listed(capsys, "models", "gmf", "--json"))

    assert page.startswith("gmf (gossiprec)\n  Score of item j")
    assert "  dim                  whole number >= 1, <= 1024  [8]\n" in page
    assert GMFOptions.model_fields["dim"].description in page
    assert (told["kind"], told["origin"], told["problem"]) == ("models", "gossiprec", "")
    (init_std,) = (option for option in told["options"] if option["key"] == "init_std")
    assert init_std == {
        "key": "init_std", "type": "number > 0", "required": False, "default": 0.01,
        "description": GMFOptions.model_fields["init_std"].description,
    }  # fmt: skip


def test_sections_are_told_key_by_key_and_required_options_are_said_to_be(capsys):
    gossip = {option.key: option for option in registries.describe_options("protocols", "rand-gossip")}
    assert (gossip["wake.law"].type, gossip["wake.law"].default) == ("exponential|constant", "exponential")
    assert gossip["merge"].type == f"{'|'.join(AGGREGATORS)} or {{name}}"
    assert gossip["view"].type.startswith("{size, refresh, heal} or {graph} or ")

    assert "  path                 text  [required]" in listed(capsys, "datasets", "movielens-100k")
    assert [option.key for option in registries.describe_options("topologies", "watts-strogatz")] == [
        "k",
        "p",
    ]


class Inner(Options):
    low: int = 1
    high: int = Field(ge=0, le=2**31 - 1)


class Odd(Options):
    pair: tuple[int, str] = (1, "a")
    inner: Inner = Inner(low=5, high=6)
    other: Inner
    choice: bool | None = None


def test_defaults_of_a_section_go_before_those_of_its_keys(monkeypatch):
    kind = registries.get_registry("models")
    monkeypatch.setitem(kind._members, "odd", type("Odd", (), {"Options": Odd}))
    found = [(o.key, o.type, o.required, o.default) for o in registries.describe_options("models", "odd")]

    assert found == [
        ("pair", "[whole number, text]", False, [1, "a"]),
        ("inner.low", "whole number", False, 5),
        ("inner.high", "whole number >= 0", False, 6),
        ("other.low", "whole number", False, 1),
        ("other.high", "whole number >= 0", True, None),
        ("choice", "true or false or null", False, None),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model"], "error: unknown kind 'model'; known: datasets, splits, "),
        (["model"], "did you mean 'models'?"),
        (["models", "gmff"], "error: unknown model 'gmff'; known: bert4rec, biased-mf, "),
        (["models", "gmff"], "did you mean 'gmf'?"),
    ],
)
def test_a_misspelt_kind_or_name_is_answered_with_the_near_one(arguments, message, capsys):
    code, out, err = invoke(capsys, "list", *arguments)
    assert (code, out) == (2, "")
    assert message in err
