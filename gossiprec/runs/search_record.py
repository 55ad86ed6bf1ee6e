"""``search.log``: the trials of a search, which Optuna keeps in the folder of the study.

Optuna's study has the user attribute `objective`. Its trials have `labels` (the value of each axis), `results` (the
means over seeds of the objective and of the measures with bounds), and `problem` if they failed.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gossiprec.base.errors import LogError, ResourceError

if TYPE_CHECKING:
    import optuna

SEARCH = "search.log"
STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
"""The state of a trial that has ended, by Optuna's name."""


def open_storage(folder: Path) -> optuna.storages.JournalStorage:
    """Return Optuna's storage in the folder of a study.

    Raises
    ------
    ResourceError
        If Optuna is not installed.
    """
    try:
        import optuna
        from optuna.storages import JournalStorage, journal
    except ImportError:
        raise ResourceError(
            "a search needs Optuna, which is not installed; install it with: pip install 'gossiprec[search]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return JournalStorage(journal.JournalFileBackend(str(folder / SEARCH)))


def read_search(folder: Path) -> optuna.Study | None:
    """Return the search in the folder of a study, or None if there is none.

    Raises
    ------
    LogError
        If the file is damaged.
    ResourceError
        If Optuna is not installed.
    """
    if not (folder / SEARCH).exists():
        return None
    try:
        storage = open_storage(folder)
        import optuna

        return optuna.load_study(study_name=None, storage=storage)
    except (AssertionError, LookupError, TypeError, ValueError) as error:
        raise LogError(
            f"{folder / SEARCH}: found {error!r}; expected the trials of a search; delete it, and run the search again"
        ) from None


def best_trial(search: optuna.Study) -> optuna.trial.FrozenTrial | None:
    """Return the complete trial with the best objective among those that meet all bounds, or None."""
    with suppress(ValueError):
        return search.best_trial
    return None


def describe_trial(trial: optuna.trial.FrozenTrial) -> str:
    """Return a trial as text: its number, the value of each axis, its results, and its state if it is not complete."""
    about, state = trial.user_attrs, STATES[trial.state.name]
    values = ", ".join(f"{name}={value}" for name, value in about["labels"].items())
    shown = [f"{name} {value:.4g}" for name, value in about.get("results", {}).items()]
    ended = [] if state == "complete" else [f"{state}: {about['problem']}" if state == "failed" else state]
    return f"trial {trial.number} ({values}): {'; '.join(shown + ended)}"
