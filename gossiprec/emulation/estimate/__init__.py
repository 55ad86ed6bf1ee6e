"""What a run will be, before it runs: its sizes, its events, its memory and its time."""
