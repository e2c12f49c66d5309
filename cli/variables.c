/* The environment variables that the library and the tool read. */
#include "cli/variables.h"

#include "cli/command.h"

const variable all_variables[] = {
    {"CLAVE_DEVICE", "DEVICE", "the device to use if --device is not given"},
    {"CLAVE_THREADS", "N", "number of threads of the CPU backend (default: all CPUs)"},
    {"CLAVE_CACHE_DIR", "DIR",
     "cache folder of kernel binaries and tuning tables; off: nothing is cached"},
    {"CLAVE_KERNEL_DIR", "DIR",
     "folder of OpenCL kernel sources that replace those in the library"},
    {"CLAVE_MEMORY_BUDGET", "BYTES", "limit of the device memory of a session, in bytes"},
    {"CLAVE_PRECISION", "strict|fast",
     "precision of kernels: strict (default), or fast, which rounds some values to 16 bits or "
     "fewer"},
    {"CLAVE_SELF_CHECK", "off|strict",
     "off: kernels are not checked against the CPU backend; strict: a wrong result is an error "
     "(default: its op moves to the CPU backend)"},
    {"CLAVE_HELPER", "FILE",
     "path of this tool, which the library starts to build kernels in parallel (default: beside "
     "the library); off: the process builds its own kernels"},
    {"CLAVE_OPENCL_LIBRARY", "FILE",
     "the OpenCL library to open instead of the system's (libOpenCL.so.1); off: opens none, so "
     "only "
     "the CPU backend is available"},
    {"CLAVE_ISOLATION", "on|off",
     "on: child processes try new kernels of every driver first; off: nothing is tried (default: "
     "kernels of all drivers except PoCL)"},
    {"CLAVE_BUILD_TIMEOUT", "SECONDS",
     "time that a driver has to build a kernel or list its devices in a child process (default: "
     "60)"},
    {"CLAVE_DOT", "FILE",
     "Graphviz program that lays out graphs (default: dot on PATH); off: uses the built-in layout, "
     "which is the same on every machine"},
    {"CLAVE_ASM", NULL, NULL},          /* see docs/developers/testing.md */
    {"CLAVE_DEVICE_CLASS", NULL, NULL}, /* see docs/developers/testing.md */
};
const size_t n_variables = LENGTH(all_variables);
