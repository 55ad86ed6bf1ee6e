"""What LightGCN's public code loses by ranking the sigmoids of products in 32 bits: ties among the first items.

The folder of a run of ``scenarios/papers/lightgcn/gowalla.yaml``, and the number of a pass with a checkpoint::

    python benchmarks/sigmoid_ties.py RUN PASS [--users 3000]

prints a JSON line: Recall@20 and NDCG@20 of random users by products and by their sigmoids, and the mean change with
its standard error over users. Ties go to the items that ``torch.topk`` finds first, as in the public code.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from common import emit

from gossiprec.emulation import prepare
from gossiprec.models.base.graph import InteractionGraph
from gossiprec.models.lightgcn import mean_of_layers, propagate
from gossiprec.runs.checkpoints import read_checkpoint
from gossiprec.scenario import load_scenario

K = 20


def main() -> None:
    """Rank both ways."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run")
    parser.add_argument("number", type=int, metavar="PASS")
    parser.add_argument("--users", type=int, default=3000)
    chosen = parser.parse_args()
    run = prepare(load_scenario(f"{chosen.run}/scenario.yaml", []))
    train, test, options = (
        run.components.split.train,
        run.components.split.test,
        run.components.scenario.model.to_plain_data(),
    )
    graph = InteractionGraph.of(train, run.components.split.n_items)
    state = read_checkpoint(f"{chosen.run}/checkpoints/{chosen.number:08d}.ckpt", limit_bytes=2**30)[1]
    rows = torch.from_numpy(state["arena"]["rows"].reshape(-1, options["dim"]))
    layers = mean_of_layers([rows, *propagate(rows, graph, options["layers"])])
    users, items = layers[: graph.n_users], layers[graph.n_users :]
    discounts, found = 1 / np.log2(np.arange(2, K + 2)), []
    for user in np.random.default_rng(0).permutation(graph.n_users)[: chosen.users]:
        products = users[user] @ items.T
        for scores in (products, torch.sigmoid(products)):
            scores[torch.from_numpy(train[user].astype(np.int64))] = -1024
            hits, n = np.isin(torch.topk(scores, K).indices.numpy(), test[user]), len(test[user])
            found.append((hits.sum() / n, hits @ discounts / discounts[:n].sum()))
    values = np.reshape(found, (-1, 2, 2))
    change = values[:, 1] - values[:, 0]
    products, sigmoids = values.mean(0)
    error = change.std(0) / len(change) ** 0.5
    figures = {"products": products, "sigmoids": sigmoids, "change": change.mean(0), "error": error}
    emit(bench="sigmoid_ties", **{name: [round(float(x), 4) for x in pair] for name, pair in figures.items()})


if __name__ == "__main__":
    main()
