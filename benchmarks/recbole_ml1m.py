"""BPR of RecBole itself on MovieLens-1M, with the settings that RecBole-GNN publishes; ``docs/record/benchmarks.md``.

With the interpreter of RecBole's environment (``benchmarks/peers/run.py`` installs it), a ``ratings.csv.gz`` or
``ratings.dat``, and a folder for results::

    PEERS/recbole/bin/python benchmarks/recbole_ml1m.py RATINGS OUT [--seed 2020]

writes OUT/epochs.csv (MRR of validation items after each epoch until RecBole stops; all measures of test items if
it is the best so far), the split that RecBole made, as pairs of names (OUT/train.txt, OUT/validation.txt and
OUT/test.txt), and the best rows (OUT/rows.npz). With gossiprec's interpreter and ``--rank`` it prints the measures of
these rows by our own ranking.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

PARTS = ("train", "validation", "test")
SETTINGS: dict[str, Any] = {
    "epochs": 500, "train_batch_size": 4096, "eval_batch_size": 4096000, "valid_metric": "MRR@10", "embedding_size": 64,
    "learning_rate": 0.001, "use_gpu": False, "show_progress": False, "metric_decimal_place": 6, "state": "WARNING",
}  # fmt: skip


def data_settings(ratings: Path, out: Path) -> dict[str, Any]:
    """Write the data for RecBole below `out`, and return the settings that name them."""
    import pandas

    folder, names = out / "ml-1m", ["user_id", "item_id", "rating", "timestamp"]
    folder.mkdir(parents=True, exist_ok=True)
    plain = {"sep": "::", "engine": "python", "header": None} if ratings.suffix == ".dat" else {"header": 0}
    table = pandas.read_csv(ratings, names=names, **plain)[names[:3]]
    table.columns = ["user_id:token", "item_id:token", "rating:float"]
    table.to_csv(folder / "ml-1m.inter", sep="\t", index=False)
    columns = {"load_col": {"inter": names[:3]}, "unused_col": {"inter": ["rating"]}}
    places = {"data_path": str(out), "checkpoint_dir": str(out)}
    return columns | places | {"val_interval": {"rating": "[3,inf)"}}


def rank(out: Path) -> None:
    """Print the measures of RecBole's rows by our ranking."""
    from gossiprec.measures.mrr import MRR
    from gossiprec.measures.ndcg import NDCG
    from gossiprec.measures.ranking import relevant_ranks
    from gossiprec.measures.recall import Recall

    rows = np.load(out / "rows.npz")
    places = [{name: place for place, name in enumerate(rows[f"{kind}_names"])} for kind in ("user", "item")]
    scores = rows["user"] @ rows["item"].T
    known = {part: np.zeros(scores.shape, bool) for part in PARTS}
    for part, found in known.items():
        pairs = np.loadtxt(out / f"{part}.txt", dtype=str)
        ids = [[place[name] for name in names] for place, names in zip(places, pairs.T, strict=True)]
        found[tuple(ids)] = True
    candidates = ~(known["train"] | known["validation"])
    candidates[:, 0] = False  # RecBole's padding
    seen = relevant_ranks(scores, candidates, known["test"], 10)
    for name, measure in (("recall", Recall), ("ndcg", NDCG), ("mrr", MRR)):
        print(f"{name}@10 {measure.compute_values(seen, 10).mean():.6f}")


def train(chosen: argparse.Namespace) -> None:
    """Train, and write the measures of each epoch."""
    import torch
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, get_trainer, init_seed

    out: Path = chosen.out.resolve()
    torch.set_num_threads(1)
    settings = SETTINGS | {"seed": chosen.seed} | data_settings(chosen.ratings.resolve(), out)
    os.chdir(out)  # RecBole writes logs into the current folder
    config = Config(model="BPR", dataset="ml-1m", config_dict=settings)
    init_seed(config["seed"], config["reproducibility"])
    loaders = data_preparation(config, create_dataset(config))
    fields = (config["USER_ID_FIELD"], config["ITEM_ID_FIELD"])
    dataset = loaders[0].dataset
    names = [dataset.field2id_token[field] for field in fields]
    for part, loader in zip(PARTS, loaders, strict=True):
        ids = [loader.dataset.inter_feat[field].numpy() for field in fields]
        pairs = [known[each] for known, each in zip(names, ids, strict=True)]
        np.savetxt(out / f"{part}.txt", np.stack(pairs, 1), fmt="%s", delimiter="\t")
    init_seed(config["seed"], config["reproducibility"])
    model = get_model("BPR")(config, dataset)
    trainer = get_trainer(config["MODEL_TYPE"], "BPR")(config, model)
    with (out / "epochs.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["epoch", "validation MRR@10", "test"])

        def note(epoch: int, score: float) -> None:
            if trainer.cur_step > 0:
                table.writerow([epoch + 1, f"{score:.6f}", ""])
                return
            state = torch.get_rng_state()  # a loader draws a number each time that it is read
            found = trainer.evaluate(loaders[2], load_best_model=False)
            torch.set_rng_state(state)
            table.writerow([epoch + 1, f"{score:.6f}", json.dumps(found)])
            file.flush()
            layers = {"user": model.user_embedding, "item": model.item_embedding}
            rows: dict[str, Any] = {kind: layer.weight.detach().numpy() for kind, layer in layers.items()}
            rows |= {f"{kind}_names": np.array(each, str) for kind, each in zip(layers, names, strict=True)}
            np.savez(out / "rows.npz", **rows)

        trainer.fit(*loaders[:2], verbose=False, saved=False, callback_fn=note)


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ratings", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=2020)
    parser.add_argument("--rank", action="store_true")
    chosen = parser.parse_args()
    if chosen.rank:
        rank(chosen.out)
    else:
        train(chosen)


if __name__ == "__main__":
    main()
