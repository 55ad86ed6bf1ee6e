"""Text and tables for run summaries and dry-run estimates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any

from gossiprec.base.text import one_line, short_name

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

MIB = 2**20
WIDTH = 100
"""Columns of a table that is not printed on a terminal."""


def format_percent(fraction: float | None) -> str:
    """Return a fraction in percent with one decimal, or ``-`` if it is unknown."""
    return "-" if fraction is None else f"{100 * fraction:.1f}"


def format_rows(rows: Mapping[str, str]) -> str:
    """Return one line per row, with the texts aligned."""
    return "\n".join(f"{name:14}{text}" for name, text in rows.items())


def format_header(summary: Mapping[str, Any]) -> str:
    """Return the name of the run and its final recommendation quality."""
    metrics = ((name, value) for name, value in summary["utility"].items() if "=" not in name)
    measured = summary.get("measured", {})
    errors = {
        name: f" ± {format_percent(error)}" for name, error in measured.get("standard_errors", {}).items()
    }
    utility = [
        f"{short_name(name)} {format_percent(value)}{errors.get(name, '')} %" for name, value in metrics
    ]
    rows = {
        "run": f"{short_name(summary['scenario'])}, seed {summary['seed']}: {summary['status']}",
        "utility": ", ".join(utility) or "not measured",
    }
    if measured:
        rows["measured"] = f"{measured['users']:,} of {measured['of']:,} users, ± one standard error"
    if summary.get("stopped"):
        from gossiprec.runs.run import describe_stop

        rows["stopped"] = describe_stop(summary["stopped"])
    if summary.get("privacy"):
        rows["privacy"] = _spent(summary["privacy"])
    return format_rows(rows)


def _spent(privacy: Mapping[str, Any]) -> str:
    """Return the privacy statement of a run; an epsilon that is not finite is null in the summary."""
    low, high = privacy["noise_multiplier_min"], privacy["noise_multiplier_max"]
    noise = f"noise multiplier {low:.3g}" + ("" if low == high else f" to {high:.3g}")
    epsilon = "inf" if privacy["epsilon_max"] is None else f"up to {privacy['epsilon_max']:.3g}"
    each = privacy.get("epsilon_per_coordinate")
    if each is not None:
        epsilon = f"{each:.3g} per value sent, {epsilon} for all values of a node"
    if privacy.get("items_in_the_open"):
        noise += "; the items concerned are not protected"
    if privacy.get("choices_in_the_open"):
        noise += (
            "; the receivers and merge weights of a node depend on its items without noise, and no "
            "epsilon covers them"
        )
    rows = privacy.get("told_rows")
    if rows is not None:
        who = f"{rows['nodes']:,} clients upload about their users"
        noise += f"; in addition, epsilon up to {rows['epsilon_max']:.3g} for what {who}"
    if privacy.get("told_in_the_open"):
        noise += "; what clients upload about their users in addition is not protected"
    if privacy.get("updates_in_the_open"):
        noise += (
            "; covers what clients upload about their users, but not their updates, which are not protected"
        )
    return f"epsilon {epsilon} (delta {privacy['delta']:g}) on {privacy['nodes']:,} nodes, {noise}"


def plain_table(gap: int = 1) -> Table:
    """Return an empty table that has only a line below its headings; `gap` is the space between its columns."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, gap, 0, 0), show_edge=False, header_style="")


