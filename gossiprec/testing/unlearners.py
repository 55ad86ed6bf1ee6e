"""Contract of unlearning methods: some run accepts them, results repeat, and the run that they begin with stays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np

from gossiprec.emulation import simulate
from gossiprec.emulation.unlearning import UNLEARNERS, Unlearner
from gossiprec.emulation.unlearning.judge import NOTHING, unlearn
from gossiprec.testing.tiny_runs import (
    FEDERATED,
    GOSSIP,
    UPDATES,
    check_claims,
    check_some_run_accepts,
    registered_as,
    tiny_scenario,
)

Judged: TypeAlias = Mapping[str, Mapping[str, float]]
"""The values of the method, of the method ``again``, of doing ``nothing``, and of doing nothing in a run ``apart``."""


def check_unlearner(unlearner: type[Unlearner], **options: Any) -> None:
    """Check an unlearning method on tiny runs of gossip and federations, of which one must accept it.

    Parameters
    ----------
    unlearner : type of Unlearner
        The class; it need not be registered.
    **options
        Its options.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    runs = {
        name: tiny_scenario(protocol=protocol, observers=[])
        for name, protocol in {"gossip": GOSSIP, "federated": FEDERATED, "updates": UPDATES}.items()
    }
    with TemporaryDirectory() as folder, registered_as(UNLEARNERS, unlearner) as name:

        def play(run: str, scenario: Mapping[str, Any]) -> None:
            path = simulate(scenario, out=Path(folder, run)).path
            tables = [unlearn(path, [1], methods=[{"name": name, **options}], k=3).table() for _ in range(2)]
            alone = unlearn(path, [1], methods=[], k=3).table()
            judged = {"method": tables[0][name], "again": tables[1][name], "nothing": tables[0][NOTHING]}
            about = f"the unlearning method {unlearner.__name__}"
            check_claims(about, __name__, judged={**judged, "apart": alone[NOTHING]})

        check_some_run_accepts(runs, play)


def models_are_numbers_and_costs_are_not_negative(judged: Judged) -> None:
    """Return models that are finite, and costs from 0."""
    method = judged["method"]
    assert np.isfinite(method["distance"]), f"Found the distance {method['distance']}."
    for cost in ("sent_bytes", "stored_bytes", "local_epochs", "seconds"):
        assert method[cost] >= 0, f"Found {cost} {method[cost]}."


def results_repeat(judged: Judged) -> None:
    """Give the same models and costs again, but for the time."""
    first, second = ({**judged[name], "seconds": 0.0} for name in ("method", "again"))
    np.testing.assert_equal(first, second)


def the_run_stays_as_it_was(judged: Judged) -> None:
    """Leave the models of the run as they were, while it runs and afterwards."""
    np.testing.assert_equal(judged["nothing"], judged["apart"])
