"""Accuracy of adversaries that keep a short list of victims and are scored over a longer community.

``python -m analysis.cda_paper.truncated_lists --data PATH``: the coordinator of FedAvg keeps the 50 best victims of
its ranking and is scored over communities of 100. The published value at K = 100 is less than at K = 50, which is
impossible for a full list. This attack is outside the study: lists are cut before they are compared with the truth.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from gossiprec import open_run, simulate
from gossiprec.adversaries.attacks import ATTACKS, Ranking
from gossiprec.adversaries.attacks.cda import CDA
from gossiprec.base.arrays import F32
from gossiprec.base.rng import generator
from gossiprec.cli.main import exit_code

LISTED, SCORED = 50, 100
SCENARIOS = Path(__file__).parents[2] / "scenarios" / "papers" / "cda"
FILES = {"full": "cda_table4_ml100k_fedavg.yaml", "share-less": "cda_table9_ml100k_fedavg_share_less.yaml"}


@ATTACKS.register("cda-cut")
class TruncatedCDA(CDA):
    """The community-detection attack by adversaries that keep up to 50 victims."""

    name = "cda-cut"

    def rankings(self) -> list[Ranking]:
        """Return the rankings without victims beyond the list, as if these had not been met."""
        return [
            replace(ranking, scores=truncate_rankings(ranking.scores, LISTED))
            for ranking in super().rankings()
        ]


def truncate_rankings(scores: F32, listed: int) -> F32:
    """Return the scores of each adversary's best victims, NaN for all others; ties are broken at random.

    Parameters
    ----------
    scores : ndarray of float32, shape (n_adversaries, n_users)
        Scores; NaN for users that were not met.
    listed : int
    """
    drawn = generator(0, "cut-list").permuted(np.tile(np.arange(scores.shape[1]), (len(scores), 1)), axis=1)
    best = np.lexsort((drawn, np.nan_to_num(-scores, nan=np.inf)))[:, :listed]
    kept = np.full_like(scores, np.nan)
    np.put_along_axis(kept, best, np.take_along_axis(scores, best, axis=1), axis=1)
    return kept


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True, help="Holds ml-100k.")
@click.option("--models", type=click.Choice(tuple(FILES)), default="full", help="What clients send.")
@click.option(
    "--rounds", type=click.IntRange(1), default=16, help="Of FedAvg; the best is round 8 of full models."
)
@click.option("--seed", type=int, default=1)
def main(data: Path, models: str, rounds: int, seed: int) -> None:
    """Print the accuracy of lists of 50 over communities of 100, at the best round."""
    look = {
        "name": "cda-cut", "who": "coordinator", "community_size": SCORED, "reference_items": "all",
        "momentum": [0, 0.99], "relevance": "standardized", "fictive_user": "own_embedding",
    }  # fmt: skip
    sets = {
        "dataset.path": data.resolve() / "ml-100k", "protocol.rounds": rounds, "seed": seed, "plots": "false",
        "observers": [look], "evaluate": {"every": 4, "metrics": ["hr@20"]},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        simulate(
            SCENARIOS / FILES[models], overrides=[f"{key}={value}" for key, value in sets.items()], out=out
        )
        for line in (open_run(out).summary or {})["attacks"]:
            found = f"{100 * line['max_aac']:.1f} % at round {line['at_round']}"
            click.echo(f"momentum {line['momentum']:g}: {found}")


if __name__ == "__main__":
    sys.exit(exit_code(sys.argv[1:], main, name="python -m analysis.cda_paper.truncated_lists"))
