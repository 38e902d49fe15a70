"""What can go wrong, one class per kind."""


class Jax2OnnxError(Exception):
    """Anything that this package raises on purpose."""

    __module__ = "jax2onnx"


class UnsupportedError(Jax2OnnxError):
    """A primitive, a parameter or a type has no counterpart in ONNX, or none yet."""

    __module__ = "jax2onnx"


class InputSpecError(Jax2OnnxError, ValueError):
    """An input of the function is not described in a way that can be understood."""

    __module__ = "jax2onnx"


class ConfigError(Jax2OnnxError, ValueError):
    """A switch or an option has a value that it cannot have."""

    __module__ = "jax2onnx"


class WriteError(Jax2OnnxError, OSError):
    """The model could not be written. What was there before is as it was."""

    __module__ = "jax2onnx"


class InternalError(Jax2OnnxError):
    """An invariant of this package is broken. Please report it."""

    __module__ = "jax2onnx"
