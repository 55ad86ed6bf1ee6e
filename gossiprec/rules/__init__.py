"""How received models and updates are combined: aggregators, servers and similarities of clients."""
