"""A file of one's own, small enough for a run in a blink."""

from __future__ import annotations

from tests.emulation.ended_early import often


def write_own(path, *, odd="i1"):
    """Write 12 users with ten items each; the last item of the first user is the odd one."""
    rows = [f"user {u},i{(7 * u + 3 * n) % 40},{n}" for u in range(12) for n in range(10)]
    rows[9] = f"user 0,{odd},9"
    path.write_text("\n".join(["customer,product,ts", *rows, ""]))
    return path


def on_own_data(path):
    """Return a tiny scenario over a file."""
    columns = {"user": "customer", "item": "product", "time": "ts"}
    split = {"name": "leave_last_k", "test": 2, "validation": 1}
    return often(dataset={"name": "file", "path": str(path), "columns": columns, "split": split})
