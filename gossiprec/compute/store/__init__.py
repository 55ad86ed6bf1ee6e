"""Where model versions live."""
