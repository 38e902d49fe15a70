"""The parts of the command line that need Python."""
