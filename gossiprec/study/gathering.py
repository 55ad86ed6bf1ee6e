"""The problems of many variants as one list: each said once, with the variant where its line does not tell."""

from __future__ import annotations

from collections.abc import Mapping

from gossiprec.scenario.problems import KeyPath, Origin, Problems, SourceMap
from gossiprec.study.load import Study
from gossiprec.study.points import Label


class Gathered:
    """Problems of variants."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._found: dict[tuple[KeyPath, str], tuple[Origin, list[str]]] = {}

    def add(self, found: Problems, source_map: SourceMap, labels: Mapping[str, Label]) -> None:
        """Note what is wrong with one variant."""
        for path, text, origin in found.located(source_map):
            _, variants = self._found.setdefault((path, text), (origin, []))
            variants.append(", ".join(f"{name}={value}" for name, value in labels.items()))

    def tell(self, problems: Problems, n_variants: int) -> None:
        """Hand over what was found.

        A problem of all variants is one of the base. One that was written in the study stands on the line of the
        value that makes it; any other is told with a variant that has it.
        """
        for (path, text), (origin, variants) in self._found.items():
            if len(variants) < n_variants and origin.source != self._study.source.whole.source:
                more = f" and {len(variants) - 1} more" if len(variants) > 1 else ""
                text = f"{text} (with {variants[0]}{more})"
            problems.add(path, text, origin=origin)
