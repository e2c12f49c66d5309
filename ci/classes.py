"""The classes of devices that tests run on, in addition to the machine's own. A class sets environment variables.

PoCL is an OpenCL device on the CPU that shares the host's memory. CLAVE_DEVICE_CLASS makes the OpenCL backend choose
the kernels of GPUs or 64-bit indices for it, and the CPU backend the kernels of processors with fewer instructions.
With the stub OpenCL (test/stub_opencl) PoCL has the limits of a smaller device. As a script, this file prints the path
of the OpenCL loader.
"""

import dataclasses
import subprocess

STUB = {"CLAVE_STUB_REAL": "{opencl}", "LD_LIBRARY_PATH": "{build}/stub"}


@dataclasses.dataclass
class DeviceClass:
    """A class of devices. env: environment variables, with {opencl} and {build}, see `environment`. replay: further
    options of test/replay.c."""

    name: str
    env: dict
    replay: tuple = ()


MAIN = [
    DeviceClass("cpu", {"CLAVE_DEVICE_CLASS": "cpu"}),
    DeviceClass("gpu", {"CLAVE_DEVICE_CLASS": "gpu"}),
]
# Classes of the CPU backend: processors without the widest vectors.
PROCESSORS = [
    DeviceClass("AVX-512 at most", {"CLAVE_DEVICE_CLASS": "avx512"}),
    DeviceClass("AVX2 at most", {"CLAVE_DEVICE_CLASS": "avx2"}),
    DeviceClass("portable C", {"CLAVE_DEVICE_CLASS": "portable"}),
]
# Classes that run a sample of the op cases.
LIMITED = [
    DeviceClass("64-bit indices", {"CLAVE_DEVICE_CLASS": "cpu,wide"}),
    DeviceClass("64-bit indices, gpu", {"CLAVE_DEVICE_CLASS": "gpu,wide"}),
    DeviceClass("separate memory", STUB | {"CLAVE_STUB_SEPARATE": "1", "CLAVE_DEVICE_CLASS": "gpu"}),
    DeviceClass(
        "small buffers",
        STUB | {"CLAVE_STUB_SEPARATE": "1", "CLAVE_STUB_MAX_ALLOC": str(16 << 20)},
        ("--small", "2000000"),  # larger cases have tensors that the device cannot hold
    ),
    DeviceClass(
        "tiny buffers",
        STUB | {"CLAVE_STUB_MAX_ALLOC": "640"},
        ("--fallback", "--only", "norm/", "--part", "0/4"),  # a small share of few cases may have none
    ),
    DeviceClass("slow", {"CLAVE_DEVICE_CLASS": "gpu,slow"}),
    DeviceClass("work-groups of 1", STUB | {"CLAVE_STUB_MAX_GROUP": "1", "CLAVE_STUB_LOCAL_MEM": "32768"}),
    DeviceClass("work-groups of 16", STUB | {"CLAVE_STUB_MAX_GROUP": "16", "CLAVE_STUB_LOCAL_MEM": "32768"}),
    DeviceClass(
        "work-groups of 64, gpu",
        STUB | {"CLAVE_STUB_MAX_GROUP": "64", "CLAVE_STUB_LOCAL_MEM": "32768", "CLAVE_DEVICE_CLASS": "gpu"},
    ),
    DeviceClass("registers of 4 floats", STUB | {"CLAVE_STUB_VECTOR": "4"}),
    DeviceClass("registers of 8 floats", STUB | {"CLAVE_STUB_VECTOR": "8"}),
    DeviceClass("registers of 16 floats", STUB | {"CLAVE_STUB_VECTOR": "16"}),
    DeviceClass("no fma", STUB | {"CLAVE_STUB_NO_FMA": "1", "CLAVE_DEVICE_CLASS": "gpu"}),
    DeviceClass("no fp64", STUB | {"CLAVE_STUB_NO_FP64": "1", "CLAVE_DEVICE_CLASS": "gpu"}, ("--fallback",)),
]


def environment(row, build):
    """Returns the environment variables of a class for programs of a build folder, an absolute path."""
    values = {"opencl": opencl_library(), "build": str(build)}
    return {name: text.format(**values) for name, text in row.env.items()}


def opencl_library():
    """Returns the path of the installed OpenCL loader, or "" if none is installed."""
    listing = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    lines = [line for line in listing.splitlines() if "libOpenCL.so.1 " in line and "=>" in line]
    return lines[0].split("=>")[1].strip() if lines else ""


if __name__ == "__main__":
    print(opencl_library())
