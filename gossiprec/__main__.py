"""``python -m gossiprec``: the same as ``gossiprec``."""

from gossiprec.cli.main import run

if __name__ == "__main__":
    run()
