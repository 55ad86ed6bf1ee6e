"""The data plane: versioned model rows, operations in the order of their dependencies, and what runs them."""
