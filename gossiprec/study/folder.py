"""The folder of a study: its finished runs, its lock, and the record of results in its table and ``study.json``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.findings import key_to_labels
from gossiprec.base.arrays import Bools
from gossiprec.base.errors import GossipRecError, LogError
from gossiprec.base.plain_text import dump_yaml
from gossiprec.emulation.assembly.data_loading import changed_since
from gossiprec.measures.selectors import FILTERS, attack_key
from gossiprec.runs import Run, open_run
from gossiprec.runs.lock import LOCK, MARKER, exclusive_writer, process_identity
from gossiprec.runs.manifest import DIGEST, STUDY_MARK, manifest_fault, read_study_mark, utc_now
from gossiprec.runs.run_files import (
    BY_USER,
    check_folder,
    find_leftovers,
    open_replacement,
    replace_file,
    wrap_write_errors,
)
from gossiprec.runs.run_tables import parquet_schema
from gossiprec.runs.search_record import SEARCH
from gossiprec.scenario.definition import Scenario
from gossiprec.scenario.registries import scenario_code_version
from gossiprec.study.plan import StudyPlan, Variant
from gossiprec.study.run_hash import SharedSimulation, canonical_json, hash_plain_data, scenario_table_keys
from gossiprec.study.study_table import (
    CSV,
    NO_ATTACK,
    PARQUET,
    Row,
    axis_type,
    column_types,
    extract_rows,
    first_missing_attack,
    to_cell,
    write_study_table,
)
from gossiprec.study.task import TaskResult
from gossiprec.version import __version__, code_version

SPEC, MARK, RUNS = "study.yaml", STUDY_MARK, "runs"
FILES = (SPEC, MARK, SEARCH, CSV, PARQUET, BY_USER)
"""The files that a study writes."""
USER_TABLE = "user_table"
"""Key of ``study.json``: identity of ``metrics_by_user.parquet`` and of the runs that it was made from."""
PATIENCE_S = 5.0
"""Seconds to wait for another writer to end; a killed one keeps the lock until its workers have ended."""


class StudyFolder:
    """The folder of a study.

    Attributes
    ----------
    path, runs : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / RUNS

    def check(self, name: str) -> None:
        """Refuse a folder that holds anything but a study of this name, before the study does any work.

        Raises
        ------
        LogError
        """
        if self.path.exists() and not self.path.is_dir():
            raise LogError(f"{self.path} is a file, but a study needs a folder; choose another with --out")
        mark = self.path / MARK
        if mark.is_file():
            found = read_study_status(mark).get("study")
            if found != name:
                raise LogError(
                    f"{self.path} holds the study {found!r}, not {name!r}; choose another with --out"
                )
        elif self.path.is_dir() and self._holds_more_than_a_lock():
            raise LogError(
                f"{self.path} is not empty and contains no study; choose another folder with --out"
            )

    def _holds_more_than_a_lock(self) -> bool:
        own = {LOCK, LOCK + MARKER, *(left.name for left in self._leftovers())}
        if self.runs.is_dir() and not any(self.runs.iterdir()):
            own.add(RUNS)
        return bool({path.name for path in self.path.iterdir()} - own)

    def _leftovers(self) -> list[Path]:
        """Return the half-written files that killed processes have left."""
        return [left for name in FILES for left in find_leftovers(self.path / name)]

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Create the folder of the study of this name, and lock it while the body runs.

        Raises
        ------
        ResourceError
            If another study is running in the folder.
        LogError
            If the folder holds anything but a study of this name.
        """
        check_folder(self.runs)
        with wrap_write_errors(self.path):
            self.runs.mkdir(parents=True, exist_ok=True)
        with exclusive_writer(self.path, what="study", patience_s=PATIENCE_S):
            if (self.path / MARK).is_file():  # another study may have started and ended since the first check
                self.check(name)
            with wrap_write_errors(self.path):
                for left in self._leftovers():
                    left.unlink(missing_ok=True)
            yield

    def run_directory(self, simulation: SharedSimulation) -> Path:
        """Return the directory of a simulation."""
        return self.runs / simulation.hash

    def finished_run(self, simulation: SharedSimulation) -> Run | None:
        """Return the finished run of a simulation, whatever code made it, or None."""
        return open_finished(self.run_directory(simulation))

    def user_table_identity(self) -> str | None:
        """Return the identity of the table of users that the last study in this folder wrote, or None."""
        try:
            return read_study_mark(self.path).get(USER_TABLE)
        except LogError:
            return None

    def write_spec(self, spec: Mapping[str, Any]) -> None:
        """Write ``study.yaml``: the study as it was resolved.

        A new folder gets its ``study.json`` first: without it, a study that is killed could not be run again there.
        """
        if not (self.path / MARK).is_file():
            begun = {"gossiprec": __version__, "study": spec["name"], "status": "running"}
            self.write_mark(begun | {"writer": process_identity()})
        text = dump_yaml(dict(spec))
        replace_file(self.path / SPEC, text.encode())

    def write_mark(self, mark: Mapping[str, Any]) -> None:
        """Write ``study.json``: the status of the study."""
        replace_file(self.path / MARK, json.dumps(mark, indent=2, ensure_ascii=False).encode() + b"\n")


def open_finished(path: Path) -> Run | None:
    """Return the run in a folder, or None if it is missing, damaged or not complete."""
    try:
        run = open_run(path)
        complete = run.manifest.get("status") == "complete" and run.summary is not None
        complete = complete and not manifest_fault(run.manifest)
    except GossipRecError:
        return None
    return run if complete else None


def read_study_status(path: Path) -> dict[str, Any]:
    """Return the content of a ``study.json``.

    Raises
    ------
    LogError
        If it is not the file of a gossiprec study.
    """
    try:
        return read_study_mark(path.parent)
    except LogError as error:
        raise LogError(f"{error}; or choose another folder with --out") from error


def runs_with_other_data(runs: Iterable[tuple[SharedSimulation, Run]]) -> dict[str, str]:
    """Return the changed files of runs that were made with other data, by hash.

    Notes
    -----
    Each set of files is checked once, whatever the seeds
    of the runs. Files that no longer exist are not compared.
    """
    found: dict[str, str] = {}
    known: dict[str, str | None] = {}
    for simulation, run in runs:
        manifest = run.manifest
        if "inputs" in manifest:
            name = canonical_json([simulation.scenario.dataset.to_plain_data(), manifest["inputs"]])
        else:
            name = canonical_json(simulation.scenario.dataset.to_plain_data())
        if name not in known:
            known[name] = changed_since(simulation.scenario, manifest)
        changed = known[name]
        if changed is not None:
            found[simulation.hash] = changed
    return found


REFRESH_S = 3.0
"""Least time between two writes of the table in seconds."""


@dataclass
class StudyOutcome:
    """The outcome of a study.

    Attributes
    ----------
    made, kept : int
        Simulations run now, and finished before.
    failed : dict of str to TaskResult
        Failed tasks, by hash.
    notes : dict of str to list of str
        Notes of runs, each with the hashes of the runs that issued it.
    left : int
        Simulations that have not run yet.
    seconds : float
        Wall time in seconds.
    """

    made: int = 0
    kept: int = 0
    failed: dict[str, TaskResult] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    left: int = 0
    seconds: float = 0.0


class StudyRecord:
    """The results of each variant of a plan.

    Parameters
    ----------
    plan : StudyPlan
    folder : StudyFolder

    Attributes
    ----------
    outcome : StudyOutcome
    codes : dict of str to str
        The code version of each simulation that is finished, by hash.
    """

    def __init__(self, plan: StudyPlan, folder: StudyFolder) -> None:
        self.plan = plan
        self.folder = folder
        self.outcome = StudyOutcome()
        self.codes: dict[str, str] = {}
        self._served_by = plan.simulation_of
        self._variants_by_run = self._group_variants()
        self._rows: dict[str, list[Row]] = {}
        self._digests: dict[str, str] = {}
        self._user_table = folder.user_table_identity()
        self._started = utc_now()
        self._due = 0.0
        labels = {name: [v.labels[name] for v in plan.variants] for name in plan.study.file.axes}
        self._axes = {name: axis_type(found) for name, found in labels.items()}

    @property
    def n_simulations(self) -> int:
        """Number of simulations that serve the variants."""
        return len({simulation.hash for simulation in self._served_by.values()})

    def serve_separately(self, parts: list[SharedSimulation]) -> None:
        """Let variants be served by these simulations instead of the shared one."""
        self._served_by |= {served: simulation for simulation in parts for served in simulation.serves}
        self._variants_by_run = self._group_variants()

    def note_finished(self, hash_: str, code: str, run: Run | None = None) -> None:
        """Note that a simulation is finished, and take its rows; its directory is opened unless `run` is given."""
        run = run or open_run(self.folder.runs / hash_)
        for variant in self._variants(hash_):
            self._rows[variant.hash] = self._measured(variant, run)
        self.codes[hash_] = code
        self._digests[hash_] = str(run.manifest.get(DIGEST))

    def variant_labels(self, hash_: str) -> list[str]:
        """Return the labels of the variants of a simulation."""
        return [_label(variant) for variant in self._variants(hash_)]

    def first_measure_text(self, hash_: str) -> str:
        """Return the first measure of a simulation as text."""
        rows = [row for variant in self._variants(hash_)[:1] for row in self._rows_of(variant)]
        return _words(rows[0]) if rows and rows[0]["measure"] else ""

    def write(self, status: str, *, if_due: bool = False) -> None:
        """Write the table and ``study.json``; with `if_due`, not if that was done recently."""
        begin = time.monotonic()
        if if_due and begin < self._due:
            return
        rows = [row for variant in self.plan.variants for row in self._rows_of(variant)]
        write_study_table(self.folder.path, rows, self._axes)
        if status != "running" and self._user_table != self._identify_user_table():
            write_user_table(self.folder.path, self._user_runs(), self._axes)
            self._user_table = self._identify_user_table()
        self.folder.write_mark(self._mark(status, len(rows)))
        # writing takes up to 5 % of the time
        self._due = time.monotonic() + max(REFRESH_S, 20 * (time.monotonic() - begin))

    def _identify_user_table(self) -> str:
        """Return a hash of what the table of users is made from, and of the time and size of its files."""
        parts = []
        for variant in self.plan.variants:
            run = self._served_by[variant.hash].hash
            if run in self.codes:
                file = _size_and_time(self.folder.runs / run / BY_USER)
                parts.append([variant.labels, variant.seed, variant.hash, run, self._digests[run], *file])
        about = [code_version(), self._axes, _size_and_time(self.folder.path / BY_USER)]
        return hash_plain_data([about, parts])

    def _user_runs(self) -> Iterator[VariantRun]:
        """Yield the finished run of each variant."""
        for variant in self.plan.variants:
            simulation = self._served_by[variant.hash]
            if simulation.hash in self.codes:
                run = open_run(self.folder.run_directory(simulation))
                yield VariantRun(variant.labels, variant.seed, variant.scenario, run)

    def _variants(self, hash_: str) -> list[Variant]:
        return self._variants_by_run.get(hash_, [])

    def _group_variants(self) -> dict[str, list[Variant]]:
        """Return the variants that each simulation serves, by its hash, in the order of the plan."""
        found: dict[str, list[Variant]] = {}
        for variant in self.plan.variants:
            found.setdefault(self._served_by[variant.hash].hash, []).append(variant)
        return found

    def _rows_of(self, variant: Variant) -> list[Row]:
        """Return the variant's rows; none until its simulation has ended."""
        simulation = self._served_by[variant.hash]
        about = {**variant.labels, "seed": variant.seed, "run": simulation.hash}
        if simulation.hash in self.outcome.failed:
            none = {"measure": None, **NO_ATTACK, "value": None}
            return [{**about, **none, "status": "failed", "code": scenario_code_version(simulation.scenario)}]
        if simulation.hash not in self.codes:
            return []
        code = self.codes[simulation.hash]
        return [{**about, **row, "status": "complete", "code": code} for row in self._rows[variant.hash]]

    def _measured(self, variant: Variant, run: Run) -> list[Row]:
        scenario = variant.scenario
        summary, keys = run.summary or {}, scenario_table_keys(scenario)
        lacking = first_missing_attack(summary, keys)
        if lacking:
            raise LogError(
                f"{run.path} has no attack named {lacking}, although its scenario defines "
                "one: the attack's table_keys do not match the rows it reports; this is a bug in the attack"
            )
        attacks = {choice.name for choice in (*scenario.adversaries, *scenario.observers)}
        return extract_rows(
            summary, scenario.evaluate.reportable_measures(), keys, self.plan.measures, attacks
        )

    def _mark(self, status: str, n_rows: int) -> dict[str, Any]:
        plan, outcome = self.plan, self.outcome
        return {
            "study": plan.study.name,
            "gossiprec": __version__,
            "code": code_version(),
            "status": status,
            "variants": len(plan.variants),
            "repeated": plan.n_repeated,
            "simulations": self.n_simulations,
            "finished": len(self.codes),
            "kept": outcome.kept,
            "left": outcome.left,
            "rows": n_rows,
            "axes": list(plan.study.file.axes),
            "baseline": plan.baseline,
            "words": plan.study.file.words,
            "picture": plan.study.file.first_picture,
            USER_TABLE: self._user_table,
            "failed": [self._failure(done) for done in outcome.failed.values()],
            "started": self._started,
            "written": utc_now(),
            "writer": process_identity(),
        }

    def _failure(self, done: TaskResult) -> dict[str, Any]:
        about = {"run": done.hash, "variants": self.variant_labels(done.hash), "problem": done.problem}
        return {**about, "trace": done.trace} if done.trace else about


