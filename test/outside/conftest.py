"""Fixtures for tests that use clave like a user who has only the repository."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# Variables that an outsider has: none from the test runner or this machine's set-up, except those with which package
# installers find their index.
KEPT = ("PATH", "LANG", "TERM", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "CCACHE_DIR", "CCACHE_NOHASHDIR")
KEPT_PREFIXES = ("PIP_", "REQUESTS_", "HTTP", "http", "NO_PROXY", "no_proxy")


def git(*arguments, cwd=ROOT, **more):
    """Runs git in `cwd` and returns its output."""
    name = ["-c", "user.name=outsider", "-c", "user.email=outsider@localhost"]
    return subprocess.run(["git", *name, *arguments], cwd=cwd, check=True, capture_output=True, **more).stdout


@pytest.fixture(scope="session")
def clone(tmp_path_factory):
    """A fresh clone of the repository, with the working tree's changes to tracked files committed. The clone is not
    built, and there is no `../shared` beside it. Tests that write into it copy it first."""
    folder = tmp_path_factory.mktemp("outside") / "clave"
    git("clone", "-q", "--no-hardlinks", str(ROOT), str(folder))
    changes = git("diff", "HEAD", "--binary")
    if changes:
        git("apply", "--index", cwd=folder, input=changes)
        git("commit", "-q", "-m", "changes of the working tree", cwd=folder)
    return folder


@pytest.fixture
def outsider(tmp_path):
    """Returns the environment of a new user: an empty home, and no variables of clave."""
    home = tmp_path / "home"
    home.mkdir()
    kept = {k: v for k, v in os.environ.items() if k in KEPT or k.startswith(KEPT_PREFIXES)}
    config = pathlib.Path(os.environ.get("HOME", "/nonexistent")) / ".config/pip/pip.conf"
    if config.exists() and "PIP_CONFIG_FILE" not in kept:
        (home / ".config/pip").mkdir(parents=True)
        shutil.copy(config, home / ".config/pip/pip.conf")
    return kept | {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
