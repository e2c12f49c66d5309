"""Build hook: writes clave/_generated from the sources of clave, and builds the library and the tool of the package.

The sources are the repository above this folder; a source archive (sdist) has a copy of them in sources/. An editable
install uses the build folder of the repository.
CLAVE_WHEEL=pure builds a package without library and tool, for machines where libclave.so is installed separately.
"""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
SCHEMA = "serialize/schema.fbs"
SOURCES = next((f for f in (HERE / "sources", HERE.parent) if (f / SCHEMA).exists()), None)
FILES = ("libclave.so", "libclave_delegate.so", "clave")
# Archives that `clave compile` links into executables that carry the runtime. Language models need the last two.
ARCHIVES = ("libclave.a", "libclave_main.a", "libpcre2-8.a", "libutf8proc.a")
HEADERS = ("delegate/clave_delegate.h", "include/clave.h")
# Debian packages of the statically linked libraries, which install their licences.
LINKED = ("libpcre2-dev", "libutf8proc-dev", "libedit-dev", "libbsd-dev", "libncurses-dev")
IS_PURE = os.environ.get("CLAVE_WHEEL") == "pure"

# Folders, files and suffixes that a source archive copies from the repository, to build a wheel from it.
ROOMS = "api backend base cli compile delegate include interp json jinja kernels_cl llm mk ops serialize tokenizer"
SINGLE = ("LICENSE", "Makefile", "README.md")
SUFFIXES = {".c", ".cc", ".cl", ".fbs", ".h", ".mk", ".py", ".sh", ".tsv"}

# Debian package by header. A package is installed if the compiler finds its header.
NEEDED = {
    "CL/cl.h": "opencl-c-headers",
    "clblast_c.h": "libclblast-dev",
    "pcre2.h": "libpcre2-dev",
    "utf8proc.h": "libutf8proc-dev",
    "xxhash.h": "libxxhash-dev",
}
OTHERWISE = "; CLAVE_WHEEL=pure installs the package without the library"


def probe(compiler: list[str]) -> set[str] | None:
    """Returns the headers of NEEDED that the compiler does not find, or None if the compiler does not run."""
    lines = ["#define PCRE2_CODE_UNIT_WIDTH 8", "#ifndef __has_include", "#error too old", "#endif"]
    for header in NEEDED:
        lines += [f"#if !__has_include(<{header}>)", f'"missing {header}"', "#endif"]
    try:
        p = subprocess.run([*compiler, "-E", "-P", "-xc", "-"], input="\n".join(lines), capture_output=True, text=True)
    except OSError:
        return None
    return {h for h in NEEDED if f'"missing {h}"' in p.stdout} if p.returncode == 0 else None


def missing_packages() -> list[str]:
    """Returns the Debian packages that the build needs and this machine lacks."""
    headers = probe(os.environ.get("CC", "gcc").split())
    missing = [] if shutil.which("make") else ["make"]
    if headers is None:
        return [*missing, "gcc", "libc6-dev", *NEEDED.values()]
    return missing + [package for header, package in NEEDED.items() if header in headers]


def make(*goals: str) -> None:
    """Builds make goals in the sources' build folder. Exits with a message if that fails."""
    missing = missing_packages()
    if missing:
        raise SystemExit(f"clave is built from C and needs the Debian packages {' '.join(missing)}{OTHERWISE}")
    command = ["make", "--no-print-directory", "-s", f"-j{os.cpu_count()}", "BUILD=build", f"PYTHON={sys.executable}"]
    env = {k: v for k, v in os.environ.items() if k not in ("BUILD", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    try:
        subprocess.run([*command, *goals], cwd=SOURCES, env=env, check=True)
    except (OSError, subprocess.CalledProcessError) as e:
        raise SystemExit(f"libclave.so could not be built ({e}); the lines above say why{OTHERWISE}") from None


def generate() -> None:
    """Writes clave/_generated, which git ignores, before setuptools looks for packages."""
    if SOURCES is None:
        raise SystemExit("clave's C sources are not above this folder: install from a clone of the whole repository")
    runpy.run_path(str(HERE / "clave" / "_generate.py"))["generate"](SOURCES, HERE / "clave" / "_generated")


class Build(build_py):
    """Adds the library, the tool and the files that they need to the package."""

    def run(self):
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)  # files of an earlier build do not belong to this wheel
        super().run()
        package = Path(self.build_lib) / "clave"
        if self.editable_mode:
            if not IS_PURE:
                make("all")
            return
        self.add_sources(package / "executorch/native")
        if not IS_PURE:
            make("wheel-files")
            self.add_files(package)

    def add_sources(self, folder):
        """Copies the sources from which `clave.executorch` builds the backend for the installed ExecuTorch."""
        for path in [*(SOURCES / "delegate/executorch").iterdir(), *(SOURCES / h for h in HEADERS)]:
            to = folder / path.relative_to(SOURCES)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, to)

    def add_files(self, package):
        for name in (*FILES, *ARCHIVES):
            shutil.copy2(SOURCES / "build/wheel" / name, package / name)
        for name in LINKED:
            text = Path("/usr/share/doc") / name / "copyright"
            if text.exists():
                (package / "licenses").mkdir(exist_ok=True)
                shutil.copyfile(text, package / "licenses" / f"{name}.txt")


class Archive(sdist):
    """Adds the C sources to the source archive, so that a wheel can be built from it alone."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        if self.dry_run:
            return
        to = Path(base_dir) / "sources"
        for name in SINGLE:
            to.mkdir(exist_ok=True)
            shutil.copy2(SOURCES / name, to / name)
        for path in (p for room in ROOMS.split() for p in (SOURCES / room).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                copy = to / path.relative_to(SOURCES)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)


class Wheel(bdist_wheel):
    """Tags a wheel that contains the library for this platform and for any Python 3."""

    def get_tag(self):
        return super().get_tag() if self.root_is_pure else ("py3", "none", super().get_tag()[2])


class Platform(Distribution):
    """Marks a package that contains the library as platform-specific, although it has no Python extension module."""

    def has_ext_modules(self):
        return not IS_PURE


generate()
setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel, "sdist": Archive}, distclass=Platform)
