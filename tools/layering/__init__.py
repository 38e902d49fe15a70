"""The layers of each library, and what becomes of them."""
