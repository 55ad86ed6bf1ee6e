"""The public code of A-hum next to gossiprec: what is refused, and what the shipped setting says."""

from __future__ import annotations

from click.testing import CliRunner

from analysis.poisonfeddlrs import METRICS, SCENARIO, main
from gossiprec.scenario import load_scenario


def test_a_folder_without_the_code_is_refused_by_name(tmp_path):
    done = CliRunner().invoke(main, ["--code", str(tmp_path), "--out", str(tmp_path / "x.csv")])
    assert done.exit_code == 2
    assert f"found no client.py in {tmp_path}; expected a clone of rdz98/PoisonFedDLRS" in " ".join(
        done.output.split()
    )


def test_the_setting_tests_after_all_slices_and_has_the_metrics_of_the_code():
    scenario = load_scenario(SCENARIO)
    assert scenario.protocol.options.close_epochs
    assert tuple(scenario.evaluate.metrics) == METRICS
