"""Finds out which operators, types and forms a runtime runs, by running tiny models in it."""
