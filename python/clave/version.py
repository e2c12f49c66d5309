"""The package's version, which is also that of the library."""

VERSION = "0.2.0"
