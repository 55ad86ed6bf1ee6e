"""The term of the page, as shown, under gossip on two executors and in central training."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from gossiprec.models import MODELS
from tests.emulation.tiny_runs import carried_out, final_models, tiny

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    (code,) = (
        each for each in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "LASSO" in each
    )
    path, before = tmp_path_factory.mktemp("term") / "sparse_gmf.py", dict(MODELS.members())
    path.write_text(code)
    spec = importlib.util.spec_from_file_location("sparse_gmf", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    yield "sparse-gmf"
    MODELS._members.clear()
    MODELS._members.update(before)


def trained(executor, protocol, **model):
    """Return the item tables at the end, and the greatest of their numbers."""
    scenario = tiny(
        model={"dim": 8, "init_std": 0.1, **model},
        protocol=protocol,
        training={"optimizer": "sgd", "learning_rate": 0.1},
        observers=[],
        executor={"name": executor},
    )
    prepared = carried_out(scenario)
    return final_models(prepared)[:, prepared.executor.store.layout.items]


@pytest.mark.parametrize(
    ("executor", "protocol"),
    [
        ("fused", {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 6}),
        ("batched", {"name": "rand-gossip", "fanout": 3, "view": {"size": 3}, "wakes": 6}),
        ("auto", {"name": "central", "epochs": 4}),
    ],
    ids=["fused", "batched", "central"],
)
def test_the_penalty_of_the_page_makes_items_smaller_wherever_they_train(sparse, executor, protocol):
    reference = "auto" if protocol["name"] == "central" else "reference"
    penalised = trained(executor, protocol, name=sparse, l1=0.1)

    assert np.allclose(penalised, trained(reference, protocol, name=sparse, l1=0.1), atol=1e-5)
    assert np.abs(penalised).mean() < 0.9 * np.abs(trained(executor, protocol, name="gmf")).mean()
