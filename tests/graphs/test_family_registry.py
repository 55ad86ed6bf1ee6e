from __future__ import annotations

import subprocess
import sys

import pytest

from gossiprec import graphs
from gossiprec.graphs.registry import Option, family


def test_every_family_of_the_package_is_registered_under_the_name_of_its_function():
    for name, found in graphs.families().items():
        assert getattr(graphs, name.replace("-", "_")) is found.draw


def test_options_are_the_arguments_that_are_not_given():
    small_world = graphs.families()["watts-strogatz"]

    assert set(small_world.options) == {"k", "p"}
    assert small_world.asks == {"n", "seed"}
    assert graphs.families()["nearest-by-taste"].asks == {"items"}


def test_options_left_out_take_their_defaults():
    given = {"n": 12, "seed": 3}
    drawn = graphs.families()["watts-strogatz"].graph(given, {"p": 0.5})

    assert sorted(drawn.edges) == sorted(graphs.watts_strogatz(12, 4, 0.5, 3).edges)


def test_a_name_used_twice_and_an_option_that_is_no_argument_are_refused():
    with pytest.raises(ValueError, match="two families are registered as 'ring'"):
        family("ring")(lambda n: None)
    with pytest.raises(ValueError, match=r"has arguments \['n', 'k'\], but options \['degree'\]"):
        family("nowhere", degree=Option(int, "degree"))(lambda n, k: None)


def test_every_family_says_what_it_is():
    for found in graphs.families().values():
        assert found.summary.startswith("Return ")
        assert all(option.meaning for option in found.options.values())


def test_listing_families_does_not_load_the_graph_library():
    script = "import sys; from gossiprec import graphs; graphs.families(); "
    script += "sys.exit(bool({'networkx', 'scipy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
