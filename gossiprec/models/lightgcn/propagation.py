"""Light graph convolution of the rows of users and items, on any graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gossiprec.models.base.graph import InteractionGraph
from gossiprec.models.base.parameter_blocks import TensorMap

if TYPE_CHECKING:
    from torch import Tensor

Change = Callable[["Tensor"], "Tensor"]


def stack_rows(p: TensorMap) -> Tensor:
    """Return the rows of users, then of items, shape (n_users + n_items, d)."""
    import torch

    return torch.cat([p["users"], p["items"]])


def propagate(
    rows: Tensor, graph: InteractionGraph, n_layers: int, change: Change | None = None
) -> list[Tensor]:
    """Return layers 1 .. n_layers, given layer 0: ``E(k+1) = D^-1/2 A D^-1/2 E(k)`` (LightGCN, eq. 8)."""
    return propagate_from(graph.times(rows), graph, n_layers, change)


def propagate_from(
    first: Tensor, graph: InteractionGraph, n_layers: int, change: Change | None = None
) -> list[Tensor]:
    """Return layers 1 .. n_layers, given the first; `change` is applied to each before the next one."""
    layers = [first if change is None else change(first)]
    while len(layers) < n_layers:
        layer = graph.times(layers[-1])
        layers.append(layer if change is None else change(layer))
    return layers


def propagate_single_user(
    user: Tensor, items: Tensor, taken: Tensor, n_layers: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Return layers 0 .. n_layers of a user's row and of items, on the graph of this user's interactions.

    Parameters
    ----------
    user : Tensor, shape (1, d)
    items : Tensor, shape (n_items, d)
    taken : Tensor of float32, shape (n_items,)
        1 for items of the user, at least one; other items have no neighbour, and zeros from layer 1 on.
    n_layers : int
    """
    scale = taken.sum().clamp(min=1.0).rsqrt()  # 1 / sqrt(|N_u| |N_i|), every |N_i| being 1
    users, tables = [user], [items]
    for _ in range(n_layers):
        users, tables = (
            [*users, scale * (taken @ tables[-1])[None]],
            [*tables, scale * taken[:, None] * users[-1]],
        )
    return users, tables


def mean_of_layers(layers: Sequence[Tensor]) -> Tensor:
    """Return the mean over layers."""
    total = layers[0]
    for layer in layers[1:]:
        total = total + layer
    return total / len(layers)
