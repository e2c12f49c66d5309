"""Paths that the Python tests share. CLAVE_BUILD: the build folder (default: build); CLAVE_TEST_DATA: outside data."""

import os
import pathlib
import sys
import zlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent

# The self-check is off, because it would run the CPU backend instead of a wrong kernel.
os.environ.setdefault("CLAVE_SELF_CHECK", "off")


def pytest_configure(config):
    meaning = "make check runs one in n of these tests, make check-more others each day; equal names run together"
    config.addinivalue_line("markers", f"by_turn(n, together=''): {meaning}")


def pytest_collection_modifyitems(config, items):
    turn, chosen, others = os.environ.get("CLAVE_TEST_TURN"), [], []
    for item in items:
        marker = item.get_closest_marker("by_turn") if turn else None
        name = marker and (marker.kwargs.get("together") or item.nodeid)
        left_out = marker and zlib.crc32(f"{turn} {name}".encode()) % marker.args[0]
        (others if left_out else chosen).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = chosen


@pytest.fixture(scope="session", autouse=True)
def no_fallback():
    """Makes unsupported ops errors in all tests except those that request the fallback."""
    sys.path.insert(0, str(ROOT / "python"))
    import clave

    clave.Device.__init__.__kwdefaults__["fallback"] = False


@pytest.fixture(autouse=True)
def verified_exports(request, monkeypatch):
    """Verifies each export against its module (clave.export's verify=True), in addition to the test's own checks.
    Except in make check-all, this applies to one test in sixteen, which differ each day."""
    turn = os.environ.get("CLAVE_TEST_TURN")
    if turn and zlib.crc32(f"verify {turn} {request.node.nodeid}".encode()) % 16:
        return
    import clave

    plain = clave.export

    def export(*args, verify=None, **more):
        if verify is not None:
            return plain(*args, verify=verify, **more)
        try:
            return plain(*args, verify=True, **more)
        except clave.Error as e:
            if "cannot be verified" not in str(e):
                raise
            return plain(*args, **more)

    monkeypatch.setattr(clave, "export", export)


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def build():
    return pathlib.Path(os.environ.get("CLAVE_BUILD") or ROOT / "build").resolve()


@pytest.fixture(scope="session")
def test_data():
    """Returns ../shared/data; skips the test if the folder does not exist."""
    folder = pathlib.Path(os.environ.get("CLAVE_TEST_DATA") or ROOT / "../shared/data").resolve()
    if not folder.is_dir():
        pytest.skip(f"no outside test data at {folder}")
    return folder


@pytest.fixture(scope="session")
def everything():
    """True under make check-all."""
    return bool(os.environ.get("CLAVE_TEST_ALL"))


@pytest.fixture(scope="session")
def real_opencl():
    """Returns the path of the OpenCL loader that programs find without our help."""
    sys.path.insert(0, str(ROOT / "ci"))
    import classes

    return classes.opencl_library() or pytest.skip("no OpenCL loader on this machine")


@pytest.fixture(scope="module")
def processes():
    """Returns the processes by device class: the OpenCL devices of each are of that class (_as_class.py)."""
    import _as_class

    started = _as_class.Processes()
    yield started
    for process in started.values():
        process.close()


@pytest.fixture(scope="module")
def stub(build, real_opencl):
    """Returns the environment in which a process loads test/stub_opencl as its OpenCL."""
    folder = build / "stub"
    if not (folder / "libOpenCL.so.1").exists():
        pytest.skip("the stub OpenCL is not built")
    alone = {"CLAVE_HELPER": "off"}  # child processes would count and log their own calls
    return {"LD_LIBRARY_PATH": str(folder), "CLAVE_STUB_REAL": real_opencl, "CLAVE_DEVICE": ""} | alone
