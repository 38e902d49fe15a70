"""Plugins written in Python: the registry, and the recorder that they build with."""
