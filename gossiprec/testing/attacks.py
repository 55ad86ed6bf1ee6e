"""Contract of attacks: same results if all that they must not see is garbage, and at any frequency of reports."""

from __future__ import annotations

import csv
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.findings import RATES
from gossiprec.base.errors import PluginError, ScenarioError
from gossiprec.base.isolation import is_foreign_class
from gossiprec.compute.executors import EXECUTORS
from gossiprec.data.split import Split
from gossiprec.emulation import simulate
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.scenario import Scenario
from gossiprec.testing.blinding import AccessMonitor, RecordedAttack, ours, refuse_reach
from gossiprec.testing.tiny_runs import PROTOCOLS, UPDATES, WITHHELD, tiny_scenario

RUNS = {**PROTOCOLS, "updates": UPDATES}
TRAINING = {"optimizer": "sgd", "learning_rate": 0.05, "batch_size": 32}
"""Few steps, because the data that an attack reads do not depend on their number."""
FILES = ("attacks.csv", "metrics.csv", "findings.csv", "positions.csv")


@dataclass(frozen=True)
class _Outcome:
    """The results of an attack in a run: its tables, and every ranking."""

    files: dict[str, bytes]
    meter: RecordedAttack
    summary: dict[str, Any]

    @property
    def n_found(self) -> int:
        """Number of scores given to victims, and of findings."""
        return self.meter.n_scores + max(0, self.files["findings.csv"].count(b"\n") - 1)

    def by_report(self) -> dict[str, tuple[list[Any], list[dict[str, str]]]]:
        """Return the rankings and the findings of each report, by its time."""
        times = list(dict.fromkeys(row["time"] for row in self._rows("metrics.csv")))
        each = len(self.meter.rankings) // len(times)
        findings = self._rows("findings.csv")
        return {
            time: (
                self.meter.rankings[place * each : (place + 1) * each],
                [row for row in findings if row["time"] == time],
            )
            for place, time in enumerate(times)
        }

    def _rows(self, name: str) -> list[dict[str, str]]:
        return list(csv.DictReader(self.files[name].decode().splitlines()))

    def check_measures(self) -> frozenset[str]:
        """Raise if a share is not between 0 and 1, or if a finding is not in the summary; return the measures found."""
        for row in self._rows("attacks.csv"):
            _check_share("aac", row["aac"])
        kept = {_about(row) for row in self.summary.get("findings", [])}
        for row in self._rows("findings.csv"):
            if row["measure"] in RATES:
                _check_share(row["measure"], row["value"])
            about = _about({**row, "labels": json.loads(row["labels"])})
            assert about in kept, (
                f"{about} is in findings.csv but not in the summary, so neither the closing table nor a study has it"
            )
        return frozenset(row["measure"] for row in self._rows("findings.csv"))


def _check_share(name: str, value: str) -> None:
    share = float(value)
    assert math.isnan(share) or 0 <= share <= 1, f"{name} is a share, but one is {share:g}"


def _about(finding: Mapping[str, Any]) -> str:
    return f"{finding['attack']}: {finding['measure']} {json.dumps(finding['labels'], sort_keys=True)}"


def check_attack(name: str, options: Mapping[str, Any] | None = None, *, model: str = "gmf") -> None:
    """Run a registered attack twice in tiny runs of each protocol that it accepts, also on updates.

    The second run overwrites everything that the attack must not see before it is passed on
    (:mod:`gossiprec.testing.blinding`); every ranking and all tables must be byte-identical. If the coordinator
    observes for its accomplices, a further run has true data of only one of them, and the ranking of this one must
    stay. The last run of a protocol has reports between the others: the results at the others must stay too. All
    executors play the first protocol in which the attack finds something, and the quickest plays each further one.

    The known deliveries that an attack is given may determine which nodes observe, since colluders are placed by
    them. Nothing else may follow from them. An attack with nodes that do not depend on them is created with wrong
    deliveries. For any other attack they are overwritten after its creation, so that copies made by then escape the
    check.

    An attack from outside gossiprec is checked like a built-in one, because copies would hide what it reads. A
    further check makes sure that it has the same results on copies.

    Shares, such as the rates of membership guesses, must lie between 0 and 1. Its findings must be in the summary,
    and each measure that it announces must be reported in one of the runs.

    Parameters
    ----------
    name : str
        The name under which it is registered.
    options : mapping, optional
        Options as in a scenario. There are eight users.
    model : str
        The name of the model that is attacked.

    Raises
    ------
    AssertionError
        If results differ; if it requests data or models of nodes that are not its own; if a share is out of range or
        a measure is missing; or if it ranks no user and reports no finding in any run, so that nothing was checked.
    """
    observer, refused, found = {"name": name, **(options or {})}, [], 0
    announced, reported = set[str](), set[str]()
    quick_first = sorted(EXECUTORS, key=lambda name: name != "fused")
    for world, protocol in RUNS.items():
        found_before, n_played = found, 0
        for executor in quick_first:
            if found_before and n_played:
                break
            about = f"{name} ({world}, {executor})"
            run = tiny_scenario(
                model={"name": model}, training=TRAINING, protocol=protocol, policies=[WITHHELD],
                observers=[observer], executor={"name": executor, "threads": 2},
            )  # fmt: skip
            try:
                seen = _check(run, further=not n_played)
                found += seen.n_found
                announced |= {*seen.meter.attack.measures}
                reported |= seen.check_measures()
                n_played += 1
            except PluginError as error:
                raise AssertionError(f"the attack {about}: {error}") from error
            except ScenarioError as error:
                refused.append(f"{about}: {error}")
            except AssertionError as error:
                raise AssertionError(f"the attack {about}: {error}") from error
    assert found, "\n".join([f"the attack {name} found nothing in any run, so nothing was checked", *refused])
    lost = ", ".join(sorted(announced - reported))
    assert not lost, (
        f"the attack {name} announces {lost} in `measures` but reports it in no run; report it in findings() or "
        "guesses(), or announce it no more"
    )


