"""Paths that the Python tests share. CLAVE_BUILD: the build folder (default: build); CLAVE_TEST_DATA: outside data."""

import os
import pathlib
import sys
import zlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent

# It would put the CPU backend in the place of a wrong kernel.
os.environ.setdefault("CLAVE_SELF_CHECK", "off")


def pytest_configure(config):
    meaning = "make check runs one in n of these, make check-more others each day; those with one name together"
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
    """What a device cannot run is an error in every test, but where one asks for fallback."""
    sys.path.insert(0, str(ROOT / "python"))
    import clave

    clave.Device.__init__.__kwdefaults__["fallback"] = False


@pytest.fixture(autouse=True)
def verified_exports(request, monkeypatch):
    """Exports are verified against their modules (clave.export's verify=True), whatever else a test looks at:
    below make check-all those of one test in sixteen, of others on the next day."""
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
    """../shared/data; a test that needs it is skipped where it is absent."""
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
    """Path of the OpenCL loader that programs find without our help."""
    sys.path.insert(0, str(ROOT / "ci"))
    import classes

    return classes.opencl_library() or pytest.skip("no OpenCL loader on this machine")


@pytest.fixture(scope="module")
def processes():
    """By device class: processes whose OpenCL devices are of it (_as_class.py)."""
    import _as_class

    started = _as_class.Processes()
    yield started
    for process in started.values():
        process.close()


@pytest.fixture(scope="module")
def stub(build, real_opencl):
    """The environment in which a process has test/stub_opencl for its OpenCL."""
    folder = build / "stub"
    if not (folder / "libOpenCL.so.1").exists():
        pytest.skip("the stub OpenCL is not built")
    alone = {"CLAVE_HELPER": "off"}  # child processes would count and log calls of their own
    return {"LD_LIBRARY_PATH": str(folder), "CLAVE_STUB_REAL": real_opencl, "CLAVE_DEVICE": ""} | alone
