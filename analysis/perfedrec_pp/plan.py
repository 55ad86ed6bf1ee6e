"""The plan of the study: settings, rows, methods, data, and the study of some experiments."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from analysis.papers.comparison import Comparison, PublishedTables, belongs_to, parts_by_setting
from analysis.papers.study_file import PaperStudyFile, Scale, find_dataset, tiny_data
from gossiprec.study.load import LoadedStudy

STUDY = PaperStudyFile(Path(__file__).with_name("study.yaml"))

SETTINGS = {
    "paper": "the text: learning rate 0.01, answers weighted by interactions (eq. 11), noise at clients, models of "
    "clusters that continue from round to round",
    "scaled": "our reading of it, which learns within 300 rounds: Adam 0.05 at clients, the unweighted mean of their "
    "answers times 5.12",
    "authors_code": "the published code: Adam's moments shared over answers, users' rows averaged, noise at the "
    "coordinator and no cluster models, but not its training on the graph of all users (docs/perfedrec_pp_study.md)",
}
CENTRAL = {"MF": "mf", "LightGCN": "lightgcn", "SGL": "sgl", "SimGCL": "simgcl", "xSimGCL": "xsimgcl"}
CENTRAL_SETTING = "paper"
"""The only setting in which centralised rows are run, since they have no loop of clients."""
FEDERATED = {"FedMF": "fedmf", "FedGNN": "fedgnn", "PerFedRec": "perfedrec", "PerFedRec++": "perfedrec-pp"}
WHOLE, GLOBAL = "PerFedRec++", "no personalisation"
ABLATIONS = {"no pre-training": "perfedrec", GLOBAL: "global", "no clustering": "no-clusters"}
"""Method by the part that is left out; without pre-training it is PerFedRec, as published."""
TABLE_ROWS = {"table4": {**CENTRAL, **FEDERATED}, "table5": {**ABLATIONS, WHOLE: FEDERATED[WHOLE]}}
SWEEPS: dict[str, dict[float, str]] = {
    "noise": {0: "noise-0", 0.01: "noise-0.01", 0.1: "perfedrec-pp", 0.3: "noise-0.3"},
    "pretraining": {
        0: "perfedrec",
        1: "pretraining-1",
        3: "pretraining-3",
        5: "perfedrec-pp",
        10: "pretraining-10",
    },
    "clusters": {2: "clusters-2", 5: "perfedrec-pp", 10: "clusters-10", 20: "clusters-20"},
}
"""Method by option and value, in setting `scaled`."""
VIEWS = {"noise": "perfedrec-pp", "mix": "views-mix"}
"""Views of pre-training: of the published code, and of the paper's equations."""
COUNTERPARTS = {"FedMF": "MF", "FedGNN": "LightGCN", "PerFedRec": "LightGCN", "PerFedRec++": "LightGCN"}
"""The centralised row with the same model, by federated row."""
PAPER = Comparison(
    title="PerFedRec++",
    settings=SETTINGS,
    rows=TABLE_ROWS,
    main="table4",
    reference="FedGNN",
    published=PublishedTables(Path(__file__).with_name("published.yaml")),
    page="docs/perfedrec_pp_study.md",
    apart=tuple(CENTRAL.values()),
)


def experiments() -> dict[str, dict[str, Any]]:
    """Return the overrides of each experiment, in the order in which they are run: important ones first."""
    return STUDY.experiments


@cache
def selectable_names() -> dict[str, tuple[str, ...]]:
    """Return the experiments of each name for ``--only``: tables, figures, settings, and pairs joined by ``-``."""
    parts = {
        setting: {
            "table4": tuple(TABLE_ROWS["table4"].values()),
            "central": tuple(CENTRAL.values()),
            "federated": tuple(FEDERATED.values()),
            "table5": tuple(TABLE_ROWS["table5"].values()),
            "deciles": (FEDERATED[WHOLE], ABLATIONS[GLOBAL]),
            **{option: tuple(methods.values()) for option, methods in SWEEPS.items()},
            "views": tuple(VIEWS.values()),
        }
        for setting in SETTINGS
    }
    there = experiments()
    found = parts_by_setting(parts, there)
    found |= {setting: tuple(name for name in there if belongs_to(name, setting)) for setting in SETTINGS}
    return {**found, **{name: (name,) for name in there}}


DATA = {"yelp": ("yelp",)}
"""Names under which the data set may be in the folder of ``--data``."""
FILES = {"train": "train.txt", "validation": "valid.txt", "test": "test.txt"}


def dataset_name(_name: str) -> str:
    """Return the data set of an experiment."""
    return "yelp"


def paper_study(
    names: Iterable[str], *, data: Path | None, scale: Scale = "full", **length: Any
) -> LoadedStudy:
    """Return the study of some experiments.

    Parameters
    ----------
    names : iterable of str
        Experiments with available data.
    data : Path, optional
        The folder of the data set; not needed at the tiny scale.
    scale : {'full', 'tiny'}
    **length
        ``seeds`` and ``epochs`` of :meth:`analysis.papers.study_file.PaperStudyFile.part`.
    """
    values = {name: STUDY.experiments[name] for name in names}
    if scale == "tiny":
        return STUDY.part(values, base=_tiny(), sets={"model.dim": 8}, scale=scale, **length)
    place = find_dataset(data or Path(), DATA["yelp"])
    assert place is not None, "its data are there"
    here = {f"dataset.{key}": str((place / file).resolve()) for key, file in FILES.items()}
    return STUDY.part(values, sets=here, scale=scale, **length)


def _tiny() -> dict[str, Any]:
    """Return the scenario on small synthetic data, with clusters from the first round on."""
    base = STUDY.told["base"]
    split = {"name": "leave_last_k", "test": 1, "validation": 1}
    return {
        **base,
        "dataset": {**tiny_data(60), "split": split},
        "protocol": {**base["protocol"], "participation": 0.5},
        "recommender": {**base["recommender"], "clusters": {"number": 5, "first": 1, "every": 1}},
        "evaluate": {**base["evaluate"], "every": 1},
    }
