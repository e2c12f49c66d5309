"""ci/abi: changes that may break programs that were built before."""

import shutil
import subprocess

import pytest
from trials import ROOT


@pytest.fixture
def tree(tmp_path):
    for name in ("ci", "include", "packaging"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def compare(tree, old="", new=""):
    header = tree / "include/clave.h"
    text = header.read_text()
    assert old in text
    header.write_text(text.replace(old, new, 1))
    return subprocess.run([tree / "ci/abi"], capture_output=True, text=True)


def test_the_headers_are_as_programs_were_built_for():
    p = subprocess.run([ROOT / "ci/abi"], capture_output=True, text=True)
    assert p.returncode == 0, p.stdout + p.stderr


@pytest.mark.parametrize(
    "old, new",
    [
        ("} clave_device_info;", "int64_t more; } clave_device_info;"),
        ("  CLAVE_F8_E5M2 = 14 ", "  CLAVE_F8_E5M2 = 14, CLAVE_NEW = 15 "),
        (
            "CLAVE_API const char *clave_version(void);",
            "CLAVE_API const char *clave_version(void), *clave_more(void);",
        ),
    ],
)
def test_what_may_come(tree, old, new):
    p = compare(tree, old, new)
    assert p.returncode == 0, p.stdout


@pytest.mark.parametrize(
    "old, new",
    [
        ('  const char *kind;     /* "cpu"', '  int first; const char *kind; /* "cpu"'),
        ("  int64_t strides[CLAVE_MAX_RANK];", "  int64_t strides[CLAVE_MAX_RANK]; int more;"),
        ("  CLAVE_F16 = 1,", "  CLAVE_F16 = 20,"),
        ("clave_session_destroy(clave_session *session)", "clave_session_destroy(clave_session *session, int more)"),
        ("  uint64_t memory, max_alloc; /* bytes;", "  uint32_t memory, max_alloc; /* bytes;"),
    ],
)
def test_what_needs_a_new_number(tree, old, new):
    assert compare(tree, old, new).returncode & 4
