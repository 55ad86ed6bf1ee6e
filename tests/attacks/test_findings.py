"""What an attack may report, and under which names."""

import math

import numpy as np
import pytest

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.findings import Finding
from gossiprec.figures.study.quantity import RUN_WORDS
from gossiprec.measures.selectors import OF_ATTACKS, read_measure


def test_labels_of_numpy_become_plain():
    found = Finding("leak", {"depth": np.int64(3), "rate": np.float64(0.5), "own": np.bool_(True)}, 1.0)
    assert [type(value) for value in found.labels.values()] == [int, float, bool]


@pytest.mark.parametrize("measure", ["", "a b", "leak@5", "leak[x]", "é"])
def test_a_name_that_nobody_could_ask_for_is_refused(measure):
    with pytest.raises(ValueError, match="use letters, digits"):
        Finding(measure, {}, 1.0)


@pytest.mark.parametrize(
    "labels",
    [{"a b": 1}, {"": 1}, {"x": "a,b"}, {"x": "]"}, {"x": ""}, {"x": " a"}, {"x": "a\n"}, {"x": None}, {"x": math.nan},
     {"x": (1, 2)}],
)  # fmt: skip
def test_a_label_that_could_not_be_written_is_refused(labels):
    with pytest.raises(ValueError, match="leak has the label"):
        Finding("leak", labels, 1.0)


def test_every_node_has_one_value():
    with pytest.raises(ValueError, match="2 values for 3 nodes"):
        Finding("leak", {}, 1.0, (np.arange(3), np.zeros(2)))


@pytest.mark.parametrize("name", list(ATTACKS))
def test_the_names_that_an_attack_announces_are_free_and_can_be_asked_for(name):
    for measure in ATTACKS[name].measures:
        assert read_measure(measure).name == measure
        assert measure not in (*OF_ATTACKS, *RUN_WORDS)
