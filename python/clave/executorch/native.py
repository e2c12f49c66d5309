"""libclave_executorch.so for the ExecuTorch that is installed: its versions share no binary interface, so each wants a
library of its own. One that was built for it is taken where it lies; else it is built from the sources that packages
carry, by a C++ compiler, once, and kept in clave's cache folder."""

from __future__ import annotations

import atexit
import contextlib
import ctypes as C
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from clave._library import CacheInfo, call, library_folder
from clave.errors import Code, Error
from clave.version import VERSION

NAME = "libclave_executorch.so"
_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parents[1]
_SOURCES = (_PACKAGE / "executorch" / "native", _CHECKOUT)
_MARK = re.compile(rb"built for ExecuTorch ([^\0]+)\0")


def find() -> str:
    """The path of a library that fits. Error: there is none, and it cannot be built."""
    named, wanted = os.environ.get("CLAVE_EXECUTORCH_LIBRARY"), _installed()
    if named:
        if Path(named).is_file():  # else it is for the system's loader to find
            _check(Path(named), wanted)
        return named
    near = [p for p in (_PACKAGE / NAME, _CHECKOUT / "build" / NAME) if p.exists()]
    fitting = next((p for p in near if _fits(p, wanted)), None)
    return str(fitting or _built(wanted))


def _installed() -> str | None:
    """The version of ExecuTorch; None: it does not say."""
    try:
        return importlib.metadata.version("executorch")
    except importlib.metadata.PackageNotFoundError:
        return None


def _version_in(path: Path) -> str | None:
    found = _MARK.search(path.read_bytes())
    return found[1].decode(errors="replace") if found else None


def _fits(path: Path, wanted: str | None) -> bool:
    return wanted is None or _version_in(path) in (wanted, "unknown")


def _check(path: Path, wanted: str | None) -> None:
    if not _fits(path, wanted):
        raise Error(
            f"{path} was built for ExecuTorch {_version_in(path) or 'of no version that it tells'}, and {wanted} is "
            "installed, which has another binary interface: without CLAVE_EXECUTORCH_LIBRARY one that fits is built",
            Code.UNSUPPORTED,
        )


# ---------------------------------------------------------------- building


def _built(version: str | None) -> Path:
    """From the cache, or built into it."""
    script = next((s for f in _SOURCES if (s := f / "delegate" / "executorch" / "build.sh").exists()), None)
    theirs = _package_of_executorch()
    if script is None or theirs is None:
        missing = "the package executorch" if theirs is None else "its sources"
        raise Error(f"{NAME} cannot be built: {missing} is not here", Code.UNSUPPORTED)
    libraries = str(library_folder() or "")
    made = _folder(_key(script, version, str(theirs), libraries)) / NAME
    if not made.exists():
        print(f"clave: note: building {NAME} for ExecuTorch {version or ''}, once, in {made.parent}", file=sys.stderr)
        _build([str(script), str(theirs)], made, libraries)
    return made


def _package_of_executorch() -> Path | None:
    spec = importlib.util.find_spec("executorch")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]).resolve() if folders else None


def _key(script: Path, *more: str | None) -> str:
    """Of all that decides what is built, and of where it finds its libraries."""
    h = hashlib.sha256(repr((VERSION, os.environ.get("CXX"), os.environ.get("CXXFLAGS"), *more)).encode())
    ours = script.parents[2]
    for path in [*sorted(script.parent.iterdir()), ours / "delegate/clave_delegate.h", ours / "include/clave.h"]:
        h.update(path.read_bytes())
    return h.hexdigest()[:16]


def _folder(key: str) -> Path:
    """A folder that this user alone writes to: in the cache, or for this process alone."""
    cache = _cache()
    if cache is not None:
        made = cache / f"executorch-{key}"
        with contextlib.suppress(OSError):
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            made.mkdir(mode=0o700, exist_ok=True)
            if _is_private(cache) and _is_private(made) and ((made / NAME).exists() or os.access(made, os.W_OK)):
                return made
    own = tempfile.mkdtemp(prefix="clave-executorch-")
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return Path(own)


def _cache() -> Path | None:
    """The library's; None: there is none, or it cannot be read."""
    info = CacheInfo()
    with contextlib.suppress(Error):
        call("clave_cache_get_info", C.byref(info))
    return Path(os.fsdecode(info.path)) if info.path else None


def _is_private(folder: Path) -> bool:
    """As the library's folder_is_private."""
    about = folder.stat()
    return about.st_uid == os.geteuid() and not about.st_mode & 0o022


def _build(command: list[str], made: Path, libraries: str) -> None:
    """Written whole or not at all, whoever else builds it."""
    handle, name = tempfile.mkstemp(dir=made.parent, suffix=".so")
    os.close(handle)
    try:
        p = subprocess.run([*command, name, libraries], capture_output=True, text=True, errors="replace")
        if p.returncode == 0:
            os.replace(name, made)
            return
        lines = [line for line in p.stderr.splitlines() if line.strip()]
        why = next((line for line in lines if "error" in line), lines[-1] if lines else f"exit {p.returncode}")
        raise Error(f"{NAME} cannot be built: {why}", Code.UNSUPPORTED)
    except OSError as e:
        raise Error(f"{NAME} cannot be built: {e}", Code.UNSUPPORTED) from e
    finally:
        if os.path.exists(name):
            os.unlink(name)
