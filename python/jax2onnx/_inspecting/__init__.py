"""Answer questions about a finished model: errors, run times, where a node came from."""
