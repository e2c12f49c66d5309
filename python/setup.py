"""Build hook: writes clave/_generated from the checkout's schema, and takes build/libclave.so along if there is one."""

import runpy
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
LIBRARY = HERE.parent / "build" / "libclave.so"


class Build(build_py):
    """Adds the generated modules and the library to the package that is built."""

    def run(self):
        generate = runpy.run_path(str(HERE / "clave" / "_generate.py"))["generate"]
        generate(HERE.parent, HERE / "clave" / "_generated")
        super().run()
        if LIBRARY.exists() and not self.editable_mode:
            shutil.copy2(LIBRARY, Path(self.build_lib) / "clave" / "libclave.so")


class Wheel(bdist_wheel):
    """A wheel with the library in it is for this platform, and for any Python 3."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = not LIBRARY.exists()

    def get_tag(self):
        return super().get_tag() if self.root_is_pure else ("py3", "none", super().get_tag()[2])


setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel})
