"""Trace a function to a closed jaxpr, and name its inputs, outputs, weights and modules."""
