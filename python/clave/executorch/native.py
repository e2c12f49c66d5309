"""Finds or builds libclave_executorch.so for the installed version of ExecuTorch.

The versions of ExecuTorch share no binary interface, so each needs its own library. If no library was built for the
installed version, a C++ compiler builds one from the sources in the package and keeps it in clave's cache folder.
"""

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
    """Returns the path of a library for the installed ExecuTorch. Raises Error if none exists or can be built."""
    named, wanted = os.environ.get("CLAVE_EXECUTORCH_LIBRARY"), _installed()
    if named:
        if Path(named).is_file():  # otherwise the system's loader looks for it
            _check(Path(named), wanted)
        return named
    near = [p for p in (_PACKAGE / NAME, _CHECKOUT / "build" / NAME) if p.exists()]
    fitting = next((p for p in near if _fits(p, wanted)), None)
    return str(fitting or _built(wanted))


def _installed() -> str | None:
    """Returns the version of ExecuTorch, or None if it has no metadata."""
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
            f"{path} was built for ExecuTorch {_version_in(path) or 'of an unknown version'}, but {wanted} is "
            "installed, which has another binary interface: unset CLAVE_EXECUTORCH_LIBRARY to build a library for it",
            Code.UNSUPPORTED,
        )


# ---------------------------------------------------------------- building


def _built(version: str | None) -> Path:
    """Returns the library in the cache, after building it if it is missing."""
    script = next((s for f in _SOURCES if (s := f / "delegate" / "executorch" / "build.sh").exists()), None)
    theirs = _package_of_executorch()
    if script is None or theirs is None:
        missing = "the package executorch is" if theirs is None else "its sources are"
        raise Error(f"{NAME} cannot be built: {missing} missing", Code.UNSUPPORTED)
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
    """Returns a hash of all that affects the built library, including the folders of the libraries that it loads."""
    h = hashlib.sha256(repr((VERSION, os.environ.get("CXX"), os.environ.get("CXXFLAGS"), *more)).encode())
    ours = script.parents[2]
    for path in [*sorted(script.parent.iterdir()), ours / "delegate/clave_delegate.h", ours / "include/clave.h"]:
        h.update(path.read_bytes())
    return h.hexdigest()[:16]


def _folder(key: str) -> Path:
    """Returns a folder that only this user can write to: in the cache, or a temporary one of this process."""
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
    """Returns clave's cache folder, or None if there is no such folder or its path cannot be read."""
    info = CacheInfo()
    with contextlib.suppress(Error):
        call("clave_cache_get_info", C.byref(info))
    return Path(os.fsdecode(info.path)) if info.path else None


def _is_private(folder: Path) -> bool:
    """True under the same conditions as folder_is_private of base/file.h."""
    about = folder.stat()
    return about.st_uid == os.geteuid() and not about.st_mode & 0o022


def _build(command: list[str], made: Path, libraries: str) -> None:
    """Builds the library atomically, so that other processes may build it at the same time."""
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
