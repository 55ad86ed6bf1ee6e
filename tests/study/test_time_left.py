"""How long a study says that it will still take, by a clock of its own."""

import pytest

from gossiprec.base.errors import DataError
from gossiprec.cli.progress import StudyProgressState, format_clock_time
from gossiprec.study.runner import PlannedRun, TimeLeft, plan_run
from gossiprec.study.task import TaskResult


class Clock:
    """Shows what it is set to."""

    now = 0.0

    def __call__(self):
        return self.now


CHEAP, DEAR = PlannedRun("gossip", 10.0), PlannedRun("federated", 4.0)
STUDY = {f"cheap {k}": CHEAP for k in range(8)} | {f"dear {k}": DEAR for k in range(2)}


def carried_out(planned, jobs, seconds):
    """Run tasks in order on a fake clock; yield the time left as said, and as it was, after each has ended."""
    clock = Clock()
    left = TimeLeft(planned, jobs, clock)
    free, total = [0.0] * jobs, list(planned)
    ends = []
    for hash_ in total:
        begin = min(free)
        free[free.index(begin)] = begin + seconds(hash_)
        ends.append((begin + seconds(hash_), begin, hash_))
    events = sorted(
        [(begin, 1, hash_) for _, begin, hash_ in ends] + [(end, 0, hash_) for end, _, hash_ in ends]
    )
    for now, starts, hash_ in events:
        clock.now = now
        if starts:
            left.note_start(hash_)
        else:
            left.note_end(hash_, seconds(hash_))
            yield hash_, left.estimate_seconds(), max(free) - now


def test_experiments_take_what_runs_of_their_own_take():
    costs = {"cheap": 1.0, "dear": 100.0}
    planned = {"cheap 0": CHEAP, "dear 0": DEAR, **STUDY}
    told = list(carried_out(planned, 1, lambda hash_: costs[hash_.split()[0]]))
    for _, said, was in told[1:]:
        assert said == pytest.approx(was, abs=1e-6)


def test_an_experiment_that_has_not_begun_is_told_by_its_work():
    alike, watched = "fused gmf None rand-gossip", "fused gmf None rand-gossip cda single"
    planned = {"a": PlannedRun(alike, 1.0), "b": PlannedRun(alike, 50.0), "c": PlannedRun(watched, 200.0)}
    first = next(carried_out(planned, 1, lambda hash_: planned[hash_].work / 10))
    assert first == ("a", pytest.approx(25.0), pytest.approx(25.0))


def test_one_that_trains_something_else_is_taken_to_last_as_long_as_others_whatever_its_work():
    gossip, clients = "fused gmf None rand-gossip", "fused ncf fedncf fedavg"
    planned = {"a": PlannedRun(gossip, 1.0), "b": PlannedRun(gossip, 1.0), "c": PlannedRun(clients, 5000.0)}
    planned |= {"d": PlannedRun("batched mf None central", 9.0)}
    seconds = {"a": 10.0, "b": 10.0, "c": 30.0, "d": 20.0}
    said = [left for _, left, _ in carried_out(planned, 1, seconds.__getitem__)]
    assert said == pytest.approx([30.0, 20.0, (10.0 + 30.0) / 2, 0.0])


def test_earlier_runs_on_this_machine_tell_before_anything_has_ended():
    clock = Clock()
    left = TimeLeft({"a": PlannedRun("x", 1.0, 30.0), "b": PlannedRun("y", 1.0, 10.0)}, 1, clock)
    assert left.estimate_seconds() == pytest.approx(40.0)
    left.note_start("a")
    clock.now = 60.0
    left.note_end("a", 60.0)  # the machine is busy: half as fast as it was
    assert left.estimate_seconds() == pytest.approx(20.0)


def test_nothing_is_said_while_nothing_is_known():
    left = TimeLeft(STUDY, 2, Clock())
    left.note_start("dear 0")
    assert left.estimate_seconds() is None
    left.note_end("dear 0", 3.0, failed=True)
    assert left.estimate_seconds() is None


def test_what_is_under_way_is_counted_as_far_as_it_is_not_done():
    clock = Clock()
    left = TimeLeft({"a": CHEAP, "b": CHEAP, "c": CHEAP}, 1, clock)
    left.note_start("a")
    clock.now = 10.0
    left.note_end("a", 10.0)
    left.note_start("b")
    clock.now = 14.0
    assert left.estimate_seconds() == pytest.approx(16.0)
    clock.now = 100.0
    assert left.estimate_seconds() == pytest.approx(11.0)


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_several_at_a_time_share_what_is_left(jobs):
    planned = {str(k): CHEAP for k in range(12)}
    for _, said, was in carried_out(planned, jobs, lambda _: 6.0):
        assert abs(said - was) <= 6.0


def test_no_number_of_workers_shortens_the_longest_run():
    left = TimeLeft({"long": PlannedRun("x", 1.0, 100.0), "short": PlannedRun("x", 1.0, 2.0)}, 8, Clock())
    assert left.estimate_seconds() == pytest.approx(100.0)


def test_where_jobs_are_not_told_they_are_counted():
    clock = Clock()
    left = TimeLeft({str(k): CHEAP for k in range(8)}, None, clock)
    for k in range(4):
        left.note_start(str(k))
    clock.now = 10.0
    for k in range(4):
        left.note_end(str(k), 10.0)
    assert left.estimate_seconds() == pytest.approx(10.0)


def test_a_shared_run_that_failed_is_replaced_by_runs_like_it():
    clock = Clock()
    tally = StudyProgressState(str, TimeLeft({"shared": CHEAP, "other": CHEAP}, 1, clock))
    tally.begin(total=2, kept=0)
    tally.note_activity("other", "simulating")
    clock.now = 5.0
    tally.ended(TaskResult("other", 5.0), "other", "")
    tally.note_activity("shared", "simulating")
    tally.split("shared", 3, 1)
    assert tally.describe_progress() == ["2 of 4 runs", "about 0:10 left"]
    tally.note_activity("part", "simulating")
    clock.now = 10.0
    tally.ended(TaskResult("part", 5.0), "part", "")
    assert tally.describe_progress() == ["3 of 4 runs", "about 0:05 left"]


def test_compiling_kernels_does_not_count_for_runs_to_come():
    tally = StudyProgressState(str, TimeLeft({"first": CHEAP, "second": CHEAP}, 1, Clock()))
    tally.begin(total=2, kept=0)
    tally.ended(TaskResult("first", 45.0, compiling=42.0), "first", "")
    assert tally.describe_progress()[-1] == "about 0:03 left"


def test_a_run_that_is_bound_to_fail_takes_no_time():
    left = TimeLeft(
        {"bad": plan_run(DataError("no such file")), "good": PlannedRun("x", 1.0, 7.0)}, 1, Clock()
    )
    assert left.estimate_seconds() == pytest.approx(7.0)


def test_hours_are_said_where_there_are_any():
    assert [format_clock_time(s) for s in (0.4, 59.6, 3599, 3661)] == ["0:00", "1:00", "59:59", "1:01:01"]
