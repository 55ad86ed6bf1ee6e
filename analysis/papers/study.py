"""The study of a paper as data, and its command.

Experiments are in ``study.yaml``; their data, tiny form and command in ``plan.yaml``. The command runs the selected
experiments, finds all finished runs, and reports them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import click
import yaml

from analysis.papers.verdict import Runs
from gossiprec.base.errors import DataError, ScenarioError, did_you_mean
from gossiprec.cli.main import exit_code
from gossiprec.cli.options import Decorator, add_options
from gossiprec.cli.study import StudyOptions, run_study, study_options
from gossiprec.runs import Run
from gossiprec.study.folder import StudyFolder, StudyOutcome
from gossiprec.study.plan import StudyPlan, make_plan
from gossiprec.study.spec import LoadedStudy, load_study
from gossiprec.version import code_version

if TYPE_CHECKING:
    from analysis.papers.report import StudyReport

Scale = Literal["full", "tiny"]
TINY_EPOCHS = 2
Overrides = Mapping[str, Any]


@dataclass(frozen=True)
class PaperStudyFile:
    """A study with one axis, ``experiment``, and its plan in the same folder.

    Keys of the plan:

    - ``data``: the data sets by name, the default one first. Each has ``files``, the names that it may have in the
      folder of ``--data``; ``paths``, the scenario keys that it sets, relative to the file found; ``set``, other keys;
      ``experiments``, the patterns of the names of its experiments (by default all); and ``rules`` as below.
    - ``tiny``: the tiny form. ``base`` has overrides of the study's scenario; each of ``rules`` applies to the
      experiments that fit its patterns (``experiments``) and have a key (``when``): it removes the overrides in
      ``drop`` and adds those in ``set``.
    - ``epoch: participation``: an epoch is as many rounds as select every client once; by default it is one round.
    - ``command``: texts of the command.
    - ``about``, ``caption``, ``captions``, ``columns``, ``opening``, ``settings``: texts and columns of the report;
      ``labels``: names of options in figures.
    - ``comparison`` and ``rows``: settings and methods (:class:`analysis.papers.comparison.Comparison`);
      ``claims``: :func:`analysis.papers.claims.declared_claims`; ``leakage``:
      :class:`analysis.papers.comparison.SummaryColumns`; ``report``: :class:`analysis.papers.report.PaperReport`;
      ``federation``: :class:`analysis.papers.report.FederationPrice`; ``arms``: methods by the names of options.

    Attributes
    ----------
    path : Path
    """

    path: Path

    @property
    def content(self) -> dict[str, Any]:
        """The study as written."""
        return dict(_read(self.path))

    @property
    def plan(self) -> dict[str, Any]:
        """The plan as written."""
        return dict(self.read("plan"))

    def read(self, name: str) -> Any:
        """Return the content of another YAML file in the study's folder, read once."""
        return _read(self.path.with_name(f"{name}.yaml"))

    @property
    def experiments(self) -> dict[str, dict[str, Any]]:
        """The overrides of each experiment, in the order in which they are run: important ones first."""
        return dict(self.content["axes"]["experiment"]["values"])

    def make_study(
        self,
        names: Iterable[str],
        *,
        data: Path | None,
        scale: Scale = "full",
        seeds: int | None = None,
        epochs: int | None = None,
        dataset: str | None = None,
    ) -> LoadedStudy:
        """Return the study of some experiments.

        Parameters
        ----------
        names : iterable of str
            Experiments with available data.
        data : Path, optional
            The folder of the data sets; not needed at the tiny scale.
        scale : {'full', 'tiny'}
        seeds, epochs : int, optional
            Numbers to use instead of the study's own; an experiment's own number of seeds stays at full size.
        dataset : str, optional
            Data set of all experiments, if it is not each one's own.
        """
        content, is_tiny = self.content, scale == "tiny"
        is_other = dataset is not None and dataset != next(iter(self.plan["data"]))
        tiny_base = self.plan["tiny"].get("base", {}) if is_tiny else {}
        values = {name: self._here(name, data, scale, epochs, dataset) for name in names}
        return load_study(
            {
                **content,
                "name": content["name"] + ("-tiny" if is_tiny else f"-{dataset}" if is_other else ""),
                "set": {**content["set"], **tiny_base},
                "seeds": seeds or content["seeds"],
                "axes": {"experiment": {"values": values}},
            }
        )

    def find_missing_data(
        self, names: Iterable[str], *, data: Path | None, scale: Scale, dataset: str | None = None
    ) -> dict[str, str]:
        """Return the experiments that lack their data, and the missing files.

        Parameters
        ----------
        names : iterable of str
        data : Path, optional
            The folder of the data sets.
        scale : {'full', 'tiny'}
            The latter needs no data.
        dataset : str, optional
            Data set of all experiments.

        Raises
        ------
        DataError
            If all data sets are missing; the message names the expected files.
        """
        if scale == "tiny":
            return {}
        if data is None:
            raise DataError(
                "--data is missing; pass the folder that contains the data sets, or use --scale tiny, "
                "which needs no data"
            )
        sets = {dataset: self.plan["data"][dataset]} if dataset else self.plan["data"]
        if not any(find_dataset(data, own["files"]) for own in sets.values()):
            wanted = ", ".join(" or ".join(own["files"]) for own in sets.values())
            raise DataError(
                f"--data: found none of the data sets in {data}; expected at least one of {wanted}"
            )
        files = {name: sets[dataset or self.dataset_name(name)]["files"] for name in names}
        return {
            name: f"data missing: no {' or '.join(own)} in {data}"
            for name, own in files.items()
            if find_dataset(data, own) is None
        }

    def dataset_name(self, experiment: str) -> str:
        """Return the data set of an experiment."""
        data: dict[str, Any] = self.plan["data"]
        return next(name for name, own in data.items() if _fits(experiment, own.get("experiments", ["*"])))

    def count_epochs(self, scale: Scale, epochs: int | None) -> int:
        """Return the number of epochs of a run."""
        if epochs is not None:
            return epochs
        if scale == "tiny":
            return TINY_EPOCHS
        return int(self.content["base"]["protocol"]["rounds"]) // self._rounds({}, "full")

    def describe_epochs(self) -> str:
        """Return the numbers of epochs as text: of federated runs, and of centralised runs if they differ."""
        own = self.count_epochs("full", None)
        protocols = [sets["protocol"] for sets in self.experiments.values() if "protocol" in sets]
        central = {one["epochs"] for one in protocols if one["name"] == "central"} - {own}
        if not central:
            return f"{own}"
        low, high = min(central), max(central)
        return f"{own}; centralised {low}" + (f" to {high}" if low < high else "")

    def count_seeds(self, name: str, seeds: int | None, scale: Scale = "full") -> int:
        """Return the number of seeds of an experiment: its own, else the requested one, else the study's."""
        own = None if scale == "tiny" else self.experiments[name].get("seeds")
        return int(own or seeds or self.content["seeds"])

    def count_runs(self, seeds: int | None, scale: Scale = "full") -> int:
        """Return the number of runs of the whole study."""
        return sum(self.count_seeds(name, seeds, scale) for name in self.experiments)

    def _here(
        self, name: str, data: Path | None, scale: Scale, epochs: int | None, dataset: str | None
    ) -> dict[str, Any]:
        """Return the overrides of an experiment on this machine."""
        sets = dict(self.experiments[name])
        if "base" in sets:
            sets["base"] = str((self.path.parent / sets["base"]).resolve())
        if scale == "tiny":
            sets.pop("seeds", None)
            form = self.plan["tiny"]
        else:
            form = self.plan["data"][dataset or self.dataset_name(name)]
            place = find_dataset(data or Path(), form["files"])
            assert place is not None, "its data are there"
            files = {key: str((place / file).resolve()) for key, file in form["paths"].items()}
            sets |= {**form.get("set", {}), **files}
        for rule in form.get("rules", ()):
            if _fits(name, rule.get("experiments", ["*"])) and (
                "when" not in rule or _has(sets, rule["when"])
            ):
                sets = {key: value for key, value in sets.items() if key not in rule.get("drop", ())}
                sets |= rule.get("set", {})
        return {**sets, **self._length(sets, scale, epochs)}

    def _length(self, sets: Overrides, scale: Scale, epochs: int | None) -> dict[str, Any]:
        """Return the overrides for the length of an experiment's runs, if it differs from the study's."""
        if "base" not in self.content or (scale == "full" and epochs is None):
            return {}
        protocol, length = sets.get("protocol", {}), self.count_epochs(scale, epochs)
        if protocol.get("name") == "central":
            return {"protocol.epochs": length}
        if "wakes" in protocol:
            return {"protocol.wakes": length}
        return {"protocol.rounds": length * self._rounds(sets, scale)}

    def _rounds(self, sets: Overrides, scale: Scale) -> int:
        """Return the number of rounds of an epoch."""
        if self.plan.get("epoch") != "participation":
            return 1
        key = "protocol.participation"
        own = self.content["base"]["protocol"]["participation"]
        tiny_base = self.plan["tiny"]["base"] if scale == "tiny" else {}
        return round(1 / float(sets.get(key, tiny_base.get(key, own))))


