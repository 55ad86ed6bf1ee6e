"""What the measures of a study are called along axes and above panels: in words, with their units.

The one table of such names. A measure that it does not hold, one of somebody's own attack, is called as it is written.
"""

from __future__ import annotations

import re

from gossiprec.measures.names import BESIDE, OF_ATTACKS, VALIDATED, split_beside

WORDS = {
    "max_aac": "highest attack accuracy",
    "last_aac": "last attack accuracy",
    "at_round": "round of the highest attack accuracy",
    "best10_min": "least accuracy of the best tenth",
    "best10_mean": "mean accuracy of the best tenth",
    "upper_bound": "met of the community",
    "random_bound": "attack accuracy by guessing",
    "exposure_defended": "found of nodes that defend",
    "exposure_undefended": "found of nodes that do not defend",
    "tied_share": "of the communities, decided by ties",
    "mia_accuracy": "membership guesses that are right",
    "mia_precision": "precision of membership guesses",
    "mia_recall": "recall of membership guesses",
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
    "rounds.mean_answers": "answers a round, mean",
    "rounds.late": "late answers",
    "rounds.given_up": "rounds given up",
    "privacy.nodes": "nodes with a privacy budget",
    "privacy.delta": "delta",
    "privacy.epsilon_max": "epsilon, highest",
    "privacy.epsilon_mean": "epsilon, mean",
    "privacy.noise_multiplier_min": "noise multiplier, least",
    "privacy.noise_multiplier_max": "noise multiplier, highest",
    "privacy.epsilon_per_coordinate": "epsilon of a coordinate",
    "privacy.coordinates_max": "coordinates sent, most",
    "privacy.told_rows.epsilon_max": "epsilon of told rows, highest",
    "privacy.told_rows.epsilon_mean": "epsilon of told rows, mean",
    "contribution.epsilon_item": "epsilon of an item",
    "contribution.epsilon_set_mean": "epsilon of a contributed set, mean",
    "contribution.epsilon_set_max": "epsilon of a contributed set, highest",
    "contribution.kept": "contributed items that are the user's own",
    "contribution.similarity": "similarity of contributed items to a user's own",
    "contribution.leaks.cda": "found of a community by contributed sets",
    "contribution.leaks.cda_random": "found of a community by guessing",
    "contribution.leaks.mia_auc": "AUC of who has what, by contributed sets",
    "contribution.leaks.mia_auc_popularity": "AUC of who has what, by popularity",
    "contribution.leaks.auxiliary_cda": "found of a community by the auxiliary model",
    "contribution.leaks.auxiliary_mia_auc": "AUC of who has what, by the auxiliary model",
    "clusters.times": "times of clustering",
    "clusters.unknown": "clients without a cluster",
    "told_vectors.received_mean": "vectors told to a client, mean",
    "told_vectors.received_max": "vectors told to a client, most",
    "told_vectors.leaks.exact.cda": "found of a community by exact vectors",
    **{
        f"told_vectors.leaks.{how}.{name}{of}": f"{words}, {how}{said}"
        for how in ("nearest", "likeliest", "random")
        for name, words in {
            "reidentified": "users who are found again by told vectors",
            "own_first": "users who are found first by told vectors",
            "own_rank": "rank of a user by told vectors",
            "cda": "found of a community by told vectors",
        }.items()
        for of, said in {"": "", "_of_means": ", of means"}.items()
    },
}
"""Of measures by name; metrics of recommendations are called as they are written, by :data:`METRICS`."""

METRICS = {"hr": "HR", "ndcg": "NDCG", "mrr": "MRR", "er": "ER", "f1": "F1"}
"""Metrics that are written as abbreviations."""

SHARES = {
    *(name for name in WORDS if name.startswith("told_vectors.leaks.") and "own_rank" not in name),
    "mia_accuracy", "mia_precision", "mia_recall",
    "contribution.kept", "contribution.leaks.cda", "contribution.leaks.cda_random",
    "contribution.leaks.auxiliary_cda",
}  # fmt: skip
"""Fractions that pictures show in percent, beside metrics and those of attacks."""

_OBSERVER = re.compile(r"(?P<who>single|coalition)(?P<share>-[\d.e+-]+%|-\d+-nodes)?(?P<place>-.+)?")
_BESIDE = dict(zip((*BESIDE, VALIDATED), ("by popularity", "in random order", "as validated"), strict=True))


def is_share(name: str) -> bool:
    """Say whether a measure is a fraction that pictures show in percent."""
    return (name in OF_ATTACKS and name != "at_round") or "@" in name or name in SHARES


def in_words(name: str) -> str:
    """Return what a measure is called, without its unit if that is percent."""
    if "@" not in name:
        return WORDS.get(name, name.replace("_", " "))
    metric, order = split_beside(name)
    said = _metric(metric)
    return f"{said}, {_BESIDE[order]}" if order else said


def observer_in_words(name: str) -> str:
    """Return who observes, such as ``coalition of 10 %, degree`` for ``coalition-10%-degree``."""
    told = _OBSERVER.fullmatch(name)
    if told is None:
        return name
    share = (told["share"] or "")[1:].replace("%", " %")
    if told["who"] == "single":
        return "single nodes" + (f", {share.removesuffix('-nodes')} of them" if share else "")
    place = f", {told['place'][1:]}" if told["place"] else ""
    return "coalition" + (f" of {share.replace('-nodes', ' nodes')}" if share else "") + place


def rule_in_words(relevance: str) -> str:
    """Return how an attack ranks users, such as ``standardized relevance``."""
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
