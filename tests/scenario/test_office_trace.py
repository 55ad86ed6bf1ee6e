"""The shipped trace of contacts is ours: this program writes it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from gossiprec.cli.main import exit_code
from gossiprec.emulation import prepare
from gossiprec.scenario import load_scenario
from gossiprec.scenario.bundled import get_bundled, write_bundled

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


def office(people=48, rooms=6, hours=8):
    """Return contacts in an office: mostly within a room, and of anyone at lunch. Times are in minutes."""
    draws = np.random.default_rng(35)
    busy: dict[tuple[int, int], int] = {}
    lines = []
    for minute in range(0, 60 * hours, 5):
        lunch = 225 <= minute < 285
        for i in range(people):
            if draws.random() < (0.4 if lunch else 0.3):
                room = people // rooms
                outside = lunch or draws.random() < 0.15
                j = int(draws.integers(people)) if outside else i // room * room + int(draws.integers(room))
                pair = (min(i, j), max(i, j))
                if i != j and busy.get(pair, 0) <= minute:
                    duration = int(draws.integers(2, 25))
                    busy[pair] = minute + duration
                    lines.append(f"{minute},{pair[0]},{pair[1]},{duration}")
    return "\n".join(["time,i,j,duration", *lines]) + "\n"


def test_the_trace_is_what_this_program_writes():
    assert (SCENARIOS / "traces" / "office_contacts.csv").read_text() == office()


def test_a_copy_of_the_scenario_comes_with_its_trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written = write_bundled(get_bundled("scenarios", "contacts"), Path())
    assert list(map(str, written)) == ["contacts.yaml", "traces/office_contacts.csv"]
    made = prepare(load_scenario("contacts.yaml", ["protocol.wakes=5", "observers=[]"]))
    assert list(made.inputs) == ["traces/office_contacts.csv"]
    assert made.schedule.n_messages > 100


def test_inspect_shows_all_contacts_and_who_can_meet(capsys, monkeypatch):
    monkeypatch.chdir(SCENARIOS.parent)
    assert exit_code(["topology", "inspect", str(SCENARIOS / "contacts.yaml"), "--json"]) == 0
    (facts,) = json.loads(capsys.readouterr().out)
    pairs = {tuple(line.split(",")[1:3]) for line in office().splitlines()[1:]}
    assert (facts["nodes"], facts["links"]) == (48, len(pairs))
    assert 0.2 < facts["can_meet"] <= 2 * len(pairs) / 48 / 47


def test_a_trace_that_is_not_there_is_named_with_the_folder_in_which_it_was_looked_for(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert exit_code(["simulate", str(SCENARIOS / "contacts.yaml"), "--dry-run"]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert f"office_contacts.csv: no such file in {tmp_path}, where this command runs" in message
    assert "run the command in the folder from which it leads there" in message
