"""The notebooks run from beginning to end in an empty folder, and say what their text promises."""

from __future__ import annotations

from pathlib import Path

import pytest

import gossiprec

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "analysis" / "notebooks").glob("*.ipynb"))
READ_BY_USERS = [ROOT / "analysis" / "README.md", ROOT / "docs" / "notebooks.md"]


def executed(name, folder):
    """Return the outputs of a notebook's cells, run in a folder, as MIME bundles; what is printed as text/plain."""
    notebook = nbformat.read(ROOT / "analysis" / "notebooks" / f"{name}.ipynb", as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(folder)}})
    outputs = [out for cell in client.execute().cells for out in cell.get("outputs", [])]
    return [out["data"] if "data" in out else {"text/plain": out["text"]} for out in outputs]


def said(outputs):
    return "\n".join(out["text/plain"] for out in outputs)


def n_pictures(outputs):
    return sum("image/png" in out for out in outputs)


def attack_lines(run, form="guessing {:4.0%}   found {:4.0%}   could be found {:4.0%}"):
    keys = ("random_bound", "max_aac", "upper_bound")
    return [form.format(*(attack[key] for key in keys)) for attack in run.summary["attacks"]]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs_and_is_known_to_readers(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert all(path.name in page.read_text() for page in READ_BY_USERS)


@pytest.mark.slow
@pytest.mark.full
def test_the_first_run_shows_attacks_between_guessing_and_their_bound(tmp_path, monkeypatch):
    outputs = executed("first_run", tmp_path)
    monkeypatch.chdir(tmp_path)  # the notebook names its run as seen from there
    run = gossiprec.open_run("runs/first")

    assert run._repr_html_() == outputs[0]["text/html"]
    assert all(line in said(outputs) for line in attack_lines(run))
    for attack in run.summary["attacks"]:
        assert attack["random_bound"] < attack["max_aac"] < attack["upper_bound"]
    assert n_pictures(outputs) == 2
    pairs = set(zip(*(run.events("message")[end].tolist() for end in ("sender", "receiver")), strict=True))
    most = max(sum(sender == node for sender, _ in pairs) for node in range(24))
    assert f"{len(run.events('message')['time'])} messages; node " in said(outputs)
    assert f" reached {most} of 23 others" in said(outputs)


@pytest.mark.slow
@pytest.mark.full
def test_what_if_tells_a_lower_bound_from_a_defence(tmp_path):
    outputs = executed("what_if", tmp_path)
    summaries = {
        (name, seed): gossiprec.open_run(tmp_path / "runs" / "what-if" / f"{name}-{seed}").summary
        for name in ("as it is", "one peer", "share less")
        for seed in (1, 2)
    }
    for seed in (1, 2):
        before, one, less = (summaries[name, seed] for name in ("as it is", "one peer", "share less"))
        bound, of_one, of_less = (each["attacks"][0]["upper_bound"] for each in (before, one, less))
        assert of_one < bound == of_less
        assert one["messages"] < before["messages"] == less["messages"]
        lower = less["attacks"][0]["max_aac"] - before["attacks"][0]["max_aac"]
        assert f"{lower:.3f}" in said(outputs)
    assert n_pictures(outputs) == 2


@pytest.mark.slow
@pytest.mark.full
def test_an_attack_of_ones_own_finds_more_than_guessing_and_nothing_where_rows_are_kept_back(tmp_path):
    outputs = executed("own_attack", tmp_path)
    run, defended = (
        gossiprec.open_run(tmp_path / "runs" / name) for name in ("own-attack", "own-attack-defended")
    )
    own, known = run.summary["attacks"]

    assert (own["observer"], known["observer"]) == ("top-lists", "single")
    assert own["random_bound"] < own["max_aac"] < own["upper_bound"] == known["upper_bound"]
    assert all(line in said(outputs) for line in attack_lines(run))
    assert defended.summary["attacks"][0]["max_aac"] == 0.0
    assert "top-lists  found   0%" in said(outputs)
    assert n_pictures(outputs) == 1
