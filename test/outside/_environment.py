"""The environment of commands that tests run."""

import os


def without_make():
    """Returns the environment without the variables of a make that runs the test."""
    handed = ("MAKEFLAGS", "MAKELEVEL", "BUILD", "SAN", "CC", "CFLAGS")
    return {name: value for name, value in os.environ.items() if name not in handed}
