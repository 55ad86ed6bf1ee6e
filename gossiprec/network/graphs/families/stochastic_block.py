"""Stochastic block models: dense within communities, sparse between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gossiprec.network.graphs.checks import check_size, draw_block_graph
from gossiprec.network.graphs.registry import FamilyOption, register_family

if TYPE_CHECKING:
    import networkx as nx


@register_family(
    "stochastic-block",
    blocks=FamilyOption(int, "number of equal blocks, in order of node id", 4, least=1),
    sizes=FamilyOption(
        tuple[int, ...] | None, "sizes of the blocks, in order of node id, instead of their number", None
    ),
    within=FamilyOption(float, "probability of a link inside a block", 0.3, least=0, most=1),
    between=FamilyOption(float, "probability of a link between blocks", 0.02, least=0, most=1),
    probabilities=FamilyOption(
        tuple[tuple[float, ...], ...] | None,
        "probability for each pair of blocks, instead of within and between",
        None,
    ),
)
def stochastic_block(
    n: int,
    seed: int,
    blocks: int = 4,
    sizes: Sequence[int] | None = None,
    within: float = 0.3,
    between: float = 0.02,
    probabilities: Sequence[Sequence[float]] | None = None,
) -> nx.Graph:
    """Return a connected graph of communities: links are likelier inside a block of nodes than between two.

    Parameters
    ----------
    n : int
        Number of nodes.
    seed : int
    blocks : int
        1 <= blocks <= n: blocks of consecutive nodes, with sizes that differ by no more than one.
    sizes : sequence of int, optional
        Sizes of the blocks, which add up to n; `blocks` is then ignored.
    within, between : float
        0 <= p <= 1.
    probabilities : sequence of sequence of float, optional
        Symmetric, one row and column for each block; `within` and `between` are then ignored.

    Raises
    ------
    ValueError
        If sizes or probabilities are invalid, or no connected graph was found.

    References
    ----------
    P. W. Holland, K. B. Laskey, S. Leinhardt, "Stochastic blockmodels: first steps", Social Networks 5 (1983).
    """
    check_size(n)
    if sizes is None:
        if not 1 <= blocks <= n:
            raise ValueError(f"found {blocks} blocks, must be from 1 to {n}, the number of nodes")
        sizes = [n // blocks + (block < n % blocks) for block in range(blocks)]
    if min(sizes, default=0) < 1 or sum(sizes) != n:
        raise ValueError(
            f"found sizes {list(sizes)}, which add up to {sum(sizes)}; expected positive sizes that "
            f"add up to {n}"
        )
    block_of = [block for block, size in enumerate(sizes) for _ in range(size)]
    return draw_block_graph(block_of, within, between, probabilities, seed)
