from __future__ import annotations

import subprocess
import sys

import pytest

from gossiprec.base.errors import PluginError
from gossiprec.network import graphs
from gossiprec.network.graphs.families import FamilyOption, register_family


def test_every_family_of_the_package_is_registered_under_the_name_of_its_function():
    for name, found in graphs.FAMILIES.members():
        assert getattr(graphs, name.replace("-", "_")) is found.draw


def test_options_are_the_arguments_that_are_not_given():
    small_world = graphs.FAMILIES["watts-strogatz"]

    assert set(small_world.options) == {"k", "p"}
    assert small_world.asks == {"n", "seed"}
    assert graphs.FAMILIES["nearest-by-taste"].asks == {"items"}


def test_options_left_out_take_their_defaults():
    given = {"n": 12, "seed": 3}
    drawn = graphs.FAMILIES["watts-strogatz"].graph(given, {"p": 0.5})

    assert sorted(drawn.edges) == sorted(graphs.watts_strogatz(12, 4, 0.5, 3).edges)


def test_a_name_used_twice_and_an_option_that_is_no_argument_are_refused():
    with pytest.raises(
        PluginError,
        match=r"family 'ring' is registered twice, by gossiprec\.network\.graphs\.families\.ring",
    ):
        register_family("ring")(lambda n: None)
    with pytest.raises(ValueError, match=r"has arguments \['n', 'k'\], but options \['degree'\]"):
        register_family("nowhere", degree=FamilyOption(int, "degree"))(lambda n, k: None)


def test_listing_families_does_not_load_the_graph_library():
    script = "import sys; from gossiprec.network.graphs import FAMILIES as f; list(f); "
    script += "print({'networkx', 'scipy'} & {*sys.modules})"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
