"""Runs programs on the imitated devices."""

import os
import pathlib
import subprocess
import types

import pytest
import small_models

PROFILES = pathlib.Path(__file__).resolve().parent / "profiles"


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Returns a function that returns the path of a model's program, which is made once."""
    folder, made = tmp_path_factory.mktemp("programs"), {}
    return lambda name: made.get(name) or made.setdefault(name, small_models.export(name, folder))


@pytest.fixture
def imitate(build, tmp_path):
    """Returns a function (profile, command, environment) that runs a command of the build folder on an imitated device.

    It returns the exit code, the output, and the lines of the library's log, split at tabs. The stub OpenCL, which
    fails calls on request, comes before the imitated library.
    """
    library, stub = (build / folder / "libOpenCL.so.1" for folder in ("imitated", "stub"))
    if not (library.exists() and stub.exists()):
        pytest.skip("the imitated OpenCL is not built")

    def run(profile, command, timeout=300, **env):
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        alone = {"CLAVE_DEVICE": "opencl:0", "CLAVE_CACHE_DIR": "off", "CLAVE_HELPER": "off", "CLAVE_SELF_CHECK": "off"}
        loaded = {"LD_LIBRARY_PATH": str(stub.parent), "CLAVE_STUB_REAL": str(library)}
        profiled = {"CLAVE_IMITATED_PROFILE": str(PROFILES / f"{profile}.txt"), "CLAVE_IMITATED_LOG": str(log)}
        command = [str(build / command[0]), *map(str, command[1:])]
        env = os.environ | alone | loaded | profiled | env
        p = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
        lines = [line.split("\t") for line in log.read_text().splitlines()] if log.exists() else []
        of = lambda kind: [line[1:] for line in lines if line[0] == kind]
        return types.SimpleNamespace(
            code=p.returncode,
            out=p.stdout,
            err=p.stderr,
            builds=[b[0] for b in of("build")],
            launches=of("launch"),
            broken=of("broken"),
        )

    return run