def _check(run: Mapping[str, Any], *, further: bool) -> _Outcome:
    """Raise if a blind run or one of the further runs has other results; return the results."""
    seen, blind = (_outcome(run, AccessMonitor(blind=blind)) for blind in (False, True))
    differs = (
        "differs where all that it must not see is overwritten; read seen.models(), users() and gather(), and of the "
        "attack's own nodes context.data_of(), context.own_models() and seen.own_model()"
    )
    for one, other in zip(seen.meter.rankings, blind.meter.rankings, strict=True):
        assert one == other, f"the ranking {one[0]} {differs}"
    for name in FILES:
        assert seen.files[name] == blind.files[name], f"{name} {differs}"
    if further and seen.meter.n_scores and seen.meter.attack.context.coordinator in seen.meter.own_nodes:
        _check_accomplice(run, seen.meter.rankings)
    if further:
        _check_reports(run, seen)
        _check_copies(run, seen)
        if seen.meter.own_nodes:  # if none of its nodes observes, it is shown nothing
            refuse_reach(run, _kind(run), "observe")
    return seen


def _kind(run: Mapping[str, Any]) -> type:
    return ATTACKS[run["observers"][0]["name"]]


def _check_copies(run: Mapping[str, Any], seen: _Outcome) -> None:
    """Raise if an attack from outside gossiprec has other results on the copies that it is given in a run."""
    if not is_foreign_class(_kind(run)):
        return
    given = _outcome(run, AccessMonitor(blind=False), copies=True)
    differs = "differs where it is given copies, as attacks from outside gossiprec are"
    for one, other in zip(seen.meter.rankings, given.meter.rankings, strict=True):
        assert one == other, f"the ranking {one[0]} {differs}"
    for name in FILES:
        assert seen.files[name] == given.files[name], f"{name} {differs}"


def _check_accomplice(
    run: Mapping[str, Any], rankings: Sequence[tuple[Any, list[tuple[int, bytes]]]]
) -> None:
    """Raise if the result of the coordinator's accomplice depends on the data of other users."""
    node = [node for _, rows in rankings for node, _ in rows][-1]
    alone = _outcome(run, AccessMonitor(blind=True, accomplice=node))
    for (about, one), (_, other) in zip(rankings, alone.meter.rankings, strict=True):
        assert dict(one).get(node) == dict(other).get(node), (
            f"the ranking {about} of node {node} differs where the data of all other accomplices are overwritten; each "
            "of them uses its own"
        )


def _check_reports(run: Mapping[str, Any], seen: _Outcome) -> None:
    """Raise if the results at a report depend on earlier reports."""
    often = _outcome(
        {**run, "evaluate": {**run["evaluate"], "also": [1, 3]}}, AccessMonitor(blind=False)
    ).by_report()
    seldom = seen.by_report()
    assert len(often) > len(seldom)
    for time, found in seldom.items():
        assert often[time] == found, (
            f"what it finds at time {time} differs where there are reports between; rankings(), guesses() and "
            "findings() may depend on what has been received, not on when they were asked for before"
        )


def _outcome(run: Mapping[str, Any], watch: AccessMonitor, *, copies: bool = False) -> _Outcome:
    """Return the results of a run; without `copies` the attack could read all arrays, so that the check sees it."""

    def load(wanted: Scenario) -> Split:
        watch.split = load_data(wanted)
        return watch.split

    shared = nullcontext() if copies else ours(_kind(run))
    with tempfile.TemporaryDirectory() as folder, watch.installed(), shared:
        done = simulate(run, out=Path(folder) / "run", load_data=load)
        files = {name: (done.path / name).read_bytes() for name in FILES}
        return _Outcome(files, watch.meter, done.summary or {})
