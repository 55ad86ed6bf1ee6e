"""The contract suites are everybody's: one for each kind of plug-in, and nothing needed that is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gossiprec import testing
from gossiprec.scenario.registries import KINDS

SINGULAR = {"policies": "policy", "similarities": "similarity", "topologies": "topology"}
PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
WITHOUT = """
import importlib, pkgutil, sys
sys.modules.update(dict.fromkeys(("pytest", "hypothesis", "tests")))
import gossiprec.testing
for module in pkgutil.iter_modules(gossiprec.testing.__path__):
    importlib.import_module(f"gossiprec.testing.{module.name}")
from gossiprec.measures import MEASURES
gossiprec.testing.check_measure(MEASURES["hr"])
"""


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_a_check_of_every_kind_of_plugin_and_the_page_tells_of_it(kind):
    name = f"check_{SINGULAR.get(kind, kind.removesuffix('s'))}"
    assert name in testing.__all__
    assert callable(getattr(testing, name))
    assert f"`{name}`" in PAGE


@pytest.mark.full
def test_checks_need_nothing_that_is_not_installed_with_gossiprec():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
