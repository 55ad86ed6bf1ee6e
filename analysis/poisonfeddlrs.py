"""The setting of A-ra and A-hum next to the authors' public code, with the same random draws.

git clone https://github.com/rdz98/PoisonFedDLRS CODE
python -m analysis.poisonfeddlrs --code CODE --epochs 30 --out compared.csv

Both read the data files in CODE. The public code begins with gossiprec's first values and negatives, takes the clients
of each slice in its order, and draws poisoners' synthetic users as it does. Nothing of that code is part of gossiprec.

References
----------
See :mod:`gossiprec.adversaries.poisoners.a_ra`.
"""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import click
import numpy as np

from gossiprec.adversaries.poisoners import draw_user_rows
from gossiprec.base.arrays import F32
from gossiprec.base.rng import generator
from gossiprec.emulation import prepare, simulate
from gossiprec.scenario import load_scenario

SCENARIO = Path(__file__).parents[1] / "scenarios/papers/a_hum/poisonfeddlrs.yaml"
METRICS = ("recall@20", "precision@20", "full_ndcg@20", "er@5", "er@10", "er@20", "er@30")
"""In the order in which the public code computes them."""
MODULES = ("client", "server", "attack")
DATA = ("Data/ML/train.dat", "Data/ML/test.dat")


def overrides(code: Path, attack: str, epochs: int, seed: int) -> list[str]:
    """Return the changes of the scenario for the files of the public code, on one thread."""
    return [
        *(f"dataset.{part}={code / name}" for part, name in zip(("train", "test"), DATA, strict=True)),
        f"protocol.rounds={epochs}", f"seed={seed}", f"attackers.0.name={attack}",
        "executor.threads=1", "evaluate.keep_version=true", "evaluate.beside=[]", "plots=false",
    ]  # fmt: skip


class PublicRun:
    """The public code with the draws of a run of gossiprec.

    Parameters
    ----------
    code : Path
        Folder of the public code.
    run : PreparedRun
        The run before its first event.
    """

    def __init__(self, code: Path, run: Any) -> None:
        group = run.attackers[0]
        self._layout, self._seed, self._nodes = run.executor.work.layout, run.executor.work.seed, group.nodes
        self._slice, self._draws = run.scenario.protocol.options.slice, list[F32]()
        sys.path.insert(0, str(code))
        name = {"a-ra": "A-ra", "a-hum": "A-hum"}[group.choice.name]
        sys.argv[1:] = [f"--attack={name}", "--device=cpu", "--num_neg=0"]  # read when it is imported
        client, server, attack = (importlib.import_module(module) for module in MODULES)
        options, targets = run.executor.work.model.options, group.targets.tolist()
        self.server = server.FedRecServer(self._layout.n_items, options.dim, list(options.hidden))
        self._begin(run.executor.store.version(0))
        self._clients = [self._client(client, run, user, targets) for user in range(group.nodes[0])]
        self._clients += [
            attack.AttackClient(targets, self._layout.n_items, options.dim) for _ in group.nodes
        ]
        attack.nn.init.normal_ = self._next_user

    def _begin(self, version: F32) -> None:
        """Write the first version into the public server."""
        import torch

        tables = {name: torch.tensor(table) for name, table in self._layout.version_tables(version).items()}
        self.server.items_emb.weight.data[:] = tables["items"]
        for number, layer in enumerate(self.server.linear_layers):
            layer.weight.data[:] = tables[f"weight{number}"].reshape(layer.weight.shape)
            layer.bias.data[:] = tables[f"offset{number}"]

    def _client(self, client: Any, run: Any, user: int, targets: list[int]) -> Any:
        """Return a public client with the user's negatives and first row."""
        import torch

        work, data = run.executor.work, run.split
        train, test = data.train[user].tolist(), data.test[user].tolist()
        one = client.FedRecClient(train, test, targets, self._layout.n_items, self._layout.user_width)
        drawn = work.feed.samples(user, update=0, negatives=work.training.negatives, seed=work.seed)
        one._train_items = torch.from_numpy(drawn["items"].astype(np.int64))
        one._train_labels = torch.from_numpy(drawn["labels"].astype(np.float32))
        one._user_emb.weight.data[:] = torch.tensor(run.executor.store.own[user, : self._layout.user_width])
        return one

    def _next_user(self, weight: Any, std: float) -> None:
        """Write the next synthetic user in place of torch's draw."""
        import torch

        weight.data[:] = torch.from_numpy(self._draws.pop(0))

    def epochs(self) -> Iterator[tuple[list[float], float, float]]:
        """Yield the metrics after each epoch, and the processor seconds of its training and its test."""
        epoch, users, std = 0, 10, 0.01
        while True:
            began = process_time()
            order = generator(self._seed, "slices", epoch).permutation(len(self._clients))
            for begin in range(0, len(order), self._slice):
                clients = np.sort(order[begin : begin + self._slice])
                for node in np.intersect1d(clients, self._nodes).tolist():
                    draw = generator(self._seed, "poison", node, epoch)
                    self._draws.extend(draw_user_rows(draw, users, self._layout, std))
                self.server.train_(self._clients, clients)
            trained = process_time()
            found = np.concatenate(self.server.eval_(self._clients)).tolist()
            yield found, trained - began, process_time() - trained
            epoch += 1

    def tables(self) -> dict[str, F32]:
        """Return the tables of the present version by gossiprec's names."""
        found = {"items": self.server.items_emb.weight}
        for number, layer in enumerate(self.server.linear_layers):
            found |= {f"weight{number}": layer.weight, f"offset{number}": layer.bias}
        return {name: table.detach().numpy() for name, table in found.items()}