def find_dataset(data: Path, files: Iterable[str]) -> Path | None:
    """Return the path of a data set, or None if it is missing."""
    return next((data / file for file in files if (data / file).exists()), None)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _has(sets: Overrides, dotted: str) -> bool:
    """Return whether overrides set a key, by itself or within the value of a section."""
    if dotted in sets:
        return True
    value: Any = sets
    for part in dotted.split("."):
        if isinstance(value, list):
            value = value[int(part)] if int(part) < len(value) else None
        elif isinstance(value, Mapping) and part in value:
            value = value[part]
        else:
            return False
    return value is not None


@cache
def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def select_experiments(
    names: Sequence[str], subjects: Mapping[str, Collection[str]], experiments: Collection[str]
) -> list[str]:
    """Return the experiments that names select, in the order of the study; all if there are no names.

    Raises
    ------
    ScenarioError
        If a name is unknown; the message names the nearest.
    """
    for name in names:
        if name not in subjects:
            short = ", ".join(key for key in subjects if key not in experiments)
            raise ScenarioError(
                f"--only: found {name!r}, must be one of {short}, or an experiment of --list"
                f"{did_you_mean(name, subjects)}"
            )
    wanted = {experiment for name in names for experiment in subjects[name]}
    return [name for name in experiments if not names or name in wanted]


