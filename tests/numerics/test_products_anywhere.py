"""What torch makes of a matrix product does not depend on where in memory its factors lie."""

import pytest
import torch

import gossiprec  # sees to it


@pytest.mark.parametrize("inner", [3, 5, 8])
def test_products_of_a_stack_are_the_same_at_every_place(inner):
    assert gossiprec.__version__
    generator = torch.Generator().manual_seed(inner)
    left, right = (torch.randn(8, *shape, generator=generator) for shape in ((inner, 30), (30, 6)))
    whole = torch.bmm(left, right)
    for first in range(6):
        some = slice(first, first + 2)
        assert torch.equal(torch.bmm(left[some], right[some]), whole[some])