@click.command(help=__doc__)
@click.option("--code", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True)
@click.option("--attack", type=click.Choice(["a-ra", "a-hum"]), default="a-hum", show_default=True)
@click.option("--epochs", type=click.IntRange(1), default=30, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True)
def main(code: Path, attack: str, epochs: int, seed: int, out: Path) -> None:
    """Run both, write a row for each epoch, and print the largest differences and the seconds."""
    missing = [
        name for name in (*(f"{module}.py" for module in MODULES), *DATA) if not (code / name).is_file()
    ]
    if missing:
        raise click.BadParameter(
            f"found no {missing[0]} in {code}; expected a clone of rdz98/PoisonFedDLRS; clone it, or name its folder",
            param_hint="--code",
        )
    import torch

    torch.set_num_threads(1)
    changes = overrides(code, attack, epochs, seed)
    with TemporaryDirectory() as folder:
        ours = simulate(SCENARIO, overrides=changes, out=Path(folder) / "run")
        table, summary = ours.metrics, ours.summary
        assert summary is not None
        curves = {name: table["value"][table["metric"] == name].tolist() for name in METRICS}
        with np.load(ours.path / "version.npz") as file:
            last = dict(file)
    before = process_time()
    prepared = prepare(load_scenario(SCENARIO, changes))
    start = process_time() - before
    public = PublicRun(code, prepared)
    apart, seconds = 0.0, np.zeros(2)
    with out.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            ["epoch", *METRICS, *(f"public {name}" for name in METRICS), "public seconds", "test seconds"]
        )
        for epoch, (found, trained, tested) in zip(range(1, epochs + 1), public.epochs(), strict=False):
            here = [curves[name][epoch - 1] for name in METRICS]
            rows.writerow([epoch, *here, *found, trained, tested])
            file.flush()
            apart = max(apart, *(abs(a - b) for a, b in zip(here, found, strict=True)))
            seconds += trained, tested
    click.echo(f"largest difference of a metric   {apart:.2g}")
    ways = [np.abs(last[name].ravel() - table.ravel()).max() for name, table in public.tables().items()]
    click.echo(f"largest difference of a number   {max(ways):.2g} in the last version")
    click.echo(
        f"processor seconds of gossiprec   {summary['processor_seconds']:.1f} in all, of these {start:.1f} for reading "
        "and preparing"
    )
    click.echo(
        f"processor seconds of its code    {seconds[0]:.1f} for training, {seconds[1]:.1f} for tests, without reading"
    )


if __name__ == "__main__":
    main()