def _size_and_time(path: Path) -> list[int]:
    """Return the size of a file and the time of its last change, or nothing if there is none."""
    try:
        found = path.stat()
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns]


def _label(variant: Variant) -> str:
    return ", ".join([*(f"{name}={value}" for name, value in variant.labels.items()), f"seed {variant.seed}"])


def _words(row: Row) -> str:
    about = f"[{row['observer']},{row['relevance']}]" if row["observer"] else ""
    return f"{row['measure']}{about} {row['value']:.4g}"


class VariantRun(NamedTuple):
    """The finished run of a variant: the labels of its axes, its seed, its scenario, and the run that it may share."""

    labels: Mapping[str, Any]
    seed: int
    scenario: Scenario
    run: Run


def write_user_table(folder: Path, found: Iterable[VariantRun], axes: Mapping[str, str]) -> None:
    """Write the rows of ``metrics_by_user.parquet`` of each run, with the axes, the seed and the run before them.

    A variant that shares its run with others gets the metrics and the results of its own attacks. Runs without the
    file have no rows, and a study of such runs only has no file. One run is in memory at a time.

    Parameters
    ----------
    folder : Path
    found : iterable of VariantRun
    axes : mapping of str to str
        The columns of the axes and their types.

    Raises
    ------
    ResourceError
        If the file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = [each for each in found if (each.run.path / BY_USER).exists()]
    if not found:
        (folder / BY_USER).unlink(missing_ok=True)
        return
    types = column_types({**axes, "seed": "int64", "run": "string"})
    schema = pa.schema([*types, *parquet_schema()])
    with (
        open_replacement(folder / BY_USER) as file,
        pq.ParquetWriter(file, schema, compression="zstd") as out,
    ):
        for each in found:
            columns = each.run.by_user
            own = _is_own(columns["metric"], each)
            about = {**each.labels, "seed": each.seed, "run": each.run.path.name}
            n = int(own.sum())
            same = [
                pa.repeat(pa.scalar(to_cell(about.get(field.name), axes.get(field.name, "")), field.type), n)
                for field in types
            ]
            values = [
                pa.array(column[own], parquet_schema().field(name).type) for name, column in columns.items()
            ]
            out.write_table(pa.Table.from_arrays([*same, *values], schema=schema))


def _is_own(metrics: Any, variant: VariantRun) -> Bools:
    """Return whether each row is a metric or a result of one of the variant's attacks."""
    keys = scenario_table_keys(variant.scenario)
    if keys is None:
        return np.ones(len(metrics), np.bool_)
    own = {attack_key(**key_to_labels(key)) for key in keys}
    names = {choice.name for choice in (*variant.scenario.adversaries, *variant.scenario.observers)}
    ranked = {
        attack_key(**{label: row[label] for label in FILTERS})
        for row in (variant.run.summary or {}).get("attacks", ())
    }

    def is_own(metric: str) -> bool:
        labels = metric.partition("[")[2].removesuffix("]")
        attack = labels.partition("/")[0]
        return labels in own if labels in ranked else attack not in ATTACKS or attack in names

    known = {metric: is_own(metric) for metric in dict.fromkeys(metrics.tolist())}
    return np.array([known[metric] for metric in metrics.tolist()], np.bool_)
