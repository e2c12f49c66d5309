"""The package's version, which is that of the library that it loads."""

VERSION = "0.2.0"
