"""Run modes, which decide which model each node holds: one module each, chosen once (:func:`choose_mode`)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from gossiprec.base.registry import Registry
from gossiprec.modes.base import RunMode

if TYPE_CHECKING:
    from gossiprec.network.protocols import Protocol

__all__ = ["MODES", "RunMode", "choose_mode", "choose_mode_of_class"]

MODES: Registry[type[RunMode]] = Registry("run mode", __name__)

DEFAULT = "whole-models"
OLD_FLAGS = {"holds_all_data": "central", "sends_updates": "client-updates"}
"""Attributes of protocols by which a mode was chosen before ``Protocol.mode_of``; they work until version 0.2."""


def choose_mode(protocol: Protocol) -> RunMode:
    """Return the mode of a run under a protocol."""
    kind = type(protocol)
    return MODES[
        _name(kind, protocol.options, {flag: getattr(protocol, flag) for flag in _old_flags(kind)})
    ]()


def choose_mode_of_class(kind: type, options: Any) -> RunMode:
    """Return the mode of a run under a class of protocols with some options, before there is data.

    An old flag may be a property, which only a protocol can answer: the option ``client_model`` then decides.
    """
    flags = {flag: getattr(kind, flag) for flag in _old_flags(kind)}
    without_model = getattr(options, "client_model", "own") == "none"
    known = {flag: value if isinstance(value, bool) else without_model for flag, value in flags.items()}
    return MODES[_name(kind, options, known)]()


def _name(kind: type, options: Any, flags: dict[str, bool]) -> str:
    name = kind.mode_of(options) if hasattr(kind, "mode_of") else DEFAULT
    for flag, value in flags.items():
        old = f"{kind.__name__}.{flag} is deprecated and works until version 0.2; override mode_of instead"
        warnings.warn_explicit(old, DeprecationWarning, kind.__module__, 1, module=kind.__module__)
        if value:
            name = OLD_FLAGS[flag]
        elif name == OLD_FLAGS[flag]:
            name = DEFAULT
    return name


def _old_flags(kind: type) -> list[str]:
    """Return the old flags that a class of protocols overrides."""
    from gossiprec.network.protocols import Protocol

    return [
        flag
        for flag in OLD_FLAGS
        if hasattr(kind, flag) and getattr(kind, flag) is not getattr(Protocol, flag)
    ]