def activity_table(groups: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of the groups of users by activity, metrics in percent, at the last and the chosen report."""
    table = plain_table()
    chosen = [f"{short_name(name)}\nvalidated" for name in groups[0].get("validated", {})]
    last = [f"{short_name(name)}\nlast" if chosen else short_name(name) for name in groups[0]["last"]]
    table.add_column("training\ninteractions", justify="right", vertical="bottom", no_wrap=True)
    for heading in ("users", *last, *chosen):
        table.add_column(heading, justify="right", vertical="bottom", overflow="fold", min_width=5)
    for group in groups:
        low, high = group["train_min"], group["train_max"]
        values = (*group["last"].values(), *group.get("validated", {}).values())
        size = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        table.add_row(size, f"{group['users']:,}", *map(format_percent, values))
    return table


def group_table(groups: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of the groups of users, metrics in percent, at the last report."""
    table = plain_table()
    table.add_column("group", vertical="bottom", overflow="fold")
    metrics = list(groups[0].get("last", {}))
    for heading in ("users", *map(short_name, metrics)):
        table.add_column(heading, justify="right", vertical="bottom", overflow="fold", min_width=5)
    for group in groups:
        name = f"{short_name(group['by'])} {short_name(group['group'])}"
        if group.get("low") != group.get("high"):
            name += f" ({group['low']:,.6g} to {group['high']:,.6g})"
        values = group.get("last", {})
        table.add_row(name, f"{group['users']:,}", *(format_percent(values.get(each)) for each in metrics))
    return table


def attack_table(attacks: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with one row per attack of a summary, accuracies in percent."""
    table = plain_table()
    for heading in ("observer", "relevance"):
        table.add_column(heading, vertical="bottom", overflow="fold")
    numbers = ("max\nAAC", "at\nround", "best 10 %\nmin/mean", "upper\nbound", "random\nbound")
    for heading in ("beta", "K", *numbers):
        table.add_column(heading, justify="right", vertical="bottom", no_wrap=True)
    for attack in attacks:
        table.add_row(*_cells(attack))
    return table


def _cells(attack: Mapping[str, Any]) -> Iterator[str]:
    yield from (short_name(attack["observer"]), short_name(attack["relevance"]))
    yield from (f"{attack['momentum']:g}", str(attack["community_size"]))
    yield from (format_percent(attack["max_aac"]), str(attack["at_round"]))
    yield f"{format_percent(attack['best10_min'])}/{format_percent(attack['best10_mean'])}"
    yield from (format_percent(attack["upper_bound"]), format_percent(attack["random_bound"]))


def mark_later_results(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the attacks and findings of a run, and then those of later observers, which are marked by ``*``."""
    marked = {}
    for part, key in (("attacks", "observer"), ("findings", "attack")):
        later = [{**row, key: f"{row[key]} *"} for row in new.get(part) or ()]
        marked[part] = [*(old.get(part) or ()), *later]
    return marked


TIES_NAMED = 0.01
"""Fraction of communities decided by ties from which the closing table mentions ties."""


def tie_note(attacks: Sequence[Mapping[str, Any]]) -> str:
    """Return a note on communities that ties decide; an empty string if they are too few to matter."""
    shares = {attack["community_size"]: attack.get("tied_share") or 0.0 for attack in attacks}
    named = {size: share for size, share in shares.items() if share >= TIES_NAMED}
    if not named:
        return ""
    listed = ", ".join(f"{format_percent(share)} % at K = {size}" for size, share in sorted(named.items()))
    return (
        f"Ties decide part of the communities ({listed}): users that are equally near to an adversary\ncount "
        "as fractional members, and victims with equal scores are credited as in random order."
    )


FINDINGS_SHOWN = 20
"""Rows of findings in the closing table."""


def finding_tables(findings: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Return a table for each set of measures that attacks report together."""
    from gossiprec.measures.selectors import INTERVALS, ROC

    of_line: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for found in (each for each in findings if each["measure"] not in (ROC, *INTERVALS)):
        of_line.setdefault((found["attack"], str(found["labels"])), []).append(found)
    tables: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for line in of_line.values():
        tables.setdefault(tuple(found["measure"].removeprefix("group_") for found in line), []).extend(line)
    return [finding_table(each) for each in tables.values()]


def finding_table(findings: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of a summary's findings: one row per attack and labels, one column per measure.

    Results of groups of users are in the columns of all users, with their group among the labels.
    """
    table = plain_table()
    names = {found["measure"]: short_name(found["measure"].removeprefix("group_")) for found in findings}
    measures = list(dict.fromkeys(names.values()))
    lines: dict[tuple[str, str], dict[str, float | None]] = {}
    for found in findings:
        labels = ", ".join(
            f"{short_name(name)} {short_name(value)}" for name, value in found["labels"].items()
        )
        lines.setdefault((short_name(found["attack"]), labels), {})[names[found["measure"]]] = found["value"]
    for heading in ("attack", "labels"):
        table.add_column(heading, vertical="bottom", overflow="fold")
    for measure in measures:
        heading = measure.replace("_", "\n") if len(measures) > 3 else measure
        table.add_column(heading, justify="right", vertical="bottom", overflow="fold", min_width=6)
    for about, values in list(lines.items())[:FINDINGS_SHOWN]:
        table.add_row(*about, *(format_number(values.get(measure)) for measure in measures))
    left_out = len(lines) - FINDINGS_SHOWN
    if left_out > 0:
        table.caption = f"and {left_out:,} more in summary.json"
    return table


def format_number(value: float | None) -> str:
    """Return a number with four digits, or ``-`` if it is unknown."""
    return "-" if value is None else f"{value:.4g}"


ATTACK_NOTE = """\
Accuracies in %. AAC: average attack accuracy, the fraction of its K nearest users that an adversary identifies;
upper bound: fraction of these users met by the end of the run; random bound: accuracy of guessing."""


def format_notes(summary: Mapping[str, Any]) -> str:
    """Return one line per note of a run."""
    return "\n".join(format_rows({"note": one_line(text)}) for text in summary.get("notes", ()))


def format_footer(summary: Mapping[str, Any], path: Path) -> str:
    """Return the cost of a run and its path."""
    seconds = f"{summary['wall_seconds']:,.1f} s"
    compiling = summary["seconds"].get("compile", 0.0)
    if compiling >= 1:
        seconds += f" ({compiling:,.1f} s to compile kernels, once per machine)"
    rows = {
        "work": f"{summary['node_updates']:,} local epochs, {summary['node_updates_per_second']:,.0f} per "
        f"second ({short_name(summary['executor'])}, {_threads(summary['threads'])})",
        "wall time": seconds,
        "peak memory": f"{summary['peak_rss_mib']:,.0f} MiB",
        "checkpoints": _checkpoints_text(summary),
        "files": str(path),
        "report": f"gossiprec report {quote(str(path))}",
    }
    return format_rows({name: text for name, text in rows.items() if text})


def _checkpoints_text(summary: Mapping[str, Any]) -> str:
    """Return the number of checkpoints, their size and what they cost the run; empty if none was written."""
    if not (found := summary.get("checkpoints")):
        return ""
    share = summary["seconds"].get("checkpoints", 0.0) / summary["wall_seconds"]
    size = f"{found['written']}, the largest of {found['largest_mib']:,.1f} MiB"
    return f"{size}; the run waited {100 * share:.1f} % of its time"


LARGE_OBSERVER = 50
"""MiB from which on an observer has a line in the text of ``--dry-run``."""


def _format_observers(sizes: Sequence[float], observers: Sequence[Any]) -> str:
    """Return the cost of each large observer, and the settings that lower it."""
    lines = []
    for number, (size, entry) in enumerate(zip(sizes, observers, strict=True)):
        if size < LARGE_OBSERVER:
            continue
        given = type(entry.options).model_fields
        wanted = {
            "storage": "storage: float16",
            "nodes": "name fewer nodes (nodes: {fraction: 0.1})",
            "momentum": "fewer momenta",
            "reference_items": "fewer reference_items",
        }
        single = getattr(entry.options, "who", None) == "single"
        if not single:
            wanted = {"fraction": "name fewer fractions or placements", "momentum": "fewer momenta"}
        advice = ", or ".join(text for key, text in wanted.items() if key in given)
        who = f" {entry.options.who}" if "who" in given else ""
        lines.append(
            f"observers.{number} ({entry.name}{who}) {size:,.1f} MiB" + (f": {advice}" if advice else "")
        )
    return "; ".join(lines)


def format_estimate(facts: Mapping[str, Any], observers: Sequence[Any] = ()) -> str:
    """Return the text of ``--dry-run``; `observers` are those of the scenario."""
    memory = facts["memory_mib"]
    nodes = f"{facts['nodes']:,} nodes" + (" and a coordinator" if "coordinator" in facts else "")
    most = "at most " if facts["counts"] == "at most" else ""
    lasts = (
        f"{facts['virtual_time']:,.1f}"
        if facts["counts"] == "exact"
        else f"about {facts['virtual_time']:,.0f}"
    )
    about = "" if facts["data"] == "read" else "about "
    rows = {
        "scenario": f"{facts['scenario']}, seed {facts['seed']}",
        "dataset": f"{facts['dataset']}: {nodes}, {facts['items']:,} items, {about}{facts['interactions']:,} "
        "interactions",
        "events": f"{facts['wakes']:,} wakes, {most}{facts['messages']:,} messages, virtual time {lasts}",
        "work": f"{most}{facts['node_updates']:,} local epochs ({facts['executor']}, {_threads(facts['threads'])})",
        "time": _expected(facts["seconds"]),
        "memory": f"about {sum(memory.values()):,.1f} MiB of {facts['available_mib']:,.0f} MiB available: "
        + ", ".join(f"{part} {size:,.1f}" for part, size in memory.items()),
    }
    if facts["uncompiled"]:
        rows["slow"] = f"10 to 200 times as slow as compiled: there are no kernels for {facts['uncompiled']}"
    if costly := _format_observers(facts["observers_mib"], observers):
        rows["observers"] = costly
    whom = {
        "fraction_met": "nodes met by a single observer",
        "fraction_heard": "nodes from which the coordinator receives",
    }
    for share, words in whom.items():
        if facts[share] is not None:
            rows["expected"] = (
                f"{format_percent(facts[share])} % of the {words} (upper bound on attack accuracy)"
            )
    rows["run"] = f"{facts['run']} (dry run, nothing written)"
    return format_rows(rows)


def format_duration(seconds: float) -> str:
    """Return a duration in the unit that suits it."""
    for unit, length, until in (("s", 1.0, 90.0), ("min", 60.0, 5_400.0), ("h", 3_600.0, 129_600.0)):
        if seconds < until:
            return f"{seconds / length:.2g} {unit}"
    return f"{seconds / 86_400.0:,.1f} days"


NO_TIME = (
    "unknown: no comparable run has finished on this machine; first make a run with a twentieth of the rounds"
)
"""The text in place of a duration that no earlier run predicts."""


def _expected(found: Mapping[str, Any] | None) -> str:
    """Return the expected duration of a run as text."""
    if found is None:
        return NO_TIME
    low, high = format_duration(found["low"]), format_duration(found["high"])
    return f"about {format_duration(found['seconds'])} ({low} to {high}), {found['by']}"


def _threads(number: int) -> str:
    return f"{number} thread" if number == 1 else f"{number} threads"
