"""The command of every study: run the selected experiments, find all finished runs, and report them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from analysis.papers.study_file import PaperStudyFile, Scale
from analysis.papers.verdict import Runs
from gossiprec.base.errors import ScenarioError, suggestion
from gossiprec.cli.options import Decorator, add_options
from gossiprec.cli.study import run_study, study_options
from gossiprec.runs import Run
from gossiprec.study.folder import StudyFolder, run_code_version
from gossiprec.study.load import LoadedStudy
from gossiprec.study.plan import StudyPlan, make_plan
from gossiprec.study.record import StudyOutcome
from gossiprec.version import code_version

Report = Callable[[Path, Runs, dict[str, str]], Sequence[Path]]
"""A function that writes a report into a folder from runs and reasons for missing ones; returns the paths."""


def add_study_options(*, data: str, only: str, seeds: str) -> Decorator[Callable[..., Any]]:
    """Return a decorator that adds the options of every paper's study to a command, with its own help texts."""
    path = click.Path(path_type=Path)
    return add_options(
        click.option("--data", type=path, metavar="PATH", help=data),
        click.option("--only", default="", metavar="NAMES", help=only),
        click.option("--seeds", type=click.IntRange(1), metavar="N", help=seeds),
        click.option(
            "--scale",
            type=click.Choice(("full", "tiny")),
            default="full",
            help="tiny: small synthetic data; the numbers are meaningless.",
        ),
        click.option("--report-only", is_flag=True, help="Only write the report of existing runs."),
        click.option("--list", "is_list", is_flag=True, help="List the values of --only."),
        study_options("1, on all cores"),
        click.pass_context,
    )


def list_subjects(subjects: Mapping[str, Collection[str]], experiments: Collection[str]) -> None:
    """Print the names for ``--only``."""
    for name, own in subjects.items():
        click.echo(name if name in experiments else f"{name}: {len(own)} experiments")


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
                f"{suggestion(name, subjects)}"
            )
    wanted = {experiment for name in names for experiment in subjects[name]}
    return [name for name in experiments if not names or name in wanted]


def run_and_report(
    names: Sequence[str],
    study_of: Callable[[Sequence[str]], LoadedStudy],
    lacking: Mapping[str, str],
    report: Report,
    *,
    experiments: Sequence[str],
    out: Path | None,
    jobs: int | None,
    report_only: bool,
    **how: Any,
) -> StudyOutcome:
    """Run or resume the selected experiments, and report on all runs in the folder.

    Parameters
    ----------
    names : sequence of str
        Selected experiments.
    study_of : callable
        Returns the study of some experiments.
    lacking : mapping of str to str
        Reasons why experiments cannot be run.
    report : callable
    experiments : sequence of str
        All experiments of the study.
    out : Path, optional
    jobs : int, optional
        Number of parallel runs, by default one.
    report_only : bool
    **how
        The other options of :func:`gossiprec.cli.study.run_study`.
    """
    for name in names:
        if name in lacking:
            click.echo(f"{name}: not run: {lacking[name]}", err=True)
    whole = study_of([name for name in experiments if name not in lacking])
    folder, outcome = StudyFolder(out or Path("studies") / whole.name), StudyOutcome()
    wanted = [name for name in names if name not in lacking and not report_only]
    if wanted:
        outcome = run_study(make_plan(study_of(wanted)), out=folder.path, jobs=jobs or 1, **how)
    if how["dry_run"]:
        return outcome
    plan = make_plan(whole, check_data=False)
    folder.check(whole.name)
    runs = finished_runs(folder, plan, keep=how["keep"])
    reasons = missing_reasons(experiments, runs, plan, lacking, outcome)
    with folder.locked(whole.name):
        for path in report(folder.path, runs, reasons):
            click.echo(path)
    return outcome


def finished_runs(folder: StudyFolder, plan: StudyPlan, *, keep: bool = False) -> dict[str, dict[int, Run]]:
    """Return the finished runs of a plan by experiment and seed; with `keep` also runs of other code."""
    simulation_of = plan.simulation_of
    found: dict[str, dict[int, Run]] = {}
    for variant in plan.variants:
        run = folder.finished(simulation_of[variant.hash])
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
    """The parts of a study's command that are specific to its paper.

    Attributes
    ----------
    file : PaperStudyFile
    subjects : mapping
        What ``--only`` can name, each with its experiments.
    about : str
        Help text of the command.
    data, only : str
        Help texts of these options.
    place : callable
        Maps the folder of ``--data`` and the scale to the path of the data and the reasons why experiments cannot be
        run.
    study_of : callable
        Maps names, ``data``, ``scale``, ``seeds`` and ``epochs`` to their study.
    report : str
        The module with the study's ``REPORT``, imported late because it draws.
    """

    file: PaperStudyFile
    subjects: Mapping[str, Collection[str]]
    about: str
    data: str
    only: str
    place: Callable[[Path | None, Scale], tuple[Path | None, Mapping[str, str]]]
    study_of: Callable[..., LoadedStudy]
    report: str

    def made(self) -> click.Command:
        """Return the click command."""
        command = click.command(help=self.about, context_settings={"help_option_names": ["-h", "--help"]})
        options = add_study_options(
            data=self.data, only=self.only, seeds="Number of seeds of every experiment.  [default: 3]"
        )
        epochs = click.option(
            "--epochs",
            type=click.IntRange(1),
            metavar="N",
            help=f"Epochs of every run; fewer make a shorter study.  [default: {self.file.lengths_in_words()}]",
        )

        def run(context: click.Context, /, **told: Any) -> None:
            self._run(context, **told)

        return command(options(epochs(run)))

    def _run(
        self,
        context: click.Context,
        /,
        data: Path | None,
        only: str,
        seeds: int | None,
        epochs: int | None,
        scale: Scale,
        *,
        is_list: bool,
        **how: Any,
    ) -> None:
        experiments = list(self.file.experiments)
        if is_list:
            list_subjects(self.subjects, experiments)
            return
        names = select_experiments(parse_names(only), self.subjects, experiments)
        place, lacking = self.place(data, scale)
        length, planned = self.file.epochs_of(scale, epochs), self.file.count_runs(seeds)

        def report(folder: Path, runs: Runs, reasons: dict[str, str]) -> list[Path]:
            own = import_module(self.report).REPORT
            written: list[Path] = own.write(
                folder, runs, reasons, planned=planned, epochs=length, scale=scale
            )
            return written

        def study_of(some: Collection[str]) -> LoadedStudy:
            return self.study_of(some, data=place, scale=scale, seeds=seeds, epochs=epochs)

        if run_and_report(names, study_of, lacking, report, experiments=experiments, **how).failed:
            context.exit(1)
