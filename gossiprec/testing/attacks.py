"""Contracts of attacks: garbage in place of what they must not see, frequency of reports, and ties."""

from __future__ import annotations

import csv
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS, ITEM_MEASURES, RECONSTRUCTION_MEASURES
from gossiprec.adversaries.attacks.attributes import ATTRIBUTE_MEASURES
from gossiprec.adversaries.attacks.findings import RATES
from gossiprec.base.errors import PluginError, ScenarioError
from gossiprec.base.isolation import is_foreign_class
from gossiprec.compute.executors import EXECUTORS
from gossiprec.data.split import Split
from gossiprec.emulation import simulate
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.runs import Run
from gossiprec.scenario import Scenario
from gossiprec.testing.blinding import AccessMonitor, RecordedAttack, refuse_reach, treated
from gossiprec.testing.tiny_runs import CITY, PROTOCOLS, UPDATES, WITHHELD, attribute_tables, tiny_scenario

RUNS = {**PROTOCOLS, "updates": UPDATES}
TRAINING = {"optimizer": "sgd", "learning_rate": 0.05, "batch_size": 32}
"""Few steps, because the data that an attack reads do not depend on their number."""
OF_NAMES = "linked_share"
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
        size = len(self.meter.rankings) // len(times)
        findings = self._rows("findings.csv")
        return {
            time: (
                self.meter.rankings[place * size : (place + 1) * size],
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
            if row["measure"] in (*RATES, *ITEM_MEASURES, *ATTRIBUTE_MEASURES, *RECONSTRUCTION_MEASURES):
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


def check_attack(
    name: str, options: Mapping[str, Any] | None = None, *, model: str = "gmf", every_executor: bool = True
) -> None:
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
    and each measure that it announces must be reported in one of the runs (but ``linked_share``, which needs the names
    that only ``chunks`` with virtual nodes gives to senders).

    Parameters
    ----------
    name : str
        The name under which it is registered.
    options : mapping, optional
        Options as in a scenario. There are eight users; data for an attack with `needs_features` have the columns
        ``gender``, ``occupation`` and ``age``.
    model : str
        The name of the model that is attacked.
    every_executor : bool
        Otherwise the quickest executor plays the first protocol alone, for further options of an attack.

    Raises
    ------
    AssertionError
        If results differ; if it requests data or models of nodes that are not its own; if a share is out of range or
        a measure is missing; or if it ranks no user and reports no finding in any run, so that nothing was checked.
    """
    observer, played = {"name": name, **(options or {})}, _PlayedRuns(every_executor)
    with attribute_tables(needed=ATTACKS[name].needs_features) as attributes:
        for run_name, protocol in RUNS.items():
            run = tiny_scenario(
                dataset={**CITY, **attributes},
                model={"name": model},
                training=TRAINING,
                protocol=protocol,
                policies=[WITHHELD],
                observers=[observer],
            )
            played.check(name, run_name, run)
    played.check_all(name)


@dataclass
class _PlayedRuns:
    """Results of the runs of an attack so far.

    Attributes
    ----------
    every_executor : bool
        Whether all executors play, until a run has found something.
    n_found : int
        Users ranked, and findings.
    refused : list of str
        Runs that the attack does not accept, with the reasons.
    announced, reported : set of str
        Measures.
    """

    every_executor: bool
    n_found: int = 0
    refused: list[str] = field(default_factory=list)
    announced: set[str] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)

    def check_all(self, name: str) -> None:
        """Check that the attack has found something in a run, and has reported all that it announces."""
        refused = [f"the attack {name} found nothing in any run, so nothing was checked", *self.refused]
        assert self.n_found, "\n".join(refused)
        missing = ", ".join(sorted(self.announced - self.reported - {OF_NAMES}))
        assert not missing, (
            f"the attack {name} announces {missing} in `measures` but reports it in no run; report it in findings() or "
            "guesses(), or remove it from `measures`"
        )

    def check(self, name: str, run_name: str, run: Mapping[str, Any]) -> None:
        """Run an attack in all executors, or in the quickest only if an earlier run has found something."""
        found_before, n_played = self.n_found, 0
        for executor in sorted(EXECUTORS, key=lambda name: name != "fused"):
            if n_played and (found_before or not self.every_executor):
                break
            about = f"{name} ({run_name}, {executor})"
            try:
                seen = _check({**run, "executor": {"name": executor, "threads": 2}}, further=not n_played)
                self.n_found += seen.n_found
                self.announced |= {*seen.meter.attack.measures}
                self.reported |= seen.check_measures()
                n_played += 1
            except (PluginError, AssertionError) as error:
                raise AssertionError(f"the attack {about}: {error}") from error
            except ScenarioError as error:
                self.refused.append(f"{about}: {error}")


def _check(run: Mapping[str, Any], *, further: bool) -> _Outcome:
    """Raise if a blind run or one of the further runs has other results; return the results."""
    seen, blinded = (_outcome(run, AccessMonitor(blind=blind)) for blind in (False, True))
    differs = (
        "differs if everything that it must not see is overwritten; read seen.models(), users() and gather(), and of "
        "the attack's own nodes context.feed_of_nodes(), context.models_of_nodes() and seen.own_model()"
    )
    _check_equal(seen, blinded, differs)
    context = seen.meter.attack.context
    at_servers = {context.coordinator, *context.heads.tolist()} & {*seen.meter.own_nodes}
    if further and seen.meter.n_scores and at_servers:
        _check_accomplice(run, seen.meter.rankings)
    if further:
        _check_reports(run, seen)
        if is_foreign_class(_kind(run)):
            given = _outcome(run, AccessMonitor(blind=False), copies=True)
            _check_equal(seen, given, "differs if it is given copies, as attacks from outside gossiprec are")
        if seen.meter.own_nodes:  # if none of its nodes observes, it is shown nothing
            refuse_reach(run, _kind(run), "observe")
    return seen


def _kind(run: Mapping[str, Any]) -> type:
    return ATTACKS[run["observers"][0]["name"]]


def _check_equal(expected: _Outcome, found: _Outcome, differs: str) -> None:
    """Raise if a ranking or a table differs; `differs` ends the message."""
    for one, other in zip(expected.meter.rankings, found.meter.rankings, strict=True):
        assert one == other, f"the ranking {one[0]} {differs}"
    for name in FILES:
        assert expected.files[name] == found.files[name], f"{name} {differs}"


def _check_accomplice(
    run: Mapping[str, Any], rankings: Sequence[tuple[Any, list[tuple[int, bytes]]]]
) -> None:
    """Raise if the result of the coordinator's accomplice depends on the data of other users."""
    node = [node for _, rows in rankings for node, _ in rows][-1]
    single = _outcome(run, AccessMonitor(blind=True, accomplice=node))
    for (about, one), (_, other) in zip(rankings, single.meter.rankings, strict=True):
        assert dict(one).get(node) == dict(other).get(node), (
            f"the ranking {about} of node {node} differs if the data of all other accomplices are overwritten; each "
            "of them uses its own"
        )


def _check_reports(run: Mapping[str, Any], seen: _Outcome) -> None:
    """Raise if the results at a report depend on earlier reports."""
    denser = {**run, "evaluate": {**run["evaluate"], "also": [1, 3]}}
    often = _outcome(denser, AccessMonitor(blind=False)).by_report()
    seldom = seen.by_report()
    assert len(often) > len(seldom)
    for time, found in seldom.items():
        assert often[time] == found, (
            f"its results at time {time} differ if there are reports in between; rankings(), guesses() and findings() "
            "may depend on the received messages, but not on earlier calls"
        )


def _outcome(run: Mapping[str, Any], monitor: AccessMonitor, *, copies: bool = False) -> _Outcome:
    """Return the results of a run; without `copies` the attack could read all arrays, so that the check sees it."""

    def load(wanted: Scenario) -> Split:
        monitor.split = load_data(wanted)
        return monitor.split

    shared = nullcontext() if copies else treated(_kind(run), as_ours=True)
    with tempfile.TemporaryDirectory() as folder, monitor.installed(), shared:
        try:
            done = simulate(run, out=Path(folder) / "run", load_data=load)
        except ScenarioError as error:
            meter = getattr(monitor, "meter", None)
            if meter is not None and meter.has_reported:  # a refusal comes before the first report
                raise PluginError(str(error)) from error
            raise
        files = {name: (done.path / name).read_bytes() for name in FILES}
        return _Outcome(files, monitor.meter, done.summary or {})


N_USERS, N_OWN = 12, 8
IDLE = {**TRAINING, "learning_rate": 1e-30}
ROUNDING = 1e-9


def check_ties(
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    model: Mapping[str, Any] | None = None,
    knows_nothing: Mapping[str, Any] | None = None,
) -> None:
    """Run a registered attack on data full of ties: it must find what guessing finds, whatever the ids.

    No two users have an item in common, so that all others are equally near to a user. Any guess at K of ``N - 1``
    others finds ``K / (N - 1)`` of a community, and fewer guesses find less. Every protocol that the attack accepts
    is run, the first by all executors.

    Parameters
    ----------
    name : str
        The name under which it is registered.
    options : mapping, optional
        Options as in a scenario. There are twelve users, each with eight items of its own, of which five are trained
        on.
    model : mapping, optional
        The section `model` of the scenario; GMF if it is left out.
    knows_nothing : mapping, optional
        The section `model` with which untrained models give all items equal scores. The attack is then
        also run without training on users in overlapping groups, so that everything it has seen ties.

    Raises
    ------
    AssertionError
        If an adversary finds more than a guess does, or less although it has met all users; or if nothing was ranked
        in any run, so that nothing was checked.
    """
    cases = [(model or {"name": "gmf"}, TRAINING, False)]
    if knows_nothing is not None:
        cases.append((knows_nothing, IDLE, True))
    found, refused = 0, []
    for section, training, overlap in cases:
        for number, (run_name, protocol) in enumerate(RUNS.items()):
            for executor in EXECUTORS if number == 0 else ("fused",):
                run: dict[str, Any] = {"model": section, "training": training, "protocol": protocol}
                run |= {"observers": [{"name": name, **(options or {})}], "executor": {"name": executor}}
                try:
                    found += _check_tied_run(run, overlap, f"the attack {name} ({run_name}, {executor})")
                except ScenarioError as error:
                    refused.append(f"{run_name}, {executor}: {error}")
    nothing = f"the attack {name} ranked no user in any run, so nothing was checked"
    assert found, "\n".join([nothing, *refused])


def _check_tied_run(sections: Mapping[str, Any], overlap: bool, about: str) -> int:
    """Play a tied run; return the number of adversaries checked."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sets.csv")
        lines = (f"u{user:02d},i{item:03d}\n" for user, item in _pairs(overlap))
        path.write_text("user,item\n" + "".join(lines))
        split = {"name": "leave_last_k", "test": 1, "validation": 2}
        dataset = {"name": "file", "path": str(path), "split": split}
        run = simulate(tiny_scenario(**sections, dataset=dataset), out=Path(folder, "run"))
        return _count_checked(run, about, ranked_equally=overlap)


def _count_checked(run: Run, about: str, *, ranked_equally: bool) -> int:
    """Raise if an adversary finds more than guessing does; return the number of adversaries checked."""
    n_checked = 0
    for attack in (run.summary or {})["attacks"]:
        size = attack["community_size"]
        guessing = size / (N_USERS - 1)
        key = [key for key in run.adversaries if key.endswith(f"/k{size}")]
        accuracies = np.concatenate([run.adversaries[k][1] for k in key])
        if not ranked_equally:
            assert accuracies.max() <= guessing + ROUNDING, (
                f"{about} finds {accuracies.max():.3f} of a community although all users are equally near, and a guess "
                f"finds {guessing:.3f}; ties must be credited with their expectation, not with the order of ids"
            )
        if attack["upper_bound"] >= 1 - ROUNDING:
            assert abs(attack["last_aac"] - guessing) < ROUNDING, (
                f"{about} finds {attack['last_aac']:.3f} of the communities although all scores tie; a "
                f"guess finds {guessing:.3f}"
            )
        n_checked += len(accuracies)
    for found in (run.summary or {}).get("findings", ()) if ranked_equally else ():
        if found["measure"] == "item_auc" and found["value"] is not None:
            assert abs(found["value"] - 0.5) < ROUNDING, (
                f"{about} has an AUC of {found['value']:.3f} although all models are equal; scores that do not "
                "depend on the models must not know the items of their victims"
            )
            n_checked += 1
    return n_checked


def _pairs(overlap: bool) -> list[tuple[int, int]]:
    """Return pairs of users and items: disjoint sets of items, or groups of users by id with mostly shared items."""
    firsts = [30 * (user // 4) + 2 * (user % 4) if overlap else N_OWN * user for user in range(N_USERS)]
    return [(user, first + item) for user, first in enumerate(firsts) for item in range(N_OWN)]
