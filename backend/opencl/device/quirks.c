/* Every known oddity of a platform or device, each with its reason. The only such list. */
#include <stdint.h>
#include <string.h>

#include "backend/opencl/device/device.h"

/* platform, device: parts of names; "" matches all. A question is answered by the first row that
 * matches and knows. */
typedef struct quirk {
  const char *platform, *device;
  const char *refusal;  /* why it must not be used */
  const char *empty;    /* what it means that the platform has no device */
  bool lanes;           /* a CPU that runs work-items in the lanes of its vectors, as a GPU does */
  const char *header;   /* guard of a header of built-in functions that is parsed anew for each
                           program, and takes longer than our kernels: builtins.h replaces it */
  bool first_alone;     /* no two threads may launch a kernel for the first time at once */
  bool serial_builds;   /* a process builds one kernel at a time, under a lock */
  bool slow_binaries;   /* asked for a program's binary it compiles: kept when a session ends */
  size_t large_grid;    /* compiles a kernel anew for each local size, and for launches of which a
                           global size is this or more */
  bool images;          /* reads constants faster through images, which have a cache of their own */
  bool local;           /* has no local memory: what stands for it is as slow as any other */
  const char *compiler; /* the libraries of its compiler, which lie in the process */
  size_t most_groups;   /* of work-items in the second and third dimension of a launch */
  const char *linker;   /* which its compiler looks for by PATH; without it it ends the process */
  const char *files;    /* the variable that names the folder of its own files */
  bool blocking_maps;   /* what was mapped without waiting cannot be unmapped until that has run */
} quirk;

static const quirk quirks[] = {
    /* Mesa's old state tracker: OpenCL 1.1, miscompiles; rusticl replaces it. */
    {.platform = "Clover",
     .device = "",
     .refusal = "Mesa's Clover is OpenCL 1.1; use rusticl (RUSTICL_ENABLE)"},
    /* Splits vectors into scalars, so kernels for CPUs are slow there, and gets shuffles of float16
       wrong (Mesa 22.3). In work-groups of one work-item, which those kernels use, an outer loop
       ends after its first pass. Loops also end when a work-item has made 65,535 passes in all:
       results of very large operands are wrong there. */
    {.platform = "rusticl", .device = "llvmpipe", .lanes = true},
    /* CL_INVALID_VALUE of clEnqueueUnmapMemObject, of any buffer (Mesa 22.3). */
    {.platform = "rusticl", .device = "", .blocking_maps = true},
    /* Has a device on every machine, but where it cannot make its folder, and then it says nothing
       itself. It does not check what it finds there: a damaged file ends the process. */
    {.platform = "Portable Computing Language",
     .device = "",
     .empty = "PoCL is installed and gives no device: it needs a folder for its cache that it can "
              "write to, set POCL_CACHE_DIR to one",
     .files = "POCL_CACHE_DIR"},
    /* Asked for binaries, compiles every kernel of the program for any work-group size, as long as
       it took to build. Compiles under a lock, and again when a kernel is launched with a local
       size, for grids that 16 bits can count and for others. */
    {.platform = "Portable Computing Language",
     .device = "",
     .serial_builds = true,
     .slow_binaries = true,
     .compiler = "libLLVM libclang-cpp",
     .large_grid = 65535},
    /* Clang's opencl-c.h: 18,000 lines for each program. Two threads that launch a kernel for the
       first time enter it twice in the table of loaded code, and an assertion ends the process. */
    {.platform = "PoCL 3.", .device = "", .header = "_OPENCL_H_", .first_alone = true},
    /* Clang compiles kernels for the CPU: the drivers `pthread` and `basic`, later `cpu`. */
    {.platform = "Portable Computing Language", .device = "pthread-", .linker = "ld"},
    {.platform = "Portable Computing Language", .device = "basic-", .linker = "ld"},
    {.platform = "Portable Computing Language", .device = "cpu-", .linker = "ld"},
    /* Adreno: images are read through the texture units' cache, buffers through the one behind. */
    {.platform = "QUALCOMM", .device = "", .images = true},
    /* The limit of CUDA's grids. */
    {.platform = "NVIDIA", .device = "", .most_groups = 65535},
    /* Its local memory is main memory. */
    {.platform = "ARM", .device = "Mali", .local = true},
};

/* `field` of the first row of the platform and device that has one, else nothing. */
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
