"""The package as installers and type checkers see it: matching versions, annotations of all public parts."""

import ctypes.util
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import clave

PACKAGE = Path(clave.__file__).parent


def devices_with(library):
    """Returns the output of the package's first use with this library."""
    env = os.environ | {"PYTHONPATH": str(PACKAGE.parent), "CLAVE_LIBRARY": str(library)}
    program = "import clave\ntry: print(len(clave.devices()))\nexcept clave.Error as e: print(e)"
    return subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True).stdout


def test_a_library_of_another_version_is_refused(tmp_path):
    library = tmp_path / "libclave.so"
    source = 'const char *clave_version(void) { return "0.0.9"; }'
    subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", library], input=source, text=True, check=True)
    said = devices_with(library)
    assert f"{library} is version 0.0.9 and the package in {PACKAGE} is {clave.__version__}" in said


def test_a_library_that_is_not_ours_is_refused():
    library = ctypes.util.find_library("m")
    assert f"{library} is not a library of clave" in devices_with(library)


def test_versions_are_told_once(root):
    assert clave.load(root / "examples/mnist/mnist.clv").methods  # the built library has this version
    assert f"VERSION = {clave.__version__}\n" in (root / "Makefile").read_text()
    assert 'attr = "clave.version.VERSION"' in (root / "python/pyproject.toml").read_text()


def functions():
    for name in clave.__all__:
        thing = getattr(clave, name)
        if inspect.isclass(thing):
            for member, f in vars(thing).items():
                f = getattr(f, "fget", None) or getattr(f, "__func__", f)
                if inspect.isfunction(f) and not member.startswith("_"):
                    yield pytest.param(f, id=f"{name}.{member}")
            if "__init__" in vars(thing):
                yield pytest.param(thing.__init__, id=f"{name}.__init__")
        elif inspect.isfunction(thing):
            yield pytest.param(thing, id=name)


@pytest.mark.parametrize("f", list(functions()))
def test_everything_public_is_typed(f):
    signature = inspect.signature(f)
    bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name not in ("self", "cls")]
    assert bare == [] and signature.return_annotation is not signature.empty
    assert f.__name__ == "__init__" or f.__doc__


def test_type_checkers_are_told():
    """PEP 561: the marker is present, also for the generated modules, which are typed dataclasses."""
    assert (PACKAGE / "py.typed").exists()
    from clave import schema

    assert all(f.type for f in schema.Conv.__dataclass_fields__.values())
