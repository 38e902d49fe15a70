"""Networks with planted problems of short types, and how to plant them."""
