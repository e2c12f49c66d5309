"""kernels_cl/support/builtins.h declares every function of OpenCL C that a kernel calls by name. Only the op cases
check functions whose names macros join (vload##N)."""

import re
import subprocess
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[2] / "kernels_cl"
CALL = re.compile(r"\b([a-z]\w*)\s*\(")
# Functions called if a device has the extension; its driver declares them.
BY_EXTENSION = re.compile(r"(intel_)?sub_group_|get_(num_|max_|enqueued_num_)?sub_group|dot_4x8packed|arm_dot")


def declared(*options):
    """Returns the functions of the header that `-include` names."""
    clang = ["clang", "-x", "cl", "-cl-std=CL1.2", "-w", "-E", "-P", *options, "-"]
    text = subprocess.run(clang, input="", capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\b([a-z]\w*)\([^()]*\)\s*[;{]", text))


def called():
    """Returns the names followed by a parenthesis in a kernel's text, without comments."""
    found = {}
    for path in sorted(KERNELS.rglob("*.*")):
        if path.name != "builtins.h":
            text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.S)
            found |= {name: path.name for name in CALL.findall(text) if not BY_EXTENSION.match(name)}
    return found


def test_every_function_is_declared():
    of_opencl = declared("-include", "opencl-c.h")
    ours = declared("-DOWN_BUILTINS=1", "-include", KERNELS / "support/builtins.h")
    assert "get_local_id" in of_opencl & ours
    lacking = {name: path for name, path in called().items() if name in of_opencl - ours}
    assert lacking == {}
