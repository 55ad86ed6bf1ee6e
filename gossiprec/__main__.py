"""``python -m gossiprec``: the same as ``gossiprec``."""

from gossiprec.entry import run

if __name__ == "__main__":
    run()
