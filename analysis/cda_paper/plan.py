"""What a study is to run: jobs, chosen by table or figure, each with the scenario that it must have run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import yaml

from analysis.cda_paper import experiments as ex
from analysis.cda_paper.cells import all_cells
from analysis.cda_paper.experiments import Experiment, all_experiments, checkins, dp
from gossiprec.errors import DataError, GossipRecError, ScenarioError, suggestion
from gossiprec.scenario import load_scenario

Scale = Literal["full", "tiny"]
SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
DATA = {
    "ml-100k": ("ml-100k", "ml-100k.zip"),
    "foursquare-nyc": ("foursquare-nyc", "dataset_tsmc2014.zip"),
    "gowalla": ("gowalla", "loc-gowalla_totalCheckins.txt.gz"),
}
"""Under which names each data set may lie in the folder of ``--data``."""

_TINY = {
    False: "dataset={name: synthetic, users: 104, items: 400, interactions: 3000, split: {name: published}}",
    True: "dataset={name: synthetic-checkins, users: 104, items: 400, checkins: 4000, split: {name: published}}",
}
"""Without and with places. Enough users for communities of 100, few enough for seconds."""
_TINY_LENGTH = {"fedavg": "protocol.rounds=2", "gossip": "protocol.wakes=2"}


@dataclass(frozen=True)
class Job:
    """One run: an experiment and a seed.

    Attributes
    ----------
    experiment : Experiment
    seed : int
    scenario : dict, optional
        Fully resolved; None where the experiment cannot be run.
    problem : str
        Why it cannot.
    is_missing_data : bool
        Whether that is for want of data, which is no error.
    """

    experiment: Experiment
    seed: int
    scenario: dict[str, Any] | None = None
    problem: str = ""
    is_missing_data: bool = False

    @property
    def name(self) -> str:
        """Names the folder of the run."""
        return f"{self.experiment.name}-s{self.seed}"

    def command(self, out: Path) -> list[str]:
        """Return the command line of the same run, for a reader to copy."""
        sets = [part for override in self.experiment.overrides for part in ("--set", override)]
        seed = ("--seed", str(self.seed), "--out", str(out))
        return ["gossiprec", "simulate", f"scenarios/{self.experiment.file}", *sets, *seed]


def figures() -> dict[str, tuple[Experiment, ...]]:
    """Return the experiments that each figure draws."""
    full = (ex.ML_FEDAVG, ex.ML_RAND, ex.ML_PERS)
    less = (ex.ML_FEDAVG_LESS, ex.ML_RAND_LESS, ex.ML_PERS_LESS)
    places = [checkins("foursquare", p, m) for m in ("gmf", "prme") for p in ex.PROTOCOLS]
    some = [checkins("foursquare146", p, m) for m in ("gmf", "prme") for p in ex.PROTOCOLS]
    some_less = [
        checkins("foursquare146", p, m, share_less=True) for m in ("gmf", "prme") for p in ex.PROTOCOLS
    ]
    private = [dp(p, e) for p in ("fedavg", "rand_gossip") for e in (*ex.EPSILONS, None)]
    return {
        "fig2": (*full, *places),
        "fig3": (*less, *some_less),
        "fig4": (*full, *less, *some, *some_less),
        "fig5": (*full, *less, *some, *some_less),
        "fig6": (*private, ex.ML_FEDAVG_LESS, ex.ML_RAND_LESS),
        "fig7": (ex.ML_FEDAVG, ex.ML_RAND),
    }


def subjects() -> dict[str, tuple[Experiment, ...]]:
    """Return what ``--only`` can name: tables, figures, data sets and experiments, each with its experiments."""
    tables: dict[str, dict[str, Experiment]] = {}
    for cell in all_cells():
        if cell.measure is not None:
            serving = tables.setdefault(cell.printed.table.removesuffix("-bounds"), {})
            serving.update({experiment.name: experiment for experiment in cell.measure.experiments()})
    everything = all_experiments()
    return {
        **{name: tuple(serving.values()) for name, serving in tables.items()},
        **figures(),
        **{data: tuple(e for e in everything if e.data == data) for data in DATA},
        **{experiment.name: (experiment,) for experiment in everything},
    }


def chosen(only: Sequence[str]) -> tuple[Experiment, ...]:
    """Return the experiments that these names ask for, in the order of the study; all if there are none.

    Raises
    ------
    ScenarioError
        If a name is unknown; the message names the nearest.
    """
    if not only:
        return all_experiments()
    known = subjects()
    for name in only:
        if name not in known:
            short = ", ".join(
                key for key in known if key.startswith(("table", "fig", "text")) and "-" not in key
            )
            raise ScenarioError(
                f"--only: found {name!r}, must be one of {short}, {', '.join(DATA)}, "
                f"or an experiment of --list{suggestion(name, known)}"
            )
    wanted = {experiment.name for name in only for experiment in known[name]}
    return tuple(experiment for experiment in all_experiments() if experiment.name in wanted)


def jobs(
    experiments: Iterable[Experiment],
    *,
    data: Path | None,
    scale: Scale = "full",
    seeds: int | None = None,
    extra: Sequence[str] = (),
) -> tuple[Job, ...]:
    """Return the runs of these experiments: first seeds first, so that every cell has a value early.

    Parameters
    ----------
    experiments : iterable of Experiment
    data : Path, optional
        The folder of the data sets; not needed at the tiny scale.
    scale : {'full', 'tiny'}
    seeds : int, optional
        How many for every experiment, instead of its own number.
    extra : sequence of str
        Overrides of every run, such as ``executor.threads=1``.
    """
    made: list[Job] = []
    for experiment in experiments:
        job = _first(experiment, data=data, scale=scale, extra=extra)
        count = experiment.seeds if seeds is None else seeds
        made += [_with_seed(job, seed) for seed in range(1, count + 1)]
    return tuple(sorted(made, key=lambda job: job.seed))


def require_data(data: Path | None, scale: Scale) -> None:
    """Refuse a data folder in which none of the data sets lies.

    Raises
    ------
    DataError
        The message names what is looked for.
    """
    if scale == "tiny":
        return
    if data is None:
        raise DataError(
            "--data is missing: the folder that holds the data sets; or try --scale tiny, which needs none"
        )
    if not any(_place(data, name) for name in DATA):
        wanted = ", ".join(" or ".join(names) for names in DATA.values())
        raise DataError(
            f"--data: found none of the data sets in {data}; it must hold at least one of {wanted}"
        )


def _place(data: Path, name: str) -> Path | None:
    return next((data / file for file in DATA[name] if (data / file).exists()), None)


def _first(experiment: Experiment, *, data: Path | None, scale: Scale, extra: Sequence[str]) -> Job:
    """Return the run with seed 1, or why there is none."""
    if scale == "tiny":
        length = _TINY_LENGTH["fedavg" if "fedavg" in experiment.name else "gossip"]
        changes = (*experiment.overrides, _TINY[experiment.needs_places], length, "evaluate.every=1")
    else:
        place = _place(data, experiment.data) if data else None
        if place is None:
            problem = f"data missing: no {' or '.join(DATA[experiment.data])} in {data}"
            return Job(experiment, 1, problem=problem, is_missing_data=True)
        changes = (*experiment.overrides, f"dataset.path={place.resolve()}")
    try:
        scenario = load_scenario(SCENARIOS / experiment.file, [*changes, *extra, "plots=false"])
    except GossipRecError as error:
        return Job(experiment, 1, problem=str(error))
    return Job(experiment, 1, scenario={**_plain(scenario.resolved()), "name": experiment.name})


def _with_seed(job: Job, seed: int) -> Job:
    scenario = None if job.scenario is None else {**job.scenario, "seed": seed}
    return replace(job, seed=seed, scenario=scenario)


def _plain(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario as it comes back from a file: the form in which scenarios are compared."""
    plain: dict[str, Any] = yaml.safe_load(yaml.safe_dump(scenario, sort_keys=False))
    return plain
