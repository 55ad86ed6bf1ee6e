"""The plan of the study: settings, rows, methods, data, and the study of some experiments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from analysis.papers.comparison import Comparison, PublishedTables, belongs_to, parts_by_setting
from analysis.papers.study_file import PaperStudyFile, Scale, find_dataset, tiny_data
from gossiprec.study.load import LoadedStudy

TINY_ROUNDS = 4
"""Rounds of an epoch at the tiny scale, each of a quarter of the clients."""


def rounds_per_epoch(sets: Mapping[str, Any], scale: Scale) -> int:
    """Return the number of rounds in which an experiment selects as many clients as there are."""
    if scale == "tiny":
        return TINY_ROUNDS
    own = STUDY.told["base"]["protocol"]["participation"]
    return round(1 / float(sets.get("protocol.participation", own)))


STUDY = PaperStudyFile(Path(__file__).with_name("study.yaml"), rounds_per_epoch)

SETTINGS = {
    "beauty": "Amazon Beauty as S3-Rec has it, 22,363 users and 12,101 items, where the paper has 40,226 and 54,542",
    "ml-1m": "MovieLens-1M, ratings of 4 and 5 alone, whose times are all known, of 6,035 users who have three of them",
}
MODELS = {"GRU4Rec": "gru4rec", "NCF": "ncf", "BERT4Rec": "bert4rec"}
WAYS = {"Fed": "fed", "BIL": "bil", "FedCL": "fedcl"}
WHOLE = "GRU4Rec+FedCL"
SWEPT = "gru4rec-fedcl"
"""The method with swept options, on Beauty."""


def _rows() -> dict[str, str]:
    """Return the methods by row, in the order of the paper."""
    found = {}
    for model in ("NCF", "GRU4Rec", "BERT4Rec"):
        found[model] = MODELS[model]
        found |= {f"{model}+{words}": f"{MODELS[model]}-{way}" for words, way in WAYS.items()}
    return found


ABLATIONS = {
    "no semi-hard negatives": "no-semi-hard",
    "no local negatives": "no-local",
    "no in-batch negatives": "no-in-batch",
    "the hardest of the cluster": "hardest",
    "no clusters": "no-clusters",
    "K-means": "k-means",
}
"""Method by the part that is left out or replaced."""
TABLE_ROWS = {"table2": _rows(), "ablations": {WHOLE: SWEPT, **ABLATIONS}, "table3": _rows()}
SWEEPS: dict[str, dict[float, str]] = {
    "clusters": {5: "clusters-5", 10: "clusters-10", 25: SWEPT, 50: "clusters-50", 100: "clusters-100"},
    "share": {5: "share-5", 10: "share-10", 25: SWEPT, 50: "share-50", 100: "share-100"},
    "semi-hard": {
        0: "no-semi-hard",
        5: "semi-hard-5",
        10: "semi-hard-10",
        20: SWEPT,
        50: "semi-hard-50",
    },
    "local": {0: "no-local", 5: "local-5", 10: SWEPT, 20: "local-20", 50: "local-50"},
}
"""Method by option of FedCL and its value, for GRU4Rec on Beauty."""
BEST_VALUES: dict[str, float] = {"clusters": 25, "share": 25, "semi-hard": 20, "local": 10}
"""The best values according to the paper."""
EPSILON: dict[float, str] = {
    1: "epsilon-1",
    4: SWEPT,
    16: "epsilon-16",
    64: "epsilon-64",
    256: "epsilon-256",
    inf: "no-noise",
}
"""Method by budget of a user upload."""
SPREAD: dict[float, str] = {
    0: "spread-0",
    0.001: "spread-0.001",
    0.01: "spread-0.01",
    0.1: "gru4rec-bil",
    1: "spread-1",
}
"""Method by weight of the term of BIL that spreads items out."""
FORMER = (
    "former",
    "former-fed",
    "former-bil",
    "former-fedcl",
    "former-no-noise",
    "hidden-128",
    "drawn-per-update",
)
"""Our earlier reading of the paper: hidden size 128, not 64, and K local negatives per update, not per positive."""
PAPER = Comparison(
    title="FedCL",
    settings=SETTINGS,
    rows=TABLE_ROWS,
    main="table2",
    reference="GRU4Rec+Fed",
    published=PublishedTables(Path(__file__).with_name("published.yaml")),
    page="docs/fedcl_study.md",
    apart=(*MODELS.values(), "former", "gru4rec-sampled"),
    metrics={"HR@5": "hit@5", "HR@10": "hit@10", "nDCG@5": "full_ndcg@5", "nDCG@10": "full_ndcg@10"},
    leading="HR@10",
    tables={"beauty": ("table2", "ablations"), "ml-1m": ("table3",)},
    data={"Beauty": "beauty", "ML-1M": "ml-1m"},
    unit="round",
)


def experiments() -> dict[str, dict[str, Any]]:
    """Return the overrides of each experiment, in the order in which they are run: important ones first."""
    return STUDY.experiments


def methods_with_uploads(setting: str) -> dict[str, str]:
    """Return the methods of a setting in which clients upload vectors, by label."""
    found = {f"{model}+FedCL": f"{own}-fedcl" for model, own in MODELS.items()}
    if setting == "beauty":
        found |= {f"{WHOLE}, {_budget(value)}": own for value, own in EPSILON.items() if own != SWEPT}
    return found


def _budget(epsilon: float) -> str:
    return "no noise" if epsilon == inf else f"epsilon {epsilon:g}"


@cache
def selectable_names() -> dict[str, tuple[str, ...]]:
    """Return the experiments of each name for ``--only``: tables, models, sweeps, settings, pairs joined by ``-``."""
    parts = {
        setting: {
            **{table: tuple(TABLE_ROWS[table].values()) for table in PAPER.tables_in(setting)},
            "central": tuple(MODELS.values()),
            "federated": tuple(f"{model}-{way}" for model in MODELS.values() for way in WAYS.values()),
            **{model: (model, *(f"{model}-{way}" for way in WAYS.values())) for model in MODELS.values()},
        }
        for setting in SETTINGS
    }
    parts["beauty"]["former"] = FORMER
    sweeps = {**SWEEPS, "epsilon": EPSILON, "spread": SPREAD}
    parts["beauty"] |= {option: tuple(methods.values()) for option, methods in sweeps.items()}
    there = experiments()
    found = parts_by_setting(parts, there)
    found |= {setting: tuple(name for name in there if belongs_to(name, setting)) for setting in SETTINGS}
    return {**found, **{name: (name,) for name in there}}


DATA = {
    "beauty": ("amazon/Beauty.txt.gz", "amazon/Beauty.txt"),
    "movielens-1m": ("ml-1m", "ml-1m.zip"),
}
"""Names under which each data set may be in the folder of ``--data``."""
LONG = ("dataset", "protocol.participation", "protocol.rounds", "evaluate.every")
"""Keys that experiments set according to the size of their data."""


def dataset_name(name: str) -> str:
    """Return the data set of an experiment."""
    return "beauty" if PAPER.setting_of(name) == "beauty" else "movielens-1m"


def paper_study(
    names: Iterable[str], *, data: Path | None, scale: Scale = "full", **length: Any
) -> LoadedStudy:
    """Return the study of some experiments.

    Parameters
    ----------
    names : iterable of str
        Experiments with available data.
    data : Path, optional
        The folder of the data sets; not needed at the tiny scale.
    scale : {'full', 'tiny'}
    **length
        ``seeds`` and ``epochs`` of :meth:`analysis.papers.study_file.PaperStudyFile.part`.
    """
    if scale == "tiny":
        return STUDY.part({name: _small(name) for name in names}, base=_tiny(), scale=scale, **length)
    return STUDY.part({name: _here(name, data or Path()) for name in names}, scale=scale, **length)


def _here(name: str, data: Path) -> dict[str, Any]:
    """Return the overrides of an experiment on this machine."""
    place = find_dataset(data, DATA[dataset_name(name)])
    assert place is not None, "its data are there"
    return {**STUDY.experiments[name], "dataset.path": str(place.resolve())}


def _tiny() -> dict[str, Any]:
    """Return the scenario on small synthetic data, with clusters from the second round on."""
    base = STUDY.told["base"]
    return {
        **base,
        "dataset": _data(60),
        "recommender": {**base["recommender"], "clusters": 5, "leaks": 10},
        "protocol": {**base["protocol"], "participation": 1 / TINY_ROUNDS},
        "evaluate": {**base["evaluate"], "every": TINY_ROUNDS},
    }


def _small(name: str) -> dict[str, Any]:
    """Return the overrides of an experiment at the tiny scale: other data, and a fifth of the clusters."""
    sets = {key: value for key, value in STUDY.experiments[name].items() if key not in LONG}
    sets |= {"evaluate.every": 1} if name in _CENTRAL else {}
    sets |= {"dataset": _data(50)} if PAPER.setting_of(name) == "ml-1m" else {}
    if "recommender.clusters" in sets:
        sets["recommender.clusters"] //= 5
    if "model" in sets:
        sets["model"] = {**sets["model"], "dim": 8}
    if "training" in sets:
        sets["training"] = {**sets["training"], "batch_size": 16}
    return sets


def _data(n_users: int) -> dict[str, Any]:
    return {**tiny_data(n_users), "split": {"name": "leave_last_k", "test": 1, "validation": 1}}


_CENTRAL = frozenset(name for name in STUDY.experiments if PAPER.is_apart(name))
