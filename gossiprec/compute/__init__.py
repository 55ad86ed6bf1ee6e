"""The data plane: versioned model rows, plans of operations on them, and the executors that run the plans."""
