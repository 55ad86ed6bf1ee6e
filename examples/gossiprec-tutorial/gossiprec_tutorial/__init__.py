"""A model, an attack and a policy for gossiprec; pyproject.toml registers them."""
