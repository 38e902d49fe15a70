"""Ask about a finished model: what an error is about, what takes time, where a node came from."""
