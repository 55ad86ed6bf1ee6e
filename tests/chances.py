"""The K largest of some values where ties are broken at random, written slowly: what attacks are credited with."""

from __future__ import annotations

from fractions import Fraction


def chances(values, k):
    """Return the probability of each key to be among the `k` of the largest values, ties broken at random."""
    found = {}
    for key, value in values.items():
        better = sum(other > value for other in values.values())
        tied = sum(other == value for other in values.values())
        found[key] = min(max(Fraction(k - better, tied), Fraction(0)), Fraction(1))
    return found


def expected_accuracy(found, community, k):
    """Return the share of a community that is found, both given by probabilities."""
    return float(sum(chance * community.get(key, 0) for key, chance in found.items()) / k)
