"""Attributes of users, as attacks know and guess them, and the classifier that guesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from gossiprec.base.arrays import F32, F64, I64

ATTRIBUTE_MEASURES = (
    "attribute_balanced_accuracy",
    "attribute_auc",
    "attribute_auc_low",
    "attribute_auc_high",
    "attribute_accuracy",
    "attribute_majority_balanced_accuracy",
    "attribute_majority_accuracy",
    "attribute_ceiling_balanced_accuracy",
    "attribute_ceiling_auc",
    "attribute_inferred",
)
"""Measures of :class:`AttributeScores`, computed by joining them with the ground truth."""


@dataclass(frozen=True)
class KnownAttribute:
    """An attribute of users, of which the attacker knows the values of some.

    Attributes
    ----------
    name : str
        The column.
    bins : tuple of float
        Borders of the classes of a column of numbers.
    classes : tuple of str
    users : ndarray of int64, shape (n_known,)
        The users of whom the class is known, ascending.
    codes : ndarray of int64, shape (n_known,)
        Their positions in `classes`.
    """

    name: str
    bins: tuple[float, ...]
    classes: tuple[str, ...]
    users: I64
    codes: I64


Classifier = Callable[[F32, I64, F32, int], F64]
"""Rows of known users, their classes, rows of others, number of classes -> probabilities of the others' classes."""


@dataclass(frozen=True)
class AttributeScores:
    """Probabilities of the classes of users, which an attack has inferred.

    Attributes
    ----------
    known : KnownAttribute
        The knowledge of the attack.
    victims : ndarray of int64, shape (n,)
        Users of whom it does not know the class.
    probabilities : ndarray of float64, shape (n, n_classes)
        Equal probabilities are ties, which give no advantage.
    classify : callable
        The attack's classifier, with which the same is inferred from the raw data.
    labels : mapping of str to str, int, float or bool
        Labels of the results, such as observer and features.
    observers : ndarray of int64, shape (n,)
        The node or group that infers each row; results are means over them.
    """

    judge: ClassVar[str] = "attribute-scores"
    known: KnownAttribute
    victims: I64
    probabilities: F64
    classify: Classifier
    labels: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    observers: I64 = field(default_factory=lambda: np.zeros(0, np.int64))


COLUMNS = 4096
"""Number of columns that are standardised together."""
SMALL = 1e-9
"""Directions of less than this share of the largest variance are left out: they are rounding errors."""


class LogisticClassifier:
    """Multinomial logistic regression in which each class has the same weight, whatever its size.

    Parameters
    ----------
    strength : float
        Weight of the squared length of the weights, one half of which is added to the loss.

    Notes
    -----
    Columns are standardised by the known users and divided by the root of their number, so that the weight of the
    penalty means the same at any width. Columns that are equal for all known users are left out; without any other
    column all classes are equally likely. Wide rows are replaced by their coordinates in the space that the known users
    span, which changes no result of a penalty on the length. The coordinates of the last two arrays are kept, because
    several attributes are inferred from the same ones.
    """

    def __init__(self, strength: float) -> None:
        self.strength = strength
        self._last: tuple[F32, F32] | None = None
        self._kept = (np.zeros((0, 0)), np.zeros((0, 0)))

    def __call__(self, known: F32, codes: I64, others: F32, n_classes: int) -> F64:
        """Return the probabilities of the classes of some users.

        Parameters
        ----------
        known : ndarray of float32, shape (n_known, width)
        codes : ndarray of int64, shape (n_known,)
        others : ndarray of float32, shape (n_others, width)
        n_classes : int

        Returns
        -------
        ndarray of float64, shape (n_others, n_classes)
            0 for a class that no known user has.
        """
        from sklearn.linear_model import LogisticRegression
        from threadpoolctl import threadpool_limits

        present, places = np.unique(codes, return_inverse=True)
        found = np.zeros((len(others), n_classes))
        with threadpool_limits(limits=1):
            if self._last is None or self._last[0] is not known or self._last[1] is not others:
                self._last, self._kept = (known, others), _coordinates(known, others)
            rows, targets = self._kept
            if len(present) < 2 or not rows.shape[1]:
                found[:, present] = 1 / len(present)
                return found
            model = LogisticRegression(C=1 / self.strength, class_weight="balanced", max_iter=1000)
            model.fit(rows, places)
            found[:, present] = model.predict_proba(targets)
        return found


def _coordinates(known: F32, others: F32) -> tuple[F64, F64]:
    """Return the standardised rows of known users and of others, in as few coordinates as there are known users."""
    varies = known.max(axis=0) > known.min(axis=0)  # rounded deviations of equal numbers can be above 0
    columns = np.flatnonzero(varies)
    wide = len(columns) > len(known)
    near, far = np.zeros((len(known), len(known))), np.zeros((len(others), len(known)))
    parts: list[tuple[F64, F64]] = []
    for low in range(0, len(columns), COLUMNS):
        some = columns[low : low + COLUMNS]
        a, b = known[:, some].astype(np.float64), others[:, some].astype(np.float64)
        mean, scale = a.mean(axis=0), a.std(axis=0) * np.sqrt(len(columns))
        a, b = (a - mean) / scale, (b - mean) / scale
        if wide:
            near += a @ a.T
            far += b @ a.T
        else:
            parts.append((a, b))
    if not wide:
        return parts[0] if parts else (near[:, :0], far[:, :0])
    lengths, axes = np.linalg.eigh(near)
    kept = lengths > SMALL * lengths[-1]
    roots = np.sqrt(lengths[kept])
    return axes[:, kept] * roots, far @ axes[:, kept] / roots
