"""The gradient of NCF, layer by layer; a user's half of the first layer once, not once an item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gossiprec.models.base.analytic import AnalyticGradient

_through_relu = torch.ops.aten.threshold_backward.grad_input


class NCFGradient(AnalyticGradient):
    """Back-propagation (Rumelhart et al., 1986) through a perceptron of any widths."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._widths = model.widths[1:-1]
        self._room: tuple[list[Tensor], ...] = ([], [])

    def fill(
        self, p: Mapping[str, Tensor], slopes: Mapping[str, Tensor], samples: Tensor, positives: Tensor
    ) -> None:
        """Overwrite `slopes` with the gradient."""
        user, items, dim, last = p["users"][0], p["items"], self.model.options.dim, len(self._widths)
        values, pulls = self._between_layers(items)
        of_user, of_items = p["weight0"][:, :dim], p["weight0"][:, dim:]

        torch.addmm(torch.addmv(p["offset0"], of_user, user), items, of_items.T, out=values[0]).relu_()
        for k in range(1, last):
            torch.addmm(p[f"offset{k}"], values[k - 1], p[f"weight{k}"].T, out=values[k]).relu_()
        weight = p[f"weight{last}"][0]
        pull = self.of_logits((values[-1] @ weight).add_(p[f"offset{last}"]), samples, positives)

        torch.mv(values[-1].T, pull, out=slopes[f"weight{last}"][0])
        torch.sum(pull, 0, keepdim=True, out=slopes[f"offset{last}"])
        torch.outer(pull, weight, out=pulls[-1])
        for k in range(last - 1, 0, -1):
            _through_relu(pulls[k], values[k], 0, grad_input=pulls[k])
            torch.mm(pulls[k].T, values[k - 1], out=slopes[f"weight{k}"])
            torch.sum(pulls[k], 0, out=slopes[f"offset{k}"])
            torch.mm(pulls[k], p[f"weight{k}"], out=pulls[k - 1])
        _through_relu(pulls[0], values[0], 0, grad_input=pulls[0])
        total = torch.sum(pulls[0], 0, out=slopes["offset0"])
        torch.outer(total, user, out=slopes["weight0"][:, :dim])
        torch.mm(pulls[0].T, items, out=slopes["weight0"][:, dim:])
        torch.mm(pulls[0], of_items, out=slopes["items"])
        torch.mv(of_user.T, total, out=slopes["users"][0])

    def _between_layers(self, items: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Return room for the values after each hidden layer, and for the loss's derivatives by them."""
        n, has = len(items), self._room[0][0] if self._room[0] else items[:0]
        if len(has) < n or has.dtype != items.dtype:
            self._room = tuple([items.new_empty(n, width) for width in self._widths] for _ in range(2))
        values, pulls = ([part[:n] for part in parts] for parts in self._room)
        return values, pulls
