"""ci/deps with a fake package manager: it installs only missing packages, as root or through sudo."""

import os
import pathlib
import stat
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def machine(tmp_path):
    """Makes fake tools. machine(missing, ...) runs ci/deps and returns exit code, output, and apt-get's calls."""
    log = tmp_path / "apt.log"

    def tool(name, text):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/bash\n" + text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(missing, user=0, sudo=True, debian=True, target="check"):
        for name in ("bash", "env", "grep"):
            tool(name, f'exec /usr/bin/{name} "$@"\n' if name != "bash" else 'exec /bin/bash "$@"\n')
        tool("id", f"echo {user}\n")
        if debian:
            case = f'for last; do :; done; case " {missing} " in *" $last "*) exit 1 ;; *) echo "ii " ;; esac\n'
            tool("dpkg-query", case)
            tool("apt-get", f'echo "$@" >> {log}\n')
        if sudo:
            tool("sudo", f'echo sudo >> {log}; exec "$@"\n')
        command = ["/bin/bash", str(ROOT / "ci/deps"), target]
        p = subprocess.run(command, env={"PATH": str(tmp_path / "bin")}, capture_output=True, text=True)
        return p.returncode, p.stdout + p.stderr, log.read_text() if log.exists() else ""

    return run


def test_nothing_missing_calls_nothing(machine):
    assert machine("") == (0, "", "")


def test_root_installs_only_what_is_missing(machine):
    code, output, calls = machine("libpcre2-dev oclgrind")
    assert code == 0 and "sudo" not in calls
    assert calls.split()[-2:] in (["libpcre2-dev", "oclgrind"], ["oclgrind", "libpcre2-dev"]), calls
    assert "gcc" not in calls and "libpcre2-dev" in output


def test_a_user_goes_through_sudo(machine):
    code, _, calls = machine("libpcre2-dev", user=1000)
    assert code == 0 and calls.startswith("sudo") and "libpcre2-dev" in calls


def test_without_sudo_it_says_what_to_install(machine):
    code, output, calls = machine("libpcre2-dev", user=1000, sudo=False)
    assert code == 1 and calls == "" and "apt-get install" in output and "libpcre2-dev" in output


def test_elsewhere_it_says_what_to_install(machine):
    code, output, calls = machine("", debian=False, target="demo")
    assert code == 0 and calls == "" and "libpcre2-dev" in output and "oclgrind" not in output


def test_demo_needs_fewer(machine):
    assert machine("oclgrind", target="demo") == (0, "", "")
    assert os.access(ROOT / "ci/deps", os.X_OK)
