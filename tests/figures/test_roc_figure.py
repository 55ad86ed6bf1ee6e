"""``gossiprec plot roc``: the curves of membership inference at the last report."""

import json

import pytest
from click.testing import CliRunner
from small_runs import lines, write_run

from gossiprec.base.errors import LogError
from gossiprec.cli.plot import plot
from gossiprec.figures import roc
from gossiprec.runs import open_run
from gossiprec.runs.run_directory import RunDirectory

RATES = {0.001: 0.0, 0.01: 0.3, 0.5: 0.8}


def run_with_curves(path):
    directory = RunDirectory.create(path, scenario={"name": path.name}, seed=1, sizes={"view_size": 1})
    for turn, observer in ((0, "single"), (1, "single"), (1, "coordinator")):
        directory.findings.append(
            {
                "time": float(turn), "round": turn, "attack": "loss-mia", "measure": "item_roc",
                "labels": json.dumps({"observer": observer, "k": 5, "fpr": fpr}), "value": tpr * (1 + turn) / 2,
            }
            for fpr, tpr in RATES.items()
        )  # fmt: skip
    directory.finish("complete")
    return open_run(path)


def test_it_has_the_last_curve_of_each_attack(tmp_path):
    run_with_curves(tmp_path / "run")

    result = CliRunner().invoke(plot, ["roc", str(tmp_path / "run")])

    assert result.exit_code == 0, result.output
    assert {path.suffix for path in (tmp_path / "run").glob("roc.*")} == {".csv", ".png", ".svg"}
    assert lines(tmp_path / "run" / "roc.csv") == [
        "run,attack,fpr,tpr",
        *(
            f',"loss-mia, {observer}, k 5",{fpr},{tpr}'
            for observer in ("single", "coordinator")
            for fpr, tpr in RATES.items()
        ),
    ]


def test_a_run_without_curves_is_refused(tmp_path):
    with pytest.raises(
        LogError, match=r"found no ROC curve in findings\.csv; expected an attack .* such as loss-mia"
    ):
        roc.draw([write_run(tmp_path / "run")], tmp_path / "roc")
