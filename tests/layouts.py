"""Layouts by the widths of their roles."""

from gossiprec.models import BlockRole, Layout, ParameterBlock


def layout_of(user_width, item_width, n_shared, *, n_items, n_users=1):
    """Return a layout with one block for each role that has any numbers."""
    widths = {BlockRole.USER: user_width, BlockRole.ITEM: item_width, BlockRole.SHARED: n_shared}
    blocks = tuple(ParameterBlock(f"the-{role}", role, (width,)) for role, width in widths.items() if width)
    return Layout(blocks, n_items, n_users)
