"""Laying one source of values over another: presets below the file, overrides above it."""

from __future__ import annotations

from importlib import resources
from typing import Any

from gossiprec.errors import suggestion
from gossiprec.scenario.problems import KeyPath, Problems, shown
from gossiprec.scenario.source import Layer, read_text


def lay_over(under: Layer, over: Layer) -> Layer:
    """Return `over` with its gaps filled from `under`: mappings merge key by key, everything else replaces.

    Notes
    -----
    A mapping that names another thing (``name``, ``law``), or that counts (``every``) where the lower one
    follows a clock (``law``), replaces the lower one whole: the options of one mean nothing to the other.
    """
    below = Layer(under.data, under.whole, dict(under.origins))
    data = _merged(below, under.data, over.data, ())
    return Layer(data, over.whole, {**below.origins, **over.origins})


def with_preset(layer: Layer, chosen: Any, problems: Problems) -> Layer:
    """Return `layer` (without its key ``preset``) over the preset called `chosen`.

    Parameters
    ----------
    layer : Layer
        The user's own values, a mapping.
    chosen : object
        What the user wrote as the preset's name; ``None`` for no preset.
    problems : Problems
        Receives an unknown name; the layer is then returned as it is.
    """
    own = Layer({k: v for k, v in layer.data.items() if k != "preset"}, layer.whole, layer.origins)
    if chosen is None:
        return own
    known = preset_names()
    if chosen not in known:
        near = suggestion(str(chosen), known)
        problems.add(("preset",), f"found {shown(chosen)}, must be one of {', '.join(known)}{near}")
        return own
    file = resources.files("gossiprec.scenario") / "presets" / f"{chosen}.yaml"
    return lay_over(read_text(file.read_text(encoding="utf-8"), f"preset {chosen}", problems), own)


def preset_names() -> list[str]:
    """Return the names of the presets that come with gossiprec."""
    folder = resources.files("gossiprec.scenario") / "presets"
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


def _merged(below: Layer, under: Any, over: Any, path: KeyPath) -> Any:
    if not (isinstance(under, dict) and isinstance(over, dict)) or _names_another(under, over):
        below.forget(path)
        return over
    both = {key: _merged(below, under[key], over[key], (*path, key)) for key in under if key in over}
    return {**under, **over, **both}


def _names_another(under: dict[str, Any], over: dict[str, Any]) -> bool:
    renamed = any(key in over and key in under and over[key] != under[key] for key in ("name", "law"))
    return renamed or ("every" in over and "law" in under) or ("law" in over and "every" in under)
