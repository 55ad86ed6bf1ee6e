"""Geometry of item vectors in the versions that runs keep (`evaluate.keep_version`).

References
----------
T. Wang, P. Isola, "Understanding contrastive representation learning through alignment and uniformity on the
hypersphere", ICML 2020: the logarithm of the mean Gaussian potential of pairs. CL4FedRec paper (arXiv 2403.20107),
eq. 12: the norm of the correlations between dimensions, over their number; its Fig. 2 calls the 100 items with most
interactions popular.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from analysis.papers.comparison import Comparison, experiment_name, read_by_seed
from analysis.papers.document import DocumentBlock, Heading, ParagraphBlock, make_grid
from analysis.papers.verdict import PerSeed, Runs
from gossiprec.base.arrays import F32, F64, I64
from gossiprec.runs import Run

N_HOT = 100
MOST = 1000
"""Vectors per group that are compared with one another, evenly spaced by popularity if there are more."""


POPULAR, OTHERS, BETWEEN = "popular", "others", "popular with others"


def split_by_popularity(popularity: I64) -> dict[str, I64]:
    """Return the popular items and the others, each by descending popularity; ties by ascending id."""
    order = np.argsort(-popularity, kind="stable").astype(np.int64)
    n_hot = min(N_HOT, len(order) // 2)
    return {POPULAR: order[:n_hot], OTHERS: order[n_hot:]}


def cosines_by_group(items: F32, popularity: I64) -> dict[str, F64]:
    """Return the cosines of pairs of items: both popular, neither, and one of each.

    Parameters
    ----------
    items : ndarray, shape (n_items, width)
    popularity : ndarray, shape (n_items,)
    """
    popular, others = (
        items[evenly_spaced(own)].astype(np.float64) for own in split_by_popularity(popularity).values()
    )
    return {
        POPULAR: pairwise_cosines(popular),
        OTHERS: pairwise_cosines(others),
        BETWEEN: pairwise_cosines(popular, others),
    }


def uniformity_numbers(items: F32, popularity: I64) -> dict[str, float]:
    """Return the uniformity of popular and other items, the mean cosine between them, and eq. 12 of all items."""
    found = cosines_by_group(items, popularity)
    return {
        POPULAR: uniformity(found[POPULAR]),
        OTHERS: uniformity(found[OTHERS]),
        BETWEEN: float(found[BETWEEN].mean()),
        "correlation": correlation_norm(items.astype(np.float64)),
    }


def evenly_spaced(items: I64) -> I64:
    """Return up to `MOST` of the items, evenly spaced."""
    at = np.linspace(0, len(items) - 1, min(MOST, len(items))).round().astype(np.int64)
    found: I64 = items[at]
    return found


def pairwise_cosines(vectors: F64, others: F64 | None = None) -> F64:
    """Return the cosines of all pairs of different vectors, or of all pairs across two groups.

    Parameters
    ----------
    vectors : ndarray, shape (n, dim)
    others : ndarray, shape (m, dim), optional
    """
    one = _unit(vectors)
    if others is None:
        return np.asarray((one @ one.T)[np.triu_indices(len(one), 1)])
    return np.asarray(one @ _unit(others).T).ravel()


def uniformity(of_pairs: F64) -> float:
    """Return log mean exp(-2 |x - y|^2) over pairs, given their cosines: 0 if all are equal, lower if spread."""
    return float(np.log(np.mean(np.exp(-4 * (1 - of_pairs)))))


def correlation_norm(vectors: F64) -> float:
    """Return eq. 12: the Frobenius norm of the correlations between dimensions, over their number."""
    varying = vectors[:, vectors.std(axis=0) > 0]
    return float(np.linalg.norm(np.corrcoef(varying, rowvar=False)) / vectors.shape[1])


def _unit(vectors: F64) -> F64:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1))


def uniformity_by_seed(runs: Runs, experiment: str, group: str) -> PerSeed:
    """Return the uniformity of a group of items (`POPULAR` or `OTHERS`) by seed, of runs that kept their version."""
    return read_by_seed(runs.get(experiment, {}), _uniformity_of, group)


def _uniformity_of(run: Run, group: str) -> float | None:
    kept = run.version
    return uniformity_numbers(kept["items"], kept["popularity"])[group] if kept else None


def uniformity_tables(paper: Comparison, rows: Mapping[str, str], runs: Runs) -> Iterator[DocumentBlock]:
    """Yield the geometry of item vectors at the end of each run, by setting and row; `rows` has the methods by row."""
    found = []
    for setting in paper.settings:
        for row, method in rows.items():
            kept = [run for run in runs.get(experiment_name(setting, method), {}).values() if run.version]
            if kept:
                found.append([setting, row, *_numbers(kept)])
    if found:
        yield Heading(2, "Item vectors", "vectors")
        yield ParagraphBlock(
            "Uniformity (Wang and Isola: 0 if all vectors point one way, lower if spread) among the 100 items "
            "with most training interactions and among the others, the mean cosine of a popular and another item, and "
            "the correlation norm of equation 12 of the CL4FedRec paper; at the end of the run, means over seeds."
        )
        titles = ("setting", "method", "popular", "others", "popular with others, cosine", "correlation norm")
        yield make_grid("Item vectors", titles, found, 2)


def _numbers(kept: Sequence[Run]) -> list[str]:
    found = [uniformity_numbers(run.version["items"], run.version["popularity"]) for run in kept]
    return [f"{sum(own[name] for own in found) / len(found):z.3f}" for name in found[0]]
