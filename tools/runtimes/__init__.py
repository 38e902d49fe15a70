"""Runs exported models in the runtimes that people ship with."""
