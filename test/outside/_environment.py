"""The environment of commands that tests run."""

import os


def without_make():
    """Without the variables that a make which runs the test hands down."""
    handed = ("MAKEFLAGS", "MAKELEVEL", "BUILD", "SAN", "CC", "CFLAGS")
    return {name: value for name, value in os.environ.items() if name not in handed}
