"""Shared parts of the package trials: folders that all users can read, an ordinary user, a bare environment."""

import contextlib
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VERSION = re.search(r"^VERSION = (.*)", (ROOT / "Makefile").read_text(), re.M)[1]
MODEL, DIGIT = ROOT / "examples/mnist/mnist.clv", ROOT / "examples/mnist/digits/7.npy"
IMAGE = ROOT / "examples/mnist/digits/7.pgm"


@contextlib.contextmanager
def scratch():
    """Yields a folder that every user can read. Only its owner can read a test's own folder (tmp_path)."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="clave-trial-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def bare(**more):
    """Returns an environment without this checkout's settings."""
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "TMPDIR", "OCL_ICD_VENDORS")}
    pip = {k: v for k, v in os.environ.items() if k.startswith("PIP_")}  # how the machine reaches the package index
    return kept | pip | {"CLAVE_CACHE_DIR": "off", "HOME": "/dev/null"} | more


def run(*command, as_user=False, env=None, cwd=None, code=0):
    """Returns the output of a command; as_user: run it as an ordinary user if the test runs as root."""
    command = [str(c) for c in command]
    if as_user and os.geteuid() == 0:
        user = pwd.getpwnam("nobody")
        command = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *command]
    p = subprocess.run(
        command, env=env or bare(), cwd=cwd or "/", capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert p.returncode == code, f"{command}\n{p.stdout[-3000:]}{p.stderr[-3000:]}"
    return p.stdout + p.stderr


def others_reach(path):
    """True if an ordinary user can run the program at this path."""
    real = pathlib.Path(path).resolve()
    return all(p.stat().st_mode & 0o001 for p in (real, *real.parents))


def make(*goals):
    env = {k: v for k, v in os.environ.items() if k not in ("BUILD", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    p = subprocess.run(["make", "--no-print-directory", *goals], cwd=ROOT, env=env, capture_output=True, text=True)
    assert p.returncode == 0, p.stdout[-3000:] + p.stderr[-3000:]
    return p.stdout


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir() or p.is_symlink())


def readable(folder, *paths):
    """Copies files to a folder, readable by every user."""
    for p in paths:
        shutil.copy(p, folder / p.name)
        (folder / p.name).chmod(0o644)
    return [folder / p.name for p in paths]
