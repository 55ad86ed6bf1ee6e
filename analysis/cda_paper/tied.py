"""gossiprec in a process that ends with the one that started it: ``python -m analysis.cda_paper.tied simulate ...``.

A study that is killed could not end its run; the run would go on beside the one that takes its place. So a run
reads its standard input, a pipe that the study holds open, and stops when there is nobody at the other end.
"""

from __future__ import annotations

import os
import runpy
import threading

ORPHANED = 137


def _wait_for_the_end() -> None:
    while os.read(0, 1024):  # not sys.stdin: its lock would be held when the interpreter shuts down
        pass
    os._exit(ORPHANED)


if __name__ == "__main__":
    threading.Thread(target=_wait_for_the_end, daemon=True).start()
    runpy.run_module("gossiprec", run_name="__main__", alter_sys=True)
