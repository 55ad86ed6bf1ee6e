"""Layouts by the widths of their roles."""

from gossiprec.models import Block, Layout, Role


def layout_of(user_width, item_width, n_shared, *, n_items, n_users=1):
    """Return a layout with one block for each role that has any numbers."""
    widths = {Role.USER: user_width, Role.ITEM: item_width, Role.SHARED: n_shared}
    blocks = tuple(Block(f"the-{role}", role, (width,)) for role, width in widths.items() if width)
    return Layout(blocks, n_items, n_users)
