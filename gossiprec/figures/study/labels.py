"""Labels of a study's measures for axes and panel titles, with their units.

This is the only table of such labels. A measure that it does not hold, for example of a plug-in attack, keeps its
name.
"""

from __future__ import annotations

import re

from gossiprec.measures.selectors import BESIDE, OF_ATTACKS, VALIDATED, split_baseline_name

WORDS = {
    "max_aac": "highest attack accuracy",
    "last_aac": "last attack accuracy",
    "at_round": "round of the highest attack accuracy",
    "best10_min": "minimum accuracy of the best 10 %",
    "best10_mean": "mean accuracy of the best 10 %",
    "upper_bound": "fraction of the community met",
    "random_bound": "attack accuracy of random guessing",
    "exposure_defended": "exposure of nodes with a defence",
    "exposure_undefended": "exposure of nodes without a defence",
    "tied_share": "fraction of the communities decided by ties",
    "mia_accuracy": "accuracy of membership inference",
    "mia_precision": "precision of membership inference",
    "mia_recall": "recall of membership inference",
    "nodes": "nodes",
    "items": "items",
    "interactions": "interactions",
    "wakes": "wakes",
    "messages": "messages sent",
    "node_updates": "local epochs",
    "virtual_time": "virtual time (mean wake periods)",
    "bytes.sent": "bytes sent",
    "bytes.up": "bytes to the coordinator",
    "bytes.down": "bytes from the coordinator",
    "rounds.mean_answers": "mean answers per round",
    "rounds.late": "late answers",
    "rounds.given_up": "abandoned client requests",
    "privacy.nodes": "nodes with a privacy budget",
    "privacy.delta": "delta",
    "privacy.epsilon_max": "maximum epsilon",
    "privacy.epsilon_mean": "mean epsilon",
    "privacy.noise_multiplier_min": "minimum noise multiplier",
    "privacy.noise_multiplier_max": "maximum noise multiplier",
    "privacy.epsilon_per_coordinate": "epsilon per coordinate",
    "privacy.coordinates_max": "maximum number of coordinates sent",
    "privacy.told_rows.epsilon_max": "maximum epsilon of uploaded user embeddings",
    "privacy.told_rows.epsilon_mean": "mean epsilon of uploaded user embeddings",
    "contribution.epsilon_item": "epsilon per item",
    "contribution.epsilon_set_mean": "mean epsilon per contributed set",
    "contribution.epsilon_set_max": "maximum epsilon per contributed set",
    "contribution.kept": "fraction of contributed items that are the user's own",
    "contribution.similarity": "similarity between contributed items and the user's own items",
    "contribution.leaks.cda": "community accuracy from contributed sets",
    "contribution.leaks.cda_random": "community accuracy of random guessing",
    "contribution.leaks.mia_auc": "membership AUC from contributed sets",
    "contribution.leaks.mia_auc_popularity": "membership AUC from popularity",
    "contribution.leaks.auxiliary_cda": "community accuracy from the auxiliary model",
    "contribution.leaks.auxiliary_mia_auc": "membership AUC from the auxiliary model",
    "clusters.times": "number of clusterings",
    "clusters.unknown": "clients without a cluster",
    "told_vectors.received_mean": "mean number of vectors sent to a client",
    "told_vectors.received_max": "maximum number of vectors sent to a client",
    "told_vectors.leaks.exact.cda": "community accuracy from exact vectors",
    **{
        f"told_vectors.leaks.{how}.{name}{of}": f"{words}, {how}{said}"
        for how in ("nearest", "likeliest", "random")
        for name, words in {
            "reidentified": "users re-identified from uploaded vectors",
            "own_first": "users ranked first by uploaded vectors",
            "own_rank": "mean relative rank of the true user by uploaded vectors",
            "cda": "community accuracy from uploaded vectors",
        }.items()
        for of, said in {"": "", "_of_means": ", of means"}.items()
    },
}
"""Labels of measures by name; ranking metrics get theirs from :data:`METRICS`."""

METRICS = {"hr": "HR", "ndcg": "NDCG", "mrr": "MRR", "er": "ER", "f1": "F1"}
"""Metrics that are written as abbreviations."""

SHARES = {
    *(name for name in WORDS if name.startswith("told_vectors.leaks.") and "own_rank" not in name),
    "mia_accuracy", "mia_precision", "mia_recall",
    "contribution.kept", "contribution.leaks.cda", "contribution.leaks.cda_random",
    "contribution.leaks.auxiliary_cda",
}  # fmt: skip
"""Measures that pictures show in percent, in addition to ranking metrics and attack measures."""

_OBSERVER = re.compile(r"(?P<who>single|coalition)(?P<share>-[\d.e+-]+%|-\d+-nodes)?(?P<place>-.+)?")
_BESIDE = dict(zip((*BESIDE, VALIDATED), ("by popularity", "in random order", "as validated"), strict=True))


def is_share(name: str) -> bool:
    """Return whether a measure is a fraction that pictures show in percent."""
    return (name in OF_ATTACKS and name != "at_round") or "@" in name or name in SHARES


def measure_label(name: str) -> str:
    """Return the label of a measure, without the unit if the unit is percent."""
    if "@" not in name:
        return WORDS.get(name, name.replace("_", " "))
    metric, order = split_baseline_name(name)
    said = _metric(metric)
    return f"{said}, {_BESIDE[order]}" if order else said


def observer_label(name: str) -> str:
    """Return the label of an observer, such as ``coalition of 10 %, degree`` for ``coalition-10%-degree``."""
    told = _OBSERVER.fullmatch(name)
    if told is None:
        return name
    share = (told["share"] or "")[1:].replace("%", " %")
    if told["who"] == "single":
        return "single nodes" + (f", {share.removesuffix('-nodes')} of them" if share else "")
    place = f", {told['place'][1:]}" if told["place"] else ""
    return "coalition" + (f" of {share.replace('-nodes', ' nodes')}" if share else "") + place


def rule_label(relevance: str) -> str:
    """Return the label of an attack's ranking rule, such as ``standardized relevance``."""
    told = re.fullmatch(r"mia-(?P<threshold>.+)", relevance)
    if told:
        return f"entropy MIA, threshold {told['threshold']}"
    return "AIA by gradients" if relevance == "aia" else f"{relevance} relevance"


def _metric(name: str) -> str:
    """Return ``NDCG@20 of all items`` for ``full_ndcg@20``."""
    about = ""
    rest = name.removeprefix("val_")
    if rest != name:
        about = ", validation"
    kept = rest.removeprefix("full_")
    if kept != rest:
        about = f" of all items{about}"
    measure, at, k = kept.partition("@")
    return f"{METRICS.get(measure, measure.replace('_', ' '))}{at}{k}{about}"