def finished_runs(folder: StudyFolder, plan: StudyPlan, *, keep: bool = False) -> dict[str, dict[int, Run]]:
    """Return the finished runs of a plan by experiment and seed; with `keep` also runs of other code."""
    simulation_of, found = plan.simulation_of, dict[str, dict[int, Run]]()
    for variant in plan.variants:
        run = folder.finished_run(simulation_of[variant.hash])
        if run is not None and (keep or run.code_version == code_version()):
            found.setdefault(str(variant.labels["experiment"]), {})[variant.seed] = run
    return found


def missing_reasons(
    experiments: Sequence[str], runs: Runs, plan: StudyPlan, lacking: Mapping[str, str], outcome: StudyOutcome
) -> dict[str, str]:
    """Return why experiments have no finished run."""
    failed = {
        str(variant.labels["experiment"]): f"failed: {outcome.failed[variant.hash].problem}"
        for variant in plan.variants
        if variant.hash in outcome.failed
    }
    return {n: ({**lacking, **failed}).get(n, "not run yet") for n in experiments if n not in runs}


@dataclass(frozen=True)
class StudyCommand:
    """The command of a study, with the texts and options of its plan.

    Attributes
    ----------
    file : PaperStudyFile
    subjects : mapping
        What ``--only`` can name, each with its experiments.
    report : StudyReport
    describe : callable, optional
        Maps an experiment to its line in the list; by default its name.
    """

    file: PaperStudyFile
    subjects: Mapping[str, Collection[str]]
    report: StudyReport
    describe: Callable[[str], str] = str

    def build(self) -> click.Command:
        """Return the click command."""
        texts, names = self.file.plan["command"], tuple(self.file.plan["data"])
        seeds = texts.get("seeds", "Number of seeds of every experiment.  [default: 3]")
        path, number, scales = click.Path(path_type=Path), click.IntRange(1), click.Choice(("full", "tiny"))
        tiny = "tiny: small synthetic data; the numbers are meaningless."
        further = []
        if "epochs" in texts.get("options", ()):
            epochs = (
                f"Epochs of every run; fewer make a shorter study.  [default: {self.file.describe_epochs()}]"
            )
            further.append(click.option("--epochs", type=number, metavar="N", help=epochs))
        if "dataset" in texts.get("options", ()):
            named = click.Choice(names)
            further.append(
                click.option("--dataset", type=named, default=names[0], help="Data set of all rows.")
            )
        decorate: Decorator[Callable[..., Any]] = add_options(
            click.option("--data", type=path, metavar="PATH", help=texts["data"]),
            click.option("--only", default="", metavar="NAMES", help=texts["only"]),
            click.option("--seeds", type=number, metavar="N", help=seeds),
            click.option("--scale", type=scales, default="full", help=tiny),
            click.option("--report-only", is_flag=True, help="Only write the report of existing runs."),
            click.option("--list", "is_list", is_flag=True, help="List the values of --only."),
            study_options("1, on all cores"),
            click.pass_context,
            *further,
        )

        def run(context: click.Context, /, **options: Any) -> None:
            self._run(context, **options)

        settings = {"help_option_names": ["-h", "--help"]}
        return click.command(help=texts["about"], context_settings=settings)(decorate(run))

    def main(self) -> NoReturn:
        """Run the command with the arguments of the process, and exit."""
        sys.exit(
            exit_code(sys.argv[1:], self.build(), name=f"python -m analysis.{self.file.path.parent.name}")
        )

    def _run(
        self, context: click.Context, /, only: str, scale: Scale, *, is_list: bool, **options: Any
    ) -> None:
        experiments = list(self.file.experiments)
        if is_list:
            for name, own in self.subjects.items():
                click.echo(self.describe(name) if name in experiments else f"{name}: {len(own)} experiments")
            return
        selected = [name for part in only.split(",") if (name := part.strip())]
        names = select_experiments(selected, self.subjects, experiments)
        own = {name: options.pop(name) for name in ("data", "seeds", "epochs", "dataset") if name in options}
        source = {name: own[name] for name in ("data", "dataset") if name in own}
        lacking = self.file.find_missing_data(experiments, **source, scale=scale)
        for name in names:
            if name in lacking:
                click.echo(f"{name}: not run: {lacking[name]}", err=True)

        def study_of(some: Iterable[str]) -> LoadedStudy:
            return self.file.make_study([name for name in some if name not in lacking], scale=scale, **own)

        whole, outcome = study_of(experiments), StudyOutcome()
        wanted = [] if options.pop("report_only") else [name for name in names if name not in lacking]
        options["out"] = options["out"] or Path("studies") / whole.name
        how = StudyOptions(**{**options, "jobs": options["jobs"] or 1})
        if wanted:
            outcome = run_study(make_plan(study_of(wanted)), how)
        if not how.dry_run:
            length = {"epochs": self.file.count_epochs(scale, own["epochs"])} if "epochs" in own else {}
            planned = self.file.count_runs(own["seeds"], scale)
            self._write_report(whole, how, lacking, outcome, planned=planned, scale=scale, **length)
        if outcome.failed:
            context.exit(1)

    def _write_report(
        self,
        whole: LoadedStudy,
        how: StudyOptions,
        lacking: Mapping[str, str],
        outcome: StudyOutcome,
        **about: Any,
    ) -> None:
        """Report on all finished runs in the study's folder; `about` has further arguments of the report."""
        folder, plan = StudyFolder(how.out or Path()), make_plan(whole, check_data=False)
        folder.check(whole.name)
        runs = finished_runs(folder, plan, keep=how.keep)
        reasons = missing_reasons(list(self.file.experiments), runs, plan, lacking, outcome)
        with folder.locked(whole.name):
            for path in self.report.write(folder.path, runs, reasons, **about):
                click.echo(path)
