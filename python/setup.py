"""Build hook: writes clave/_generated from the checkout's schema, and makes the library and the tool of the wheel.

CLAVE_WHEEL=pure: a wheel without them, for where libclave.so is installed by itself.
"""

import os
import runpy
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
MADE = CHECKOUT / "build" / "wheel"
FILES = ("libclave.so", "libclave_delegate.so", "clave")
HEADERS = ("delegate/clave_delegate.h", "include/clave.h")
# Their licences want to be with what they are linked into: as Debian installs them.
LINKED = ("libpcre2-dev", "libutf8proc-dev", "libedit-dev", "libbsd-dev", "libncurses-dev")
IS_PURE = os.environ.get("CLAVE_WHEEL") == "pure"


def make_library() -> None:
    """build/wheel, by make."""
    command = ["make", "--no-print-directory", "-s", f"-j{os.cpu_count()}", "BUILD=build", "wheel-files"]
    env = {k: v for k, v in os.environ.items() if k not in ("BUILD", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    try:
        subprocess.run(command, cwd=CHECKOUT, env=env, check=True)
    except (OSError, subprocess.CalledProcessError) as e:
        wanted = "README.md says what it needs; CLAVE_WHEEL=pure makes a wheel without the library"
        raise SystemExit(f"libclave.so could not be built ({e}): {wanted}") from None


class Build(build_py):
    """Adds the generated modules, the library and the tool to the package that is built."""

    def run(self):
        shutil.rmtree(self.build_lib, ignore_errors=True)  # an earlier build's files are none of this wheel's
        generate = runpy.run_path(str(HERE / "clave" / "_generate.py"))["generate"]
        generate(CHECKOUT, HERE / "clave" / "_generated")
        super().run()
        if not self.editable_mode:
            self.add_sources(Path(self.build_lib) / "clave/executorch/native")
        if not self.editable_mode and not IS_PURE:
            make_library()
            self.add_files(Path(self.build_lib) / "clave")

    def add_sources(self, folder):
        """What builds the backend for a version of ExecuTorch, where that is."""
        for path in [*(CHECKOUT / "delegate/executorch").iterdir(), *(CHECKOUT / h for h in HEADERS)]:
            to = folder / path.relative_to(CHECKOUT)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, to)

    def add_files(self, package):
        for name in FILES:
            shutil.copy2(MADE / name, package / name)
        for name in LINKED:
            text = Path("/usr/share/doc") / name / "copyright"
            if text.exists():
                (package / "licenses").mkdir(exist_ok=True)
                shutil.copyfile(text, package / "licenses" / f"{name}.txt")


class Wheel(bdist_wheel):
    """A wheel with the library in it is for this platform, and for any Python 3."""

    def get_tag(self):
        return super().get_tag() if self.root_is_pure else ("py3", "none", super().get_tag()[2])


class Platform(Distribution):
    """What has a library in it belongs to a platform, though nothing in it is a Python extension."""

    def has_ext_modules(self):
        return not IS_PURE


setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel}, distclass=Platform)
