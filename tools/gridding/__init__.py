"""Every elementwise function of JAX's modules, for every element type, at special values."""
