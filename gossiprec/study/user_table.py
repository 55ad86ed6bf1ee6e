"""The values of users in all runs of a study: ``metrics_by_user.parquet`` in its folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.adversaries.attacks.findings import key_to_labels
from gossiprec.base.arrays import Bools
from gossiprec.measures.selectors import FILTERS
from gossiprec.runs import Run
from gossiprec.runs.by_user import parquet_schema
from gossiprec.runs.run_files import BY_USER, open_replacement
from gossiprec.runs.run_tables import attack_key
from gossiprec.scenario.definition import Scenario
from gossiprec.study.run_hash import scenario_table_keys
from gossiprec.study.study_table import column_types, to_cell


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
