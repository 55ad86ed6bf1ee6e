"""Lists of ranks, as measures look at them."""

import numpy as np

from gossiprec.measures import NOWHERE, RelevantRanks


def side_by_side(lists):
    """Return the ranks of several lists as one array."""
    found = np.full((len(lists), max(map(len, lists))), NOWHERE, np.int32)
    for row, ranks in zip(found, lists, strict=True):
        row[: len(ranks)] = ranks
    return RelevantRanks(found)
