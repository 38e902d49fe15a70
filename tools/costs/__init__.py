"""Numbers that count what is done to them."""
