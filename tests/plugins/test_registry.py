"""A registry with plug-ins: who brings a name, what is imported for it, and what is said of those that are broken."""

from __future__ import annotations

import sys
from importlib import import_module
from textwrap import dedent

import pytest
from fake_distributions import install

from gossiprec.base import registry
from gossiprec.base.errors import PluginError, ScenarioError
from gossiprec.base.registry import Registry, registry_name

INIT = 'from gossiprec.base.registry import Registry\nTOYS = Registry("toy", __name__, group="toys")\n'
OURS = """
    from toybox import TOYS

    @TOYS.register("{0}")
    class {0}:
        "A toy of ours."
"""
THEIRS = """
    from toybox import TOYS

    @TOYS.register("{0}")
    def {0}():
        "A toy of somebody's."
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on ``sys.path`` with the package of a registry, which has the toys `ball` and `kite` of its own."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "toybox").mkdir()
    (tmp_path / "toybox" / "__init__.py").write_text(INIT)
    install(tmp_path, "unrelated", "7", {"console_scripts": {"ball": "nowhere:main"}})
    for name in ("ball", "kite"):
        (tmp_path / "toybox" / f"{name}.py").write_text(dedent(OURS.format(name)))
    registry.entry_points.cache_clear()
    yield tmp_path
    registry.entry_points.cache_clear()
    for name in set(sys.modules) - before:
        del sys.modules[name]


def toys() -> Registry:
    return import_module("toybox").TOYS


def test_a_plug_in_s_member_is_found_by_its_name_and_nothing_else_is_imported_for_it(site):
    install(site, "tops", "1.2", {"gossiprec.toys": {"top": "tops"}}, tops=THEIRS.format("top"))
    install(site, "dolls", "3", {"gossiprec.toys": {"doll": "dolls"}}, dolls=THEIRS.format("doll"))

    assert toys()["top"].__doc__ == "A toy of somebody's."
    assert registry.origin_of(toys().entry_point("top")) == "tops 1.2"
    assert "dolls" not in sys.modules


def test_a_member_of_ours_imports_no_plug_in_and_no_other_of_ours(site):
    install(site, "tops", "1.2", {"gossiprec.toys": {"top": "tops"}}, tops=THEIRS.format("top"))

    assert toys()["ball"].__doc__ == "A toy of ours."
    assert toys().entry_point("ball") is None
    assert not {"tops", "toybox.kite"} & set(sys.modules)


def test_names_are_listed_without_importing_plug_ins(site):
    install(site, "tops", "1.2", {"gossiprec.toys": {"top": "tops"}}, tops=THEIRS.format("top"))

    assert list(toys()) == ["ball", "kite", "top"]
    assert "top" in toys()
    assert "doll" not in toys()
    assert "tops" not in sys.modules


def test_an_unknown_name_is_answered_with_those_of_plug_ins_too(site):
    install(site, "tops", "1.2", {"gossiprec.toys": {"spinning-top": "tops"}})

    with pytest.raises(
        ScenarioError, match="unknown toy 'spinningtop'; known: ball, kite, spinning-top; did you mean"
    ):
        toys()["spinningtop"]


def test_a_module_may_bring_several_members_and_the_object_form_works_too(site):
    both = THEIRS.format("top") + THEIRS.format("doll").replace("from toybox import TOYS", "")
    install(site, "tops", "1", {"gossiprec.toys": {"top": "tops:top", "doll": "tops"}}, tops=both)

    assert (toys()["doll"].__name__, toys()["top"].__name__) == ("doll", "top")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module_anywhere", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("raise RuntimeError('of\\nno use')", "RuntimeError: of no use"),
        ("def top(", "SyntaxError"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        (f"{THEIRS.format('top')}\n    1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_plug_in_that_cannot_be_imported_is_named_each_time_and_harms_nobody_else(site, source, reason):
    install(site, "tops", "1.2", {"gossiprec.toys": {"top": "tops"}}, tops=source)

    for _ in range(2):
        with pytest.raises(
            PluginError, match=r"toy 'top' belongs to the plug-in tops 1\.2, which cannot be imp"
        ) as found:
            toys()["top"]
        assert reason in str(found.value)
        assert "\n" not in str(found.value)
    assert [name for name, _ in toys().members()] == ["ball", "kite"]
    assert list(toys()) == ["ball", "kite", "top"]


def test_an_entry_point_whose_module_registers_another_name_is_told_so(site):
    install(site, "tops", "1.2", {"gossiprec.toys": {"top": "tops"}}, tops=THEIRS.format("tip"))

    with pytest.raises(PluginError, match=r"tops 1\.2 declares the toy 'top', but tops does not register it"):
        toys()["top"]


def test_two_plug_ins_with_one_name_are_both_named_when_it_is_asked_for(site):
    install(site, "tops", "1", {"gossiprec.toys": {"top": "tops", "tip": "tops"}}, tops=THEIRS.format("tip"))
    install(site, "more-tops", "2", {"gossiprec.toys": {"top": "more"}}, more=THEIRS.format("top"))

    with pytest.raises(PluginError, match="'top' is registered by more-tops 2 and tops 1;"):
        toys()["top"]
    assert toys()["tip"].__name__ == "tip"
    assert toys()["ball"].__name__ == "ball"


def test_a_plug_in_that_takes_a_name_of_ours_is_named_beside_gossiprec(site):
    install(site, "tops", "1", {"gossiprec.toys": {"ball": "tops"}}, tops=THEIRS.format("ball"))

    with pytest.raises(PluginError, match=r"'ball' is registered by gossiprec [0-9.]+ and tops 1;"):
        toys()["ball"]
    assert toys()["kite"].__name__ == "kite"


def test_a_plug_in_that_registers_a_name_of_ours_in_secret_is_broken(site):
    both = THEIRS.format("top") + THEIRS.format("ball").replace("from toybox import TOYS", "")
    install(site, "tops", "1", {"gossiprec.toys": {"top": "tops"}}, tops=both)

    with pytest.raises(
        PluginError, match=r"tops 1, .*'ball' is registered twice, by toybox\.ball\.ball and by"
    ):
        toys()["top"]
    assert toys()["ball"].__module__ == "toybox.ball"


def test_of_two_copies_of_a_distribution_the_first_on_the_path_counts(site, monkeypatch):
    install(site, "Spinning_Tops", "1", {"gossiprec.toys": {"top": "tops"}})
    monkeypatch.syspath_prepend(site / "newer")
    install(
        site / "newer", "spinning-tops", "2", {"gossiprec.toys": {"top": "tops"}}, tops=THEIRS.format("top")
    )

    assert toys()["top"].__name__ == "top"
    assert registry.origin_of(toys().entry_point("top")) == "spinning-tops 2"


def test_a_file_that_is_run_again_replaces_what_it_registered(site):
    def registered():
        @toys().register("mine")
        class Mine:
            pass

        return Mine

    first, second = registered(), registered()
    assert first is not second
    assert toys()["mine"] is second


def test_an_object_stands_for_the_function_it_wraps(site):
    class Holder:
        def __init__(self, wrapped):
            self.__wrapped__ = wrapped

    toys().register("a")(Holder(install))
    toys().register("a")(Holder(install))
    with pytest.raises(
        PluginError, match=r"the toy 'a' is registered twice, by fake_distributions\.install and by"
    ):
        toys().register("a")(Holder(toys))


def code_of(*names):
    registry._code.cache_clear()
    used = registry.distributions_used(toys().entry_point(name) for name in names)
    assert list(used) == ["tops"]
    return used["tops"]["code"]


def test_a_plug_in_is_known_by_all_of_its_source_and_not_by_that_of_others(site):
    points = {"top": "lab.tops.spinning", "tip": "tip"}
    install(site, "tops", "1", {"gossiprec.toys": points}, tip=THEIRS.format("tip"))
    for folder in ("tops", "dolls"):  # of the namespace `lab`, which has no __init__.py
        (site / "lab" / folder).mkdir(parents=True)
        for name in ("__init__", "spinning"):
            (site / "lab" / folder / f"{name}.py").touch()
    first = [code_of("top"), code_of("tip"), code_of("top", "tip")]
    assert len(set(first)) == 3

    (site / "lab" / "dolls" / "spinning.py").write_text("other = True")
    assert [code_of("top"), code_of("tip"), code_of("tip", "top")] == first
    (site / "lab" / "tops" / "__init__.py").write_text("changed = True")
    assert code_of("top") != first[0]
    assert code_of("tip") == first[1]
    assert code_of("top", "tip") != first[2]


def test_a_registry_without_a_group_takes_no_plug_ins(site):
    install(site, "tops", "1", {"gossiprec.toys": {"ball": "tops"}}, tops=THEIRS.format("ball"))

    closed = Registry("toy", "toybox")
    assert closed.entry_point("ball") is None
    with pytest.raises(ScenarioError, match="unknown toy 'top'"):
        closed["top"]


def test_messages_name_the_class_of_an_object_as_it_is_registered():
    things = Registry("thing", "tests")

    @things.register("some-thing")
    class SomeThing:
        """A registered class."""

    class Other(SomeThing):
        """A class that is not registered."""

    assert registry_name(SomeThing()) == "some-thing"
    assert registry_name(Other()) == "Other"
