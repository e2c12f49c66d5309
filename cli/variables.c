/* The environment variables that the library and the tool read. */
#include "cli/variables.h"

#include "cli/command.h"

const variable all_variables[] = {
    {"CLAVE_DEVICE", "DEVICE", "the device where --device does not name one"},
    {"CLAVE_THREADS", "N", "threads of the CPU backend; default: all CPUs"},
    {"CLAVE_CACHE_DIR", "DIR", "where kernel binaries and tuning tables are kept; off: nowhere"},
    {"CLAVE_KERNEL_DIR", "DIR", "kernels are read from there, not from the library"},
    {"CLAVE_MEMORY_BUDGET", "BYTES", "memory that a session may take on its device"},
    {"CLAVE_PRECISION", "strict|fast", "how exactly kernels compute"},
    {"CLAVE_SELF_CHECK", "off|strict",
     "off: kernels are not compared with the CPU backend when they first run on a device; strict: "
     "wrong results are an error, not replaced by the CPU backend's"},
    {"CLAVE_ASM", "0|NAME",
     "0: kernels use no instructions that only some GPUs have; or the only one that they may use: "
     "cl_khr_integer_dot_product, subgroups, mma_sync; or, for tests, mma_local, which computes "
     "the "
     "same as mma_sync in plain OpenCL C"},
    {"CLAVE_HELPER", "FILE",
     "this tool, which builds kernels for processes that use the library, if it is not beside it; "
     "off: they build by themselves"},
    {"CLAVE_DOT", "FILE",
     "graphviz' program, which places the boxes of drawings, if it is not dot by PATH; off: a "
     "layout of clave's own does, the same on every machine"},
    {"CLAVE_DEVICE_CLASS", "CLASS",
     "for tests; cpu or gpu: an OpenCL device gets the kernels of that class; wide: 64-bit "
     "indices; "
     "or both: gpu,wide; avx512, avx2 or portable: the CPU backend uses no other instructions"},
};
const size_t n_variables = LENGTH(all_variables);
