"""The command ``python -m gossiprec``, equal to ``gossiprec``."""

from gossiprec.entry import run

if __name__ == "__main__":
    run()
