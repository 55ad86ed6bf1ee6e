"""The command of every study: run the selected experiments, find all finished runs, and report them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from analysis.papers.study_file import PaperStudyFile, Scale
from analysis.papers.verdict import Runs
from gossiprec.base.errors import ScenarioError, did_you_mean
from gossiprec.cli.main import exit_code
from gossiprec.cli.options import Decorator, add_options
from gossiprec.cli.study import StudyOptions, run_study, study_options
from gossiprec.runs import Run
from gossiprec.study.folder import StudyFolder, StudyOutcome, run_code_version
from gossiprec.study.plan import StudyPlan, make_plan
from gossiprec.study.spec import LoadedStudy
from gossiprec.version import code_version

if TYPE_CHECKING:
    from analysis.papers.report import StudyReport


def parse_names(only: str) -> list[str]:
    """Return the names between the commas of ``--only``."""
    return [name for part in only.split(",") if (name := part.strip())]


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
    simulation_of = plan.simulation_of
    found: dict[str, dict[int, Run]] = {}
    for variant in plan.variants:
        run = folder.finished_run(simulation_of[variant.hash])
        if run is not None and (keep or run_code_version(run) == code_version()):
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
        texts = self.file.plan["command"]
        run: Callable[..., Any] = lambda context, /, **options: self._run(context, **options)  # noqa: E731
        for name in texts.get("options", ()):
            run = _OPTIONS[name](self.file)(run)
        seeds = texts.get("seeds", "Number of seeds of every experiment.  [default: 3]")
        path, scales = click.Path(path_type=Path), click.Choice(("full", "tiny"))
        tiny = "tiny: small synthetic data; the numbers are meaningless."
        decorate: Decorator[Callable[..., Any]] = add_options(
            click.option("--data", type=path, metavar="PATH", help=texts["data"]),
            click.option("--only", default="", metavar="NAMES", help=texts["only"]),
            click.option("--seeds", type=click.IntRange(1), metavar="N", help=seeds),
            click.option("--scale", type=scales, default="full", help=tiny),
            click.option("--report-only", is_flag=True, help="Only write the report of existing runs."),
            click.option("--list", "is_list", is_flag=True, help="List the values of --only."),
            study_options("1, on all cores"),
            click.pass_context,
        )
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
        names = select_experiments(parse_names(only), self.subjects, experiments)
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


def _epochs_option(file: PaperStudyFile) -> Decorator[Callable[..., Any]]:
    words = f"Epochs of every run; fewer make a shorter study.  [default: {file.describe_epochs()}]"
    return click.option("--epochs", type=click.IntRange(1), metavar="N", help=words)


def _dataset_option(file: PaperStudyFile) -> Decorator[Callable[..., Any]]:
    names = tuple(file.plan["data"])
    return click.option("--dataset", type=click.Choice(names), default=names[0], help="Data set of all rows.")


_OPTIONS = {"epochs": _epochs_option, "dataset": _dataset_option}
"""Options of the commands that need them, by name."""
