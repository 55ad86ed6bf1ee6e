"""Checks of the messages that active adversaries forge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gossiprec.base.errors import ScenarioError
from gossiprec.compute.messages import MessagePayload


def check_forged(where: str, found: Any, message: MessagePayload, n_items: int) -> MessagePayload:
    """Return the message with forged numbers.

    Parameters
    ----------
    where : str
        The adversary, the node and the push, for errors.
    found : MessagePayload or None
        What the adversary sends; None for the message as it is.
    message : MessagePayload
        What the node would send.
    n_items : int

    Raises
    ------
    ScenarioError
        If the two do not fit, or a number is not finite; it names the field, what was found, and what is expected.
    """
    if found is None:
        return message
    if not isinstance(found, MessagePayload):
        raise ScenarioError(
            f"{where}: forge() returned {type(found).__name__}; expected a MessagePayload, or None to send the message "
            "as it is; fix the adversary"
        )
    _check_parts(where, found, message, n_items)
    users = None if found.users is None else np.array(found.users, np.float32)
    items, shared = np.array(found.items, np.float32), np.array(found.shared, np.float32)
    touched, sent = message.touched, message.sent
    if touched is not None and found.touched is not None and not np.array_equal(touched, found.touched):
        touched, sent = np.array(found.touched, np.int32), None
    return replace(message, users=users, items=items, shared=shared, touched=touched, sent=sent)


def _check_parts(where: str, found: MessagePayload, message: MessagePayload, n_items: int) -> None:
    """Refuse parts of other shapes, of other items, or with numbers that are not finite."""
    shapes = {part: np.shape(getattr(message, part)) for part in ("items", "shared")}
    if message.touched is not None:
        touched = np.asarray(message.touched if found.touched is None else found.touched)
        if (
            touched.ndim != 1
            or (len(touched) and not 0 <= touched.min() <= touched.max() < n_items)
            or (np.diff(touched) <= 0).any()
        ):
            raise ScenarioError(
                f"{where}: touched is {touched.tolist()}; expected ascending items from 0 to {n_items - 1}; fix forge()"
            )
        shapes["items"] = (len(touched), *shapes["items"][1:])
    if (found.users is None) != (message.users is None):
        hides, sends = (
            ("sends no user row", "sends one") if message.users is None else ("sends one", "sends none")
        )
        raise ScenarioError(
            f"{where}: users: found a message that {sends}; expected the node's own, which {hides}; fix forge()"
        )
    if message.users is not None:
        shapes["users"] = np.shape(message.users)
    for part, expected in shapes.items():
        numbers = np.asarray(getattr(found, part))
        if numbers.shape != expected:
            raise ScenarioError(
                f"{where}: {part}: found shape {numbers.shape}; expected {expected}, as the node would send; "
                "fix forge()"
            )
        if not np.isfinite(numbers).all():
            raise ScenarioError(
                f"{where}: {part}: found NaN or infinite values; expected finite numbers; lower training.learning_rate "
                "if the model has diverged, otherwise fix forge()"
            )
