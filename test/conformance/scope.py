"""Which ops of torch's database are in scope, and why the others are not."""

import fnmatch
import functools

import samples

# Pattern of names, reason. What no row matches is in scope.
OUT = [
    ("fft.*", "FFT: complex"),
]

# Results are compared in shape and dtype only.
RANDOM: set[str] = set()
# Pointwise ops that torch's database does not list as such.
POINTWISE: set[str] = set()


@functools.cache
def reason(name: str) -> str:
    """Why an op is out of scope, or nothing."""
    return next((why for pattern, why in OUT if fnmatch.fnmatchcase(name, pattern)), "")


def in_scope() -> list[str]:
    return [name for name in samples.infos() if not reason(name)]
