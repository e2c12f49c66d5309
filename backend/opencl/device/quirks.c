/* The only list of known oddities of platforms and devices, each with its reason. */
#include <stdint.h>
#include <string.h>

#include "backend/opencl/device/device.h"

/* platform, device: parts of names; "" matches all. The first matching row that sets a field
 * decides it. */
typedef struct quirk {
  const char *platform, *device;
  const char *refusal; /* why it must not be used */
  const char *empty;   /* why the platform has no device */
  bool lanes;          /* a CPU that runs work-items in the lanes of its vectors, as a GPU does */
  const char *header;  /* guard of a header of built-in functions that is parsed again for each
                          program and takes longer than our kernels; builtins.h replaces it */
  bool first_alone;    /* two threads must not launch a kernel for the first time at once */
  bool serial_builds;  /* a process builds one kernel at a time, under a lock */
  bool slow_binaries;  /* reading a binary compiles: binaries are saved when a session ends */
  size_t large_grid; /* compiles a kernel again for each local size, and for launches with a global
                        size of at least this */
  bool images;       /* reads constants faster through images, which have a separate cache */
  bool local;        /* local memory is emulated, as slow as global memory */
  const char *compiler; /* names of the compiler's libraries in this process */
  size_t most_groups;   /* limit on groups in the second and third dimension of a launch */
  const char *linker;   /* program in PATH without which its compiler ends the process */
  const char *files;    /* environment variable that names the folder of its files */
  bool blocking_maps;   /* a map that did not wait cannot be unmapped until it has run */
} quirk;

static const quirk quirks[] = {
    /* Mesa's old state tracker has OpenCL 1.1 and miscompiles; rusticl replaces it. */
    {.platform = "Clover",
     .device = "",
     .refusal = "Mesa's Clover supports only OpenCL 1.1; use rusticl (RUSTICL_ENABLE)"},
    /* It splits vectors into scalars, so kernels for CPUs are slow, and it gets shuffles of float16
       wrong (Mesa 22.3). In work-groups of one work-item, which those kernels use, an outer loop
       ends after its first pass. Loops also end when a work-item has made 65,535 passes in all, so
       results of very large operands are wrong. */
    {.platform = "rusticl", .device = "llvmpipe", .lanes = true},
    /* clEnqueueUnmapMemObject returns CL_INVALID_VALUE for any buffer (Mesa 22.3). */
    {.platform = "rusticl", .device = "", .blocking_maps = true},
    /* It has a device on every machine unless it cannot make its folder, and then it reports no
       reason. It does not check the files that it finds: a damaged one ends the process. */
    {.platform = "Portable Computing Language",
     .device = "",
     .empty =
         "PoCL is installed but has no device: set POCL_CACHE_DIR to a folder that it can write to",
     .files = "POCL_CACHE_DIR"},
    /* Reading binaries compiles every kernel of the program for any work-group size, which takes as
       long as the build. It compiles under a lock, and again for each local size and for grids
       beyond 16 bits. */
    {.platform = "Portable Computing Language",
     .device = "",
     .serial_builds = true,
     .slow_binaries = true,
     .compiler = "libLLVM libclang-cpp",
     .large_grid = 65535},
    /* Clang parses 18,000 lines of opencl-c.h for each program. Two threads that launch a kernel
       for the first time enter it twice in the table of loaded code: an assertion fails. */
    {.platform = "PoCL 3.", .device = "", .header = "_OPENCL_H_", .first_alone = true},
    /* Clang compiles kernels for the CPU: the drivers are `pthread` and `basic`, later `cpu`. */
    {.platform = "Portable Computing Language", .device = "pthread-", .linker = "ld"},
    {.platform = "Portable Computing Language", .device = "basic-", .linker = "ld"},
    {.platform = "Portable Computing Language", .device = "cpu-", .linker = "ld"},
    /* Adreno reads images through the texture units' cache, and buffers through a slower one. */
    {.platform = "QUALCOMM", .device = "", .images = true},
    /* CUDA's limit on grids. */
    {.platform = "NVIDIA", .device = "", .most_groups = 65535},
    /* Mali's local memory is main memory. */
    {.platform = "ARM", .device = "Mali", .local = true},
};

/* Returns `field` of the first row of the platform and device that sets it; else falls through. */
#define FIND(field, platform_name, device_name)                         \
  for (size_t i = 0; i < sizeof quirks / sizeof *quirks; i++)           \
    if (quirks[i].field && strstr(platform_name, quirks[i].platform) && \
        strstr(device_name, quirks[i].device))                          \
      return quirks[i].field;

const char *quirk_refusal(const char *platform, const char *device) {
  FIND(refusal, platform, device)
  return NULL;
}

const char *quirk_empty(const char *platform) {
  FIND(empty, platform, "")
  return NULL;
}

bool quirk_lanes(const char *platform, const char *device) {
  FIND(lanes, platform, device)
  return false;
}

bool quirk_first_alone(const char *platform) {
  FIND(first_alone, platform, "")
  return false;
}

bool quirk_serial_builds(const char *platform) {
  FIND(serial_builds, platform, "")
  return false;
}

bool quirk_slow_binaries(const char *platform) {
  FIND(slow_binaries, platform, "")
  return false;
}

size_t quirk_large_grid(const char *platform) {
  FIND(large_grid, platform, "")
  return 0;
}

const char *quirk_linker(const char *platform, const char *device) {
  FIND(linker, platform, device)
  return NULL;
}

const char *quirk_files(const char *platform) {
  FIND(files, platform, "")
  return NULL;
}

const char *quirk_files_variable(void) {
  for (size_t i = 0; i < sizeof quirks / sizeof *quirks; i++)
    if (quirks[i].files) return quirks[i].files;
  return "";
}

bool quirk_images(const char *platform) {
  FIND(images, platform, "")
  return false;
}

bool quirk_local(const char *platform, const char *device) {
  FIND(local, platform, device)
  return false;
}

const char *quirk_compiler(const char *platform) {
  FIND(compiler, platform, "")
  return NULL;
}

size_t quirk_most_groups(const char *platform) {
  FIND(most_groups, platform, "")
  return SIZE_MAX;
}

bool quirk_blocking_maps(const char *platform) {
  FIND(blocking_maps, platform, "")
  return false;
}

const char *quirk_header(const char *platform) {
  FIND(header, platform, "")
  return NULL;
}
