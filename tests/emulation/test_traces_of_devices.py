"""Real traces: recordings of devices, sites, tables of rates and contacts, drawn onto nodes and scaled."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest

from gossiprec.base.errors import GossipRecError, LogError, ScenarioError
from gossiprec.emulation import estimate_run, prepare, replay, resume, simulate
from gossiprec.scenario import load_scenario
from tests.emulation import traces_of_devices as traces
from tests.emulation.ended_early import ended_early, often, outcome
from tests.emulation.tiny_runs import tiny

DEVICES = {"seconds_per_wake": 50}
"""A week of 600 s is 12 wake periods, longer than the six wakes of most nodes."""


def contact_protocol(**view):
    chosen = {"contacts": "contacts.csv", "unit": "s", "end": "repeat", **view}
    return {"name": "rand-gossip", "fanout": 3, "view": chosen, "wakes": 8}


def phones(**more):
    return {"sessions": {"trace": "phones.txt", "format": "peersim", "end": "repeat", **more}}


CONDITIONS = {
    "phones.txt": (traces.peersim(), {"churn": phones()}),
    "phones.txt.gz": (
        gzip.compress(traces.peersim().encode(), mtime=0),
        {"churn": phones(trace="phones.txt.gz")},
    ),
    "clients.pkl": (
        traces.fedscale(),
        {"churn": phones(trace="clients.pkl", format="fedscale")},
    ),
    "online.csv": (
        traces.intervals(),
        {"churn": phones(trace="online.csv", format={"name": "intervals"}, unit="min")},
    ),
    "sites.csv": (
        traces.sites(),
        {"network": {"latency": {"sites": "sites.csv", "unit": "ms", "round_trip": True}}},
    ),
    "rates.csv": (
        traces.rates(),
        {"network": {"bandwidth": {"up": {"table": "rates.csv", "column": "up", "unit": "kB/s"}}}},
    ),
    "contacts.csv": (traces.contacts(), {"protocol": contact_protocol()}),
}
"""File to its content and the sections that read it."""


def write(folder, name, content):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with all files, which is the current one."""
    monkeypatch.chdir(tmp_path)
    for name, (content, _) in CONDITIONS.items():
        write(tmp_path, name, content)
    return tmp_path


def prepared(**sections):
    return prepare(load_scenario(tiny(**{"observers": [], **DEVICES, **sections})))


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_run_records_every_file_that_it_reads(folder, name):
    assert set(prepared(**CONDITIONS[name][1]).inputs) == {name}


