"""Build hook: writes clave/_generated from the checkout's schema, and takes build/libclave.so along if there is one."""

import runpy
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent


class Build(build_py):
    """Adds the generated modules and the library to the package that is built."""

    def run(self):
        generate = runpy.run_path(str(HERE / "clave" / "_generate.py"))["generate"]
        generate(HERE.parent, HERE / "clave" / "_generated")
        super().run()
        library = HERE.parent / "build" / "libclave.so"
        if library.exists() and not self.editable_mode:
            shutil.copy2(library, Path(self.build_lib) / "clave" / "libclave.so")


setup(cmdclass={"build_py": Build})
