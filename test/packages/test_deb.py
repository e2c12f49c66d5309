"""The Debian packages: an ordinary user builds them from a clean archive, lintian accepts them, and dpkg installs them
into a separate root, where they are used and purged without remains."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tarfile

import pytest
from trials import DIGIT, IMAGE, MODEL, ROOT, VERSION, bare, files, make, readable, run, scratch

LIBRARIES = "usr/lib/{}"


@pytest.fixture(scope="module")
def folder():
    with scratch() as made:
        if os.geteuid() == 0:
            user = pwd.getpwnam("nobody")
            os.chown(made, user.pw_uid, user.pw_gid)
        yield made


@pytest.fixture(scope="module")
def packages(folder):
    """Returns {name: file}, without the packages of debugging symbols."""
    make("dist")
    archive = next((ROOT / "build").glob("clave-*.tar.gz"))
    version = archive.name.removeprefix("clave-").removesuffix(".tar.gz")
    build = folder / "build"
    run("mkdir", "-p", build, as_user=True)
    readable(build, archive)
    with tarfile.open(archive) as t:
        t.extractall(folder, filter="data")
    script = folder / f"clave-{version}/packaging/deb"
    env = bare(DEBEMAIL="packager@example.org", DEBFULLNAME="A Packager", HOME=str(folder))
    run(script, build, version, env=env, as_user=True)
    found = {f.name.partition("_")[0]: f for f in (build / "deb").glob("*.deb")}
    return {name: f for name, f in found.items() if not name.endswith("-dbgsym")}


def test_the_archive_is_the_commit():
    make("dist")
    archive = next((ROOT / "build").glob("clave-*.tar.gz"))
    listed = subprocess.run(["git", "ls-tree", "-r", "--name-only", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    with tarfile.open(archive) as t:
        names = {m.name.partition("/")[2] for m in t.getmembers() if not m.isdir()}
    assert names == set(listed.stdout.splitlines())
    first = archive.read_bytes()
    make("dist")
    assert archive.read_bytes() == first


def test_lintian_accepts_them(packages):
    assert set(packages) == {"clave", "clave-delegate", "libclave0", "libclave-dev"}
    said = run("lintian", "--fail-on", "error,warning", "--allow-root", *packages.values())
    assert "E:" not in said and "W:" not in said


def test_they_need_the_loader(packages):
    for name in ("clave", "clave-delegate", "libclave0"):
        fields = run("dpkg-deb", "-f", packages[name], "Depends", "Recommends")
        depends, _, recommends = fields.partition("Recommends:")
        assert "ocl-icd-libopencl1" in depends and "pocl-opencl-icd" in recommends


def dpkg(root, *command):
    forced = ["--force-not-root", "--force-depends", "--log=/dev/null"]
    return run("dpkg", f"--root={root}", *forced, *command, as_user=True)


@pytest.fixture(scope="module")
def root(folder, packages):
    top = folder / "root"
    run("mkdir", "-p", top / "var/lib/dpkg/info", top / "var/lib/dpkg/updates", as_user=True)
    run("touch", top / "var/lib/dpkg/status", as_user=True)
    dpkg(top, "-i", *packages.values())
    return top


def test_a_user_runs_the_tool(folder, root):
    model, digit = readable(folder, MODEL, DIGIT)
    said = run(root / "usr/bin/clave", "run", model, "--device", "cpu", "--input", f"x={digit}", as_user=True)
    assert "[1, 10]" in said
    doctor = run(root / "usr/bin/clave", "doctor", "--device", "cpu", "--json", as_user=True)
    assert json.loads(doctor)["problems"] == []


def test_the_plugin_is_opened_by_its_name(root):
    library = next((root / "usr/lib").glob("*/libclave_delegate.so"))
    opened = "import ctypes; print(bool(ctypes.CDLL('libclave_delegate.so').clave_delegate_register))"
    env = bare(LD_LIBRARY_PATH=str(library.parent))
    assert run(sys.executable, "-c", opened, env=env, as_user=True).strip() == "True"


def test_the_example_is_built_with_them(folder, root):
    libraries = next((root / "usr/lib").glob("*/libclave.so")).parent
    model, image = readable(folder, MODEL, IMAGE)
    paths = {"PKG_CONFIG_SYSROOT_DIR": str(root), "PKG_CONFIG_PATH": str(libraries / "pkgconfig")}
    env = bare(LD_LIBRARY_PATH=str(libraries), CLAVE_DEVICE="cpu", **paths)
    source = root / "usr/share/doc/libclave-dev/examples/embed_c/embed.c"
    flags = run("pkg-config", "--cflags", "--libs", "clave", env=env).split()
    run("cc", "-std=c11", "-o", folder / "embed", source, *flags, env=env, as_user=True)
    assert "is a 7" in run(folder / "embed", model, image, env=env, as_user=True)


@pytest.mark.parametrize("target", ["clave::clave", "clave::static"])
def test_cmake_finds_it(folder, root, target):
    libraries = next((root / "usr/lib").glob("*/libclave.so")).parent
    model, image = readable(folder, MODEL, IMAGE)
    project = folder / target.replace("::", "_")
    run("mkdir", project, as_user=True)
    lists = [
        "cmake_minimum_required(VERSION 3.13)",
        "project(embed C)",
        f"find_package(clave {VERSION.rpartition('.')[0]} REQUIRED)",
    ]
    lists += ["add_executable(embed embed.c)", f"target_link_libraries(embed {target})"]
    (project / "CMakeLists.txt").write_text("\n".join(lists))
    shutil.copy(ROOT / "examples/embed_c/embed.c", project)
    env = bare(CLAVE_DEVICE="cpu", HOME=str(folder))
    where = f"-Dclave_DIR={libraries / 'cmake/clave'}"
    run("cmake", "-S", project, "-B", project / "b", where, env=env, as_user=True)
    run("cmake", "--build", project / "b", env=env, as_user=True)
    assert "is a 7" in run(project / "b/embed", model, image, env=env, as_user=True)
    linked = (project / "b/CMakeFiles/embed.dir/link.txt").read_text()
    assert ("--gc-sections" in linked) == (target == "clave::static")
    (project / "CMakeLists.txt").write_text("\n".join(lists).replace("find_package(clave ", "find_package(clave 9"))
    assert VERSION in run("cmake", "-S", project, "-B", project / "c", where, env=env, as_user=True, code=1)


def test_it_carries_what_builds_the_backend_for_executorch(root):
    folder = root / "usr/share/clave"
    assert {"delegate/executorch/backend.cc", "delegate/clave_delegate.h", "include/clave.h"} <= set(files(folder))
    said = run(folder / "delegate/executorch/build.sh", folder, "out.so", as_user=True, code=1)
    assert "no ExecuTorch package, version 1.5 or later" in said


def test_shells_read_their_completions(root):
    assert run("zsh", "-n", root / "usr/share/zsh/vendor-completions/_clave") == ""
    assert run("fish", "-n", root / "usr/share/fish/vendor_completions.d/clave.fish") == ""


def test_manual_pages_have_no_warnings(root):
    for page in (root / "usr/share/man/man1").iterdir():
        said = run("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page, env=bare(MANWIDTH="80"))
        assert "warning" not in said, page.name


def test_purging_them_leaves_nothing(root, packages):
    dpkg(root, "-P", *packages)
    assert [f for f in files(root) if not f.startswith("var/lib/dpkg/")] == []
    assert "clave" not in (root / "var/lib/dpkg/status").read_text()