OTHERS = {
    "t.txt": ("0.1\n0.2\n", {"network": {"latency": {"law": "trace", "path": "t.txt"}}}),
    "m.csv": (
        "\n".join([",".join(["0.1"] * 12)] * 12),
        {"network": {"latency": {"law": "pairs", "path": "m.csv"}}},
    ),
    "c.csv": (
        "\n".join(["node,latitude,longitude", *(f"{k},{k},{k}" for k in range(12))]),
        {"network": {"latency": {"law": "geographic", "coordinates": "c.csv", "speed_km": 1e5}}},
    ),
    "r.txt": ("9e3\n" * 12, {"network": {"bandwidth": {"down": {"law": "file", "path": "r.txt"}}}}),
    "w.txt": ("0.1\n", {"network": {"compute": {"time": {"law": "trace", "path": "w.txt"}}}}),
    "s.txt": (
        "2\n",
        {
            "churn": {
                "sessions": {
                    "online": {"law": "trace", "path": "s.txt"},
                    "offline": {"law": "constant", "value": 1},
                }
            }
        },
    ),
    "g.edges": (
        "\n".join(f"{k} {(k + 1) % 12}" for k in range(12)),
        {
            "protocol": {
                "name": "rand-gossip",
                "fanout": 2,
                "view": {"graph": {"file": "g.edges"}},
                "wakes": 6,
            }
        },
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_run_records_files_of_nodes_too(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    content, sections = OTHERS[name]
    write(tmp_path, name, content)
    assert set(prepared(**sections).inputs) == {name}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["phones.txt", "sites.csv", "rates.csv", "contacts.csv"])
@pytest.mark.full
def test_a_changed_file_is_refused_by_resume_and_reported_by_replay(folder, name):
    content, sections = CONDITIONS[name]
    run = ended_early(folder / "run", often(**DEVICES, **sections))
    whole = simulate(often(**DEVICES, **sections), out=folder / "whole")
    write(folder, name, content.replace("\n", "\n\n", 1))  # the same numbers, other bytes
    with pytest.raises(LogError, match=rf"have changed since it began: {name} has changed"):
        resume(run.path)
    assert any(line.startswith(f"{name} was ") for line in replay(whole.path).elsewhere)
    write(folder, name, content)
    assert outcome(resume(run.path).path) == outcome(whole.path)


def test_recordings_are_drawn_onto_nodes_by_the_seed_each_once(folder):
    first, same, other = (lives(seed) for seed in (5, 5, 6))
    assert first == same != other
    assert sorted(first) == sorted(other) == sorted(set(first))


def lives(seed):
    """Return the first changes of every node."""
    made = prepared(churn=phones(), seed=seed)
    return [tuple(times[:3].tolist()) for times in made.components.protocol.availability.changes]


def test_a_recording_is_scaled_by_the_seconds_of_a_wake(folder):
    write(folder, "phones.txt", "\n".join(["d 1 0 0 100000 50000 350000"] * 12))
    made = prepared(churn=phones(end="hold"), seconds_per_wake=50).components.protocol.availability
    assert made.starts_online.all()
    assert [times.tolist() for times in made.changes] == [[2.0, 3.0]] * 12


def test_formats_give_the_same_sessions(folder):
    write(folder, "phones.txt", "\n".join(["d 0 0 0 100000 50000 350000 100000"] * 12))
    write(
        folder,
        "clients.pkl",
        pickle.dumps(
            {k: {"active": [100, 500], "inactive": [150, 600], "finish_time": 600} for k in range(12)}
        ),
    )
    lines = ["device,from,until", *(f"{k},{a},{b}" for k in range(12) for a, b in ((500, 600), (100, 150)))]
    write(folder, "online.csv", "\n".join(lines))
    sections = [
        phones(),
        phones(trace="clients.pkl", format="fedscale"),
        phones(trace="online.csv", format="intervals", unit="s"),
    ]
    found = [
        prepared(churn=churn, seconds_per_wake=50).components.protocol.availability for churn in sections
    ]
    logs = [[part.tolist() for part in each.all_changes()] for each in found]
    phone = logs[0]
    assert phone[0][:24] == [2.0] * 12 + [3.0] * 12
    assert phone == logs[1] == logs[2]


def test_nodes_are_spread_over_sites_and_take_half_of_a_round_trip(folder):
    matrix = np.genfromtxt(folder / "sites.csv", delimiter=",")
    made = prepared(network=CONDITIONS["sites.csv"][1]["network"])
    latency = made.schedule  # the delays are in the deliveries
    deliveries, tape = latency.deliveries, made.schedule.ticks
    sent = np.concatenate([tick.segment.sent_at for tick in tape])
    delays = (deliveries.time - sent[deliveries.message]) * 2 * 50 * 1000
    known = np.round(matrix, 3).ravel()
    assert np.abs(delays[:, None] - known).min(axis=1).max() < 1e-2
    assert len(set(np.round(delays, 2))) > 5


def test_rates_of_one_row_belong_together(folder):
    table = np.genfromtxt(folder / "rates.csv", delimiter=",", skip_header=1)
    from gossiprec.emulation.assembly.network_setup import DOWN, UP, _rates

    rates = {
        way: {"table": "rates.csv", "column": way, "unit": unit}
        for way, unit in (("up", "kB/s"), ("down", "kbit/s"))
    }
    scenario = load_scenario(tiny(observers=[], network={"bandwidth": rates}, **DEVICES))
    protocol = prepared().components.protocol
    up, down = (_rates(scenario, protocol, way, purpose) for way, purpose in (("up", UP), ("down", DOWN)))
    pairs = {(round(a / 50e3, 2), round(b / 50e3 * 8, 2)) for a, b in zip(up, down, strict=True)}
    assert pairs == {tuple(row) for row in table.tolist()}
    assert sorted(np.unique(up, return_counts=True)[1]) == [1, 1, 2, 2, 2, 2, 2]


def test_a_node_sends_only_to_those_it_is_in_contact_with(folder):
    made = prepared(protocol=contact_protocol())
    rows = np.genfromtxt(folder / "contacts.csv", delimiter=",", skip_header=1)
    begin, end = rows[:, 0] / 50, (rows[:, 0] + rows[:, 3]) / 50
    pairs = [set(map(int, row[1:3])) for row in rows]
    found = made.schedule.deliveries
    assert len(found.message) > 20
    for sender, receiver, time in zip(found.sender, found.receiver, found.time % end.max(), strict=True):
        held = [k for k, pair in enumerate(pairs) if pair == {sender, receiver}]
        assert any(begin[k] <= time < end[k] for k in held)


def test_people_of_any_name_are_drawn_onto_nodes(folder):
    content = traces.contacts(n=6)
    renamed = ["time,i,j,duration"]
    for line in content.splitlines()[1:]:
        time, i, j, duration = line.split(",")
        renamed.append(f"{time},badge {i},badge {j},{duration}")
    write(folder, "contacts.csv", "\n".join(renamed))
    first, other = (
        prepared(protocol=contact_protocol(people="drawn"), seed=seed).components.protocol.contacts
        for seed in (5, 6)
    )
    assert len(np.unique([first.one, first.other])) == 6
    assert first.one.tolist() != other.one.tolist()
    write(folder, "contacts.csv", "\n".join([renamed[0], *renamed[:0:-1]]))
    again = prepared(protocol=contact_protocol(people="drawn"), seed=5).components.protocol.contacts
    assert sorted(zip(again.one, again.begin, strict=True)) == sorted(
        zip(first.one, first.begin, strict=True)
    )


@pytest.mark.parametrize("name", CONDITIONS)
def test_an_estimate_bounds_the_messages(folder, name):
    scenario = load_scenario(tiny(observers=[], **{**DEVICES, **CONDITIONS[name][1]}))
    found = estimate_run(scenario, played=False).sizes
    assert found["messages"] >= prepared(**CONDITIONS[name][1]).schedule.n_messages


CUT = gzip.compress(traces.peersim().encode(), mtime=0)[:200]
HEADER = "time,i,j,duration\n"
REFUSED = {
    "a unit left out of latencies": (
        "sites.csv", traces.sites(), {"network": {"latency": {"sites": "sites.csv"}}},
        "network.latency.unit: is missing",
    ),
    "a unit left out of intervals": (
        "online.csv", "", {"churn": phones(trace="online.csv", format="intervals")},
        "unit is missing: the format intervals does not fix it; expected ms, s, min, h, day or wakes",
    ),
    "a unit left out of rates": (
        "rates.csv", "", {"network": {"bandwidth": {"up": {"table": "rates.csv", "column": "up"}}}},
        "network.bandwidth.up.unit: is missing",
    ),
    "a unit left out of contacts": (
        "contacts.csv", "", {"protocol": contact_protocol(unit=None)},
        "protocol.view.unit: found null, must be 'wakes', 'ms', ",
    ),
    "no unit of contacts": (
        "contacts.csv", "", {"protocol": {**contact_protocol(), "view": {"contacts": "contacts.csv"}}},
        "protocol.view.unit: is missing",
    ),
    "no seconds of a wake": (
        "phones.txt", "", {"churn": phones(), "seconds_per_wake": None},
        "churn.sessions.0.unit: found 'ms', but the scenario has no seconds_per_wake; expected the seconds of one",
    ),
    "another unit than the format's": (
        "phones.txt", "", {"churn": phones(unit="s")}, "found unit 's', but times of the format peersim are in ms",
    ),
    "an unknown format": (
        "phones.txt", "", {"churn": phones(format="peersin")}, "did you mean 'peersim'?",
    ),
    "too few devices": (
        "phones.txt", traces.peersim(5), {"churn": phones()},
        "phones.txt has 5 recordings of up to 12 wake periods; expected one for each of 12 nodes",
    ),
    "too short recordings": (
        "phones.txt", traces.peersim(length=60_000), {"churn": phones(end="refuse")},
        "phones.txt has 12 recordings of up to 1.2 wake periods, 0 of them as long as the run",
    ),
    "a duration of nothing": (
        "phones.txt", "d 1 0 0 5 6\nd 1 0 0 5 0 6\n", {"churn": phones()},
        "phones.txt: line 2: found duration '0'; expected milliseconds above 0",
    ),
    "a duration in words": (
        "phones.txt", "d 1 0 0 5 x\n", {"churn": phones()}, "phones.txt: line 1: found duration 'x'",
    ),
    "a line of something else": (
        "phones.txt", "\n0.5\n", {"churn": phones()}, "phones.txt: line 2: found '0.5'; expected device, first state",
    ),
    "a trace that is cut": (
        "phones.txt.gz", CUT, {"churn": phones(trace="phones.txt.gz")},
        "phones.txt.gz: cannot be read: Compressed file ended before the end-of-stream marker",
    ),
    "an empty trace": ("phones.txt", "\n", {"churn": phones()}, "phones.txt: found no recording of a device"),
    "no trace": ("x", "", {"churn": phones(trace="no.txt")}, "no.txt: no such file in "),
    "intervals that overlap": (
        "online.csv", "device,from,until\na,5,9\nb,1,2\na,1,6\n",
        {"churn": phones(trace="online.csv", format="intervals", unit="s")},
        "online.csv: line 2: found an interval from 5 until 9; expected intervals of device 'a' that end after they",
    ),
    "an interval that ends first": (
        "online.csv", "device,from,until\na,5,4\n",
        {"churn": phones(trace="online.csv", format="intervals", unit="s")},
        "online.csv: line 2: found an interval from 5 until 4",
    ),
    "an interval in the past": (
        "online.csv", "device,from,until\na,-5,4\n",
        {"churn": phones(trace="online.csv", format="intervals", unit="s")},
        "online.csv: line 2: found '-5'; expected a number, 0 or more",
    ),
    "another header": (
        "online.csv", "phone,from,until\na,5,4\n",
        {"churn": phones(trace="online.csv", format="intervals", unit="s")},
        "online.csv: line 1: found 'phone,from,until'; expected the header device,from,until",
    ),
    "overlapping sessions of a node": (
        "online.csv", "node,from,until\n1,5,9\n0,1,2\n1,4,6\n",
        {"churn": {"sessions": {"trace": "online.csv", "end": "hold"}}},
        "online.csv: line 2: node 1 is online from 5 until 9; sessions must end after they begin and not overlap",
    ),
    "a pickle with code": (
        "clients.pkl", pickle.dumps({1: Path("x")}), {"churn": phones(trace="clients.pkl", format="fedscale")},
        "which could run code); expected a pickled dictionary",
    ),
    "a pickle that is cut": (
        "clients.pkl", traces.fedscale()[:80], {"churn": phones(trace="clients.pkl", format="fedscale")},
        "clients.pkl: found no plain pickle (",
    ),
    "no pickle": (
        "clients.pkl", "{}", {"churn": phones(trace="clients.pkl", format="fedscale")},
        "clients.pkl: found no plain pickle (",
    ),
    "a client of other keys": (
        "clients.pkl", pickle.dumps({7: {"active": [1]}}),
        {"churn": phones(trace="clients.pkl", format="fedscale")},
        "clients.pkl: client 7: found {'active': [1]}; expected a pickled dictionary",
    ),
    "a client that overlaps itself": (
        "clients.pkl", pickle.dumps({7: {"active": [1, 2], "inactive": [3, 4], "finish_time": 9}}),
        {"churn": phones(trace="clients.pkl", format="fedscale")},
        "clients.pkl: client 7: found active from 2 to 4; expected sessions from 0 to 9",
    ),
    "a matrix that is not square": (
        "sites.csv", "1,2\n3,4\n5,6\n", {"network": {"latency": {"sites": "sites.csv", "unit": "ms"}}},
        "network.latency.sites: sites.csv is 3 x 2; expected as many columns as rows",
    ),
    "a matrix with a blank": (
        "sites.csv", "1,2\n3,\n", {"network": {"latency": {"sites": "sites.csv", "unit": "ms"}}},
        "sites.csv: line 2: found ''; expected a number",
    ),
    "a matrix with a short line": (
        "sites.csv", "1,2\n3\n", {"network": {"latency": {"sites": "sites.csv", "unit": "ms"}}},
        "sites.csv: line 2: found 1 columns; expected 2",
    ),
    "a matrix with a missing measurement": (
        "sites.csv", "1,2\n\n3,-0.5\n", {"network": {"latency": {"sites": "sites.csv", "unit": "ms"}}},
        "sites.csv: line 3, column 2: found -0.5; expected a finite number, 0 or more; correct it, or set missing:",
    ),
    "a site without measurement": (
        "sites.csv", "1,-1\n-1,-1\n",
        {"network": {"latency": {"sites": "sites.csv", "unit": "ms", "missing": "fill"}}},
        "sites.csv: line 2, column 1: found -1; expected a finite number, 0 or more; remove this site",
    ),
    "a matrix of another unit": (
        "sites.csv", "1", {"network": {"latency": {"sites": "sites.csv", "unit": "us"}}},
        "network.latency.unit: found 'us', must be 'wakes', 'ms', ",
    ),
    "no column of rates": (
        "rates.csv", traces.rates(),
        {"network": {"bandwidth": {"up": {"table": "rates.csv", "column": "u", "unit": "kB/s"}}}},
        "rates.csv has no column 'u'; it has: up, down",
    ),
    "a rate of nothing": (
        "rates.csv", "up\n5\n0\n",
        {"network": {"bandwidth": {"up": {"table": "rates.csv", "column": "up", "unit": "kB/s"}}}},
        "rates.csv: line 3: found '0'; expected a finite number, above 0",
    ),
    "contacts in the past": (
        "contacts.csv", HEADER + "5,0,1,3\n-2,0,2,5\n", {"protocol": contact_protocol()},
        "contacts.csv: line 3: found '-2'; expected a time of 0 or more: the run begins at 0",
    ),
    "contacts of an unknown node": (
        "contacts.csv", HEADER + "5,0,1,3\n\n2,0,12,5\n", {"protocol": contact_protocol()},
        "contacts.csv: line 4: found node '12'; expected a node from 0 to 11; for other names set people: drawn",
    ),
    "a contact with itself": (
        "contacts.csv", HEADER + "5,3,3,3\n", {"protocol": contact_protocol()},
        "contacts.csv: line 2: found a contact of a node with itself",
    ),
    "contacts that overlap": (
        "contacts.csv", HEADER + "5,3,2,3\n7,2,3,9\n", {"protocol": contact_protocol()},
        "contacts.csv: line 3: found a contact of the same two nodes that overlaps another one, from 7",
    ),
    "a contact of no duration": (
        "contacts.csv", HEADER + "5,3,2,0\n", {"protocol": contact_protocol()},
        "contacts.csv: line 2: found '0'; expected a duration above 0",
    ),
    "no contact": ("contacts.csv", HEADER, {"protocol": contact_protocol()}, "contacts.csv: found no row"),
    "too many people": (
        "contacts.csv", traces.contacts(n=14), {"protocol": contact_protocol(people="drawn")},
        "contacts.csv: found 14 people, but there are 12 nodes",
    ),
    "contacts that end early": (
        "contacts.csv", HEADER + "5,3,2,3\n", {"protocol": contact_protocol(end="refuse")},
        "contacts.csv ends at 0.16, but the run lasts until",
    ),
    "contacts after the run": (
        "contacts.csv", HEADER + "5000,3,2,3\n", {"protocol": contact_protocol()},
        "the first contact begins at 100, but the run ends at",
    ),
    "contacts and a size": (
        "contacts.csv", traces.contacts(), {"protocol": contact_protocol(size=3)},
        "found contacts and size, but the peers of a node are those with which it is in contact; remove size",
    ),
}  # fmt: skip
"""File, its content, the sections that read it, and a part of the message."""


@pytest.mark.parametrize(("name", "content", "sections", "message"), REFUSED.values(), ids=REFUSED)
def test_a_trace_that_does_not_fit_is_refused(folder, name, content, sections, message):
    write(folder, name, content)
    with pytest.raises(GossipRecError) as caught:
        prepared(**sections)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ScenarioError)


def test_missing_measurements_are_filled_in_from_the_other_direction_or_the_row(folder):
    from gossiprec.emulation.assembly.data_loading import read_sites

    write(folder, "sites.csv", "0,1,2,3\n-1,0,-1,-1\n4,-1,0,5\n6,nan,7,0\n")
    found = read_sites("sites.csv", "key", fill=True)
    assert found.tolist() == [[0, 1, 2, 3], [1, 0, 0.5, 0.5], [4, 4, 0, 5], [6, 6, 7, 0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "\n".join("\t".join(f"{abs(i - j)}.5" for j in range(490)) for i in range(490)),
            "found tabs between cells",
        ),
        ("0;1\n1;0\n", "found semicolons between cells"),
        ("0,5\t1,5\n1,5\t0,5\n", "found tabs between cells; expected commas, and points in decimal numbers"),
        (
            "0 1 2\n1 0 2\n2 1 0\n",
            "found 3 words without a comma; expected commas between cells; replace the blanks",
        ),
        ("x" * 5000 + ",1\n1,0\n", "found 'xxx"),
        (
            "# made by numpy\n0,1\n1,0\n",
            "found '#' at its beginning; expected the header or the first row; remove",
        ),
    ],
)
@pytest.mark.parametrize("reader", ["matrix", "sites"])
def test_a_matrix_of_another_delimiter_gets_a_short_message_with_a_next_step(folder, reader, text, words):
    from gossiprec.emulation.assembly.data_loading import read_matrix, read_sites

    write(folder, "m.csv", text)
    with pytest.raises(ScenarioError) as caught:
        read_matrix("m.csv", "key", 2) if reader == "matrix" else read_sites("m.csv", "key", fill=False)
    assert f"key: m.csv: line 1: {words}" in str(caught.value)
    assert len(str(caught.value)) < 200
