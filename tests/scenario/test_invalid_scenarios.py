"""Scenarios that were refused before the redesign are still refused, with a message about the same keys.

``invalid_scenarios.jsonl`` has the invalid scenarios of the tests of November 2026, one for each wording of a message
(numbers and names apart), without the keys that its message does not need. One JSON object a line, with ``scenario``
and the ``message`` of then. A line is changed or removed only together with the check that it is about.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gossiprec.base.errors import GossipRecError
from gossiprec.emulation import prepare
from gossiprec.scenario import load_scenario

FROZEN = Path(__file__).with_name("invalid_scenarios.jsonl")


def refusal(invalid):
    """Return the message with which an invalid scenario is refused, or None."""
    try:
        prepare(load_scenario(invalid["scenario"]))
    except GossipRecError as error:
        return str(error)
    return None


def named_keys(message):
    """Return the key paths of a message; each line of it begins with origin and key path."""
    parts = [line.split(": ") for line in message.splitlines()]
    return {words[1] for words in parts if len(words) > 2 and " " not in words[1]}


def is_about(key, keys):
    """Return whether a key, or one below it, is among keys."""
    return any(f"{other}.".startswith(f"{key}.") for other in keys)


def changed(invalid, message):
    """Return the fault of a message of today as a sentence, or None."""
    if message is None:
        return f"is accepted: {json.dumps(invalid)}"
    lost = [key for key in named_keys(invalid["message"]) if not is_about(key, named_keys(message))]
    return f"no longer names {', '.join(lost)}: {message}\nbefore: {invalid['message']}" if lost else None


def test_invalid_scenarios_are_refused_by_the_same_keys():
    frozen = [json.loads(line) for line in FROZEN.read_text(encoding="utf-8").splitlines()]
    assert len(frozen) > 1400
    assert [wrong for wrong in (changed(invalid, refusal(invalid)) for invalid in frozen) if wrong] == []


@pytest.mark.parametrize(
    ("today", "said"),
    [
        (None, "is accepted"),
        ("scenario: model.dim: found 0", "no longer names protocol.wakes"),
        ("scenario: protocol.wakes.0: found -1\nscenario: model.dim: found 0", None),
    ],
)
def test_a_changed_refusal_is_found(today, said):
    before = {"scenario": {}, "message": "scenario: protocol.wakes: found -1, must be at least 1"}
    found = changed(before, today)
    assert found is None if said is None else said in found
