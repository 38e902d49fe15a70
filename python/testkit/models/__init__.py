"""Real networks."""
