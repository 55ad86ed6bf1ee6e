"""Whatever a study file says, the answer is a plan or a message, never a traceback."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from small_studies import BASE, COALITION, SINGLE

from gossiprec.base.errors import GossipRecError
from gossiprec.study.plan import make_plan
from gossiprec.study.spec import load_study

WHOLE = {
    "name": "small",
    "base": BASE,
    "set": {"protocol.wakes": 3},
    "seeds": [1, 2],
    "axes": {
        "fanout": {"key": "protocol.fanout", "values": [1, 2]},
        "pace": {"values": {"slow": {"protocol.wakes": 1}, "fast": {"training.local_epochs": 2}}},
        "who": {"key": "observers", "values": {"one": [SINGLE], "some": [COALITION]}},
        "lr": {"key": "training.learning_rate", "low": 0.01, "high": 0.1, "scale": "log"},
    },
    "search": {"method": "random", "samples": 3, "seed": 0},
    "measures": ["hr@5", "max_aac[single,*,0.9]", "messages"],
    "baseline": {"fanout": 1},
}
STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.floats(allow_nan=True, allow_infinity=True, width=32),
    st.sampled_from(
        ["", "x", "grid", "list", "observers.0.momentum", "max_aac[", "a.b.c", "..", "0", "seed", "preset"]
    ),
    st.sampled_from([[], {}, [1], {"name": "x"}, [[1, 2]], {"key": "protocol.fanout"}, [{"fanout": 1}]]),
)


def places(value, path=()):
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield from places(child, (*path, key))


@st.composite
def mutated(draw):
    told = copy.deepcopy(WHOLE)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([p for p in places(told) if p]))
        holder = told
        for key in path[:-1]:
            holder = holder[key]
        what = draw(st.sampled_from(["replace", "remove", "rename"]))
        if what == "replace":
            holder[path[-1]] = draw(STRANGE)
        elif what == "remove":
            del holder[path[-1]]
        elif isinstance(holder, dict):
            holder[draw(st.sampled_from(["x", "values", "key", "list", "fanout", "1"]))] = holder.pop(
                path[-1]
            )
    return told


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(mutated())
def test_a_mutated_study_is_planned_or_refused(told):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.yaml"
        path.write_text(yaml.safe_dump(told, sort_keys=False))
        try:
            plan = make_plan(load_study(path))
        except GossipRecError:
            return  # anything else is the traceback that must not be
        assert plan.simulations
