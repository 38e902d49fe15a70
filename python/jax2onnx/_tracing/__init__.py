"""From a function and input specs to a closed jaxpr, with the names of what is in it."""
