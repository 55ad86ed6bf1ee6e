"""What a study of a paper compares: the rows of its tables by method, in named settings, beside the print."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from analysis.papers.published import PrintedNumber, PublishedTables

AT_20 = {"Recall@20": "recall@20", "NDCG@20": "full_ndcg@20"}
"""The columns of most papers, as runs call them."""
LEVELS = ("popularity", "random")
"""Orders that nobody learns, measured beside every run."""
LAST, BEST = "last epoch", "best validation epoch"


@dataclass(frozen=True)
class Comparison:
    """A paper's tables and how they are redrawn. An experiment is called by its setting and its method.

    Attributes
    ----------
    title : str
        What the paper is called.
    settings : mapping of str to str
        In what the tables are compared, in this order, each in words.
    rows : mapping
        Table -> row -> method; rows that are not printed are further readings of those that are.
    main : str
        The table that names the methods; the others take them up.
    reference : str
        The row of it whose printed value in the leading column says where, on the way up, the print may have been
        taken.
    published : Published
    page : str
        The page that explains the study.
    unprinted : tuple of str
        Settings on data of which no print is at hand.
    apart : tuple of str
        Methods whose epochs are not those of the others: they are compared at their best validation epoch alone.
    metrics : mapping of str to str
        The paper's columns, as runs call them.
    leading : str
        The column by which epochs are chosen: where the reference comes to its print, and which one is the best by
        validation items.
    tables : mapping of str to tuple of str
        Setting -> its tables, the one that names the methods first; all of `rows` if it is not named.
    data : mapping of str to str
        Row of the table of the data -> the setting that has these data; any that is judged for other rows.
    unit : str
        What reports are numbered by, but for methods that are apart.
    """

    title: str
    settings: Mapping[str, str]
    rows: Mapping[str, Mapping[str, str]]
    main: str
    reference: str
    published: PublishedTables
    page: str
    unprinted: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    metrics: Mapping[str, str] = field(default_factory=lambda: AT_20)
    leading: str = "Recall@20"
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    unit: str = "epoch"

    @property
    def validation(self) -> str:
        """What chooses a run's best epoch, where it was measured."""
        return f"val_{self.metrics[self.leading]}"

    @property
    def at_print(self) -> str:
        """The look at the epoch where the reference comes to its printed value."""
        return f"where {self.reference} passes its print"

    @property
    def looks(self) -> tuple[str, ...]:
        """In which epochs methods are compared (:mod:`analysis.papers.curves`)."""
        return LAST, self.at_print, BEST

    def tables_in(self, setting: str) -> tuple[str, ...]:
        """Return the tables that are redrawn in a setting."""
        return self.tables.get(setting, tuple(self.rows))

    def main_in(self, setting: str) -> str:
        """Return the table that names the methods of a setting."""
        return self.tables_in(setting)[0] if setting in self.tables else self.main

    def reference_print(self, setting: str) -> float:
        """Return the printed value of the reference in the leading column."""
        return self.published.value_of(self.main_in(setting), self.reference, self.leading)

    @property
    def judged(self) -> tuple[str, ...]:
        """The settings that have a print to be compared with."""
        return tuple(setting for setting in self.settings if setting not in self.unprinted)

    def printed_in(self, setting: str, table: str) -> dict[tuple[str, str], PrintedNumber]:
        """Return what is printed of the data of a setting, by row and column of a table."""
        is_there = setting not in self.unprinted and table in self.tables_in(setting)
        return self.published.of_table(table) if is_there else {}

    def has_look(self, method: str, look: str) -> bool:
        """Say whether a method is compared in a look."""
        return look == BEST or method not in self.apart

    def is_apart(self, experiment: str) -> bool:
        """Say whether the epochs of an experiment are not those of the others."""
        setting = self.setting_of(experiment)
        return any(experiment == experiment_name(setting, method) for method in self.apart)

    def unit_of(self, experiment: str) -> str:
        """Return what reports of an experiment are numbered by."""
        return "epoch" if self.is_apart(experiment) else self.unit

    def setting_of(self, experiment: str) -> str:
        """Return the setting of an experiment."""
        return next(setting for setting in self.settings if belongs_to(experiment, setting))


def experiment_name(setting: str, method: str) -> str:
    """Return what an experiment is called."""
    return f"{setting}-{method}"


def table_title(table: str) -> str:
    """Return what a table is called in a text: ``Table 2`` for ``table2``."""
    return table.replace("table", "Table ") if table.startswith("table") else table.capitalize()


def belongs_to(experiment: str, setting: str) -> bool:
    """Say whether an experiment is of a setting."""
    return experiment.startswith(f"{setting}-")


def parts_by_setting(
    parts: Mapping[str, Mapping[str, Iterable[str]]], experiments: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Return the experiments of tables and figures, in all settings and in each in which all are there.

    Parameters
    ----------
    parts : mapping
        Setting -> table or figure -> its methods.
    experiments : collection of str
        All that there are, in order.
    """
    found: dict[str, tuple[str, ...]] = {}
    for part in dict.fromkeys(part for own in parts.values() for part in own):
        whole: dict[str, tuple[str, ...]] = {}
        for setting, own in parts.items():
            names = dict.fromkeys(experiment_name(setting, method) for method in own.get(part, ()))
            if names and names.keys() <= set(experiments):
                whole[f"{part}-{setting}"] = tuple(names)
        wanted = {name for own in whole.values() for name in own}
        found[part] = tuple(name for name in experiments if name in wanted)
        found |= whole
    return found
