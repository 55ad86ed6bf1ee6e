"""The command of a comparison: its options, the experiments that they select, and the report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from analysis.papers.command import (
    add_study_options,
    list_subjects,
    parse_names,
    run_and_report,
    select_experiments,
)
from analysis.papers.seed_statistics import Runs
from analysis.papers.study_file import PaperStudyFile, Scale
from gossiprec.study.load import LoadedStudy


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
