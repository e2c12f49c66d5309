/* The list of all known quirks of platforms and devices, each with its reason. */
#include <stdint.h>
#include <string.h>

#include "backend/opencl/device/device.h"

/* platform, device: parts of names; "" matches all. Fields are from the first row that sets
 * them. */
typedef struct quirk {
  const char *platform, *device;
  const char *refusal;  /* why the device must not be used */
  const char *empty;    /* why the platform has no device */
  bool lanes;           /* a CPU device that, like a GPU, runs work-items in the lanes of vectors */
  bool first_alone;     /* two threads must not launch a kernel for the first time at once */
  bool serial_builds;   /* a process builds one kernel at a time, under a lock */
  bool slow_binaries;   /* reading a binary compiles: binaries are saved when a session ends */
  size_t large_grid;    /* the driver compiles a kernel again for each local size, and for launches
                           with a global size of at least this */
  bool images;          /* reads constants faster through images, which have a separate cache */
  bool doubles_halves;  /* computes halves at twice the rate of floats, but does not report it */
  bool copies;          /* copies host memory although CL_MEM_USE_HOST_PTR is set */
  const char *maker;    /* device names may lack the model: the maker and the vendor's part of the
                           version are better names */
  const char *compiler; /* names of the compiler's libraries in this process */
  uint32_t registers;   /* registers of a lane of a SIMD unit, which all its waves share */
  size_t max_groups;    /* limit on groups in the second and third dimension of a launch */
  const char *linker;   /* program in PATH that its compiler needs: without it the process ends */
  const char *files;    /* environment variable that names the folder of its files */
  bool blocking_maps;   /* a non-blocking map cannot be unmapped until it has completed */
  bool spins;           /* clFinish keeps a core of the host busy */
  bool trusted;         /* its compiler neither crashes nor hangs: kernels are built at once */
} quirk;

static const quirk quirks[] = {
    /* Mesa's old state tracker has OpenCL 1.1 and miscompiles; rusticl replaces it. */
    {.platform = "Clover",
     .device = "",
     .refusal = "Mesa's Clover supports only OpenCL 1.1; use rusticl (RUSTICL_ENABLE)"},
    /* llvmpipe splits vectors into scalars, so kernels for CPUs are slow, and it gets shuffles of
     * float16 wrong (Mesa 22.3). In work-groups of one work-item, which kernels for CPUs use, an
     * outer loop ends after its first iteration. Loops also end when a work-item has run 65,535
     * iterations in total, so results of very large operands are wrong. */
    {.platform = "rusticl", .device = "llvmpipe", .lanes = true},
    /* clEnqueueUnmapMemObject returns CL_INVALID_VALUE for any buffer (Mesa 22.3). */
    {.platform = "rusticl", .device = "", .blocking_maps = true},
    /* PoCL has a device on every machine unless it cannot make its folder, and it does not report
     * why. It does not check the files in the folder: a damaged file ends the process. */
    {.platform = "Portable Computing Language",
     .device = "",
     .empty =
         "PoCL is installed but has no device: set POCL_CACHE_DIR to a folder that it can write to",
     .files = "POCL_CACHE_DIR"},
    /* To return a binary, PoCL compiles every kernel of the program for any work-group size, which
     * takes as long as the build. It compiles under a lock, and again for each local size and for
     * grids beyond 16 bits. */
    {.platform = "Portable Computing Language",
     .device = "",
     .serial_builds = true,
     .slow_binaries = true,
     .trusted = true,
     .compiler = "libLLVM libclang-cpp",
     .large_grid = 65535},
    /* If two threads launch a kernel for the first time at once, it is entered twice in the table
     * of loaded code, and an assertion fails. */
    {.platform = "PoCL 3.", .device = "", .first_alone = true},
    /* Clang compiles kernels for the CPU: the drivers are `pthread` and `basic`, later `cpu`. */
    {.platform = "Portable Computing Language", .device = "pthread-", .linker = "ld"},
    {.platform = "Portable Computing Language", .device = "basic-", .linker = "ld"},
    {.platform = "Portable Computing Language", .device = "cpu-", .linker = "ld"},
    /* Adreno reads images through the texture units' cache, and buffers through a slower one. */
    {.platform = "QUALCOMM", .device = "", .images = true},
    /* The name is "QUALCOMM Adreno(TM)" or even "QUALCOMM " for every model; the version is
       "OpenCL 3.0 Adreno(TM) 740". */
    {.platform = "QUALCOMM", .device = "", .maker = "QUALCOMM"},
    /* These compute pairs of halves in a register, but report vectors of one half and one float.
     * GCN before Vega has no packed instructions. */
    {.platform = "QUALCOMM", .device = "", .doubles_halves = true},
    {.platform = "AMD", .device = "gfx9", .doubles_halves = true},
    {.platform = "AMD", .device = "gfx1", .doubles_halves = true},
    /* CUDA limits the second and third dimension of grids. */
    {.platform = "NVIDIA", .device = "", .max_groups = 65535},
    {.platform = "NVIDIA", .device = "", .spins = true},
    /* GCN and Vega have 256 registers per lane for all waves together; CDNA since gfx90a has 512,
     * RDNA at least 1,024. */
    {.platform = "AMD", .device = "gfx90a", .registers = 512},
    {.platform = "AMD", .device = "gfx90", .registers = 256},
    {.platform = "AMD", .device = "gfx8", .registers = 256},
    /* Intel's GPUs before Arc have 128 registers of 8 lanes per thread. */
    {.platform = "Intel", .device = "HD Graphics", .registers = 128},
    {.platform = "Intel", .device = "Iris", .registers = 128},
    /* According to Arm's guide, CL_MEM_USE_HOST_PTR makes separate memory, and each map copies. */
    {.platform = "ARM", .device = "", .copies = true},
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

bool quirk_doubles_halves(const char *platform, const char *device) {
  FIND(doubles_halves, platform, device)
  return false;
}

bool quirk_copies(const char *platform) {
  FIND(copies, platform, "")
  return false;
}

uint32_t quirk_registers(const char *platform, const char *device) {
  FIND(registers, platform, device)
  return UINT32_MAX;
}

const char *quirk_maker(const char *platform) {
  FIND(maker, platform, "")
  return NULL;
}

/* Float lanes per compute unit, by a word of the platform's or the device's name. Newer and older
 * GPUs of a vendor may have half or twice as many. */
typedef struct unit_lanes {
  const char *word;
  uint32_t lanes;
} unit_lanes;

static const unit_lanes all_unit_lanes[] = {
    {"NVIDIA", 128}, {"AMD", 64},  {"Intel", 8},   {"QUALCOMM", 128},
    {"Adreno", 128}, {"Mali", 32}, {"Apple", 128},
};

uint32_t quirk_unit_lanes(const char *platform, const char *device) {
  enum { USUAL_LANES = 32 };
  for (size_t i = 0; i < sizeof all_unit_lanes / sizeof *all_unit_lanes; i++)
    if (strstr(platform, all_unit_lanes[i].word) || strstr(device, all_unit_lanes[i].word))
      return all_unit_lanes[i].lanes;
  return USUAL_LANES;
}

const char *quirk_compiler(const char *platform) {
  FIND(compiler, platform, "")
  return NULL;
}

size_t quirk_max_groups(const char *platform) {
  FIND(max_groups, platform, "")
  return SIZE_MAX;
}

bool quirk_blocking_maps(const char *platform) {
  FIND(blocking_maps, platform, "")
  return false;
}

bool quirk_spins(const char *platform) {
  FIND(spins, platform, "")
  return false;
}

bool quirk_trusted(const char *platform) {
  FIND(trusted, platform, "")
  return false;
}

/* ---------------------------------------------------------------- options of compilers */

bool has_word(const char *words, const char *word) {
  size_t n = strlen(word);
  for (const char *at = strstr(words, word); at; at = strstr(at + 1, word))
    if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0)) return true;
  return false;
}

/* A row applies to devices that match all of: platform, a part of the name, or NULL; extension,
 * which the device must have, or NULL; min_lanes, the device's smallest sub-group size. kernels:
 * names of the kernels, or NULL for all. */
typedef struct build_option {
  const char *platform, *extension, *kernels;
  uint32_t min_lanes;
  build_options options;
} build_option;

#define REGISTERS_REFUSED "the driver refuses an option for more registers"
static const char large_kernels[] =
    "attention_groups attention_mma conv_groups gemm_local gemm_mma matmul_dots_mma";

/* Kernels that spill with 32 lanes, but not with 16. */
static const char wide_kernels[] =
    "conv_direct gemm_codes_pack gemm_dots_pack gemv_column_lanes gemv_encoded matmul_encoded";

static const build_option build_option_rows[] = {
    /* Intel's threads have 128 registers, and from Arc on 256 with an option that older GPUs
     * ignore. The accumulators of these kernels need more than 128. If the compiler has no
     * sub-groups of 8 lanes (Data Center Max, Xe2), its default of 32 spills even with 256
     * registers, so 16 are required. */
    {.extension = "cl_intel_required_subgroup_size",
     .min_lanes = 16,
     .kernels = large_kernels,
     .options = {.text = " -D SUB_GROUP=16 -cl-intel-256-GRF-per-thread",
                 .refusal = REGISTERS_REFUSED}},
    {.extension = "cl_intel_required_subgroup_size",
     .min_lanes = 16,
     .kernels = wide_kernels,
     .options = {.text = " -D SUB_GROUP=16",
                 .refusal = "the driver refuses sub-groups of 16 lanes"}},
    {.extension = "cl_intel_required_subgroup_size",
     .kernels = large_kernels,
     .options = {.text = " -cl-intel-256-GRF-per-thread", .refusal = REGISTERS_REFUSED}},
    /* Clang parses 18,000 lines of opencl-c.h for each program, which takes longer than to compile
     * our kernels; builtins.h replaces that file. */
    {.platform = "PoCL 3.",
     .options = {.text = " -D OWN_BUILTINS=1 -D _OPENCL_H_",
                 .header = "builtins.h",
                 .refusal = "builtins.h lacks a declaration that a kernel needs"}},
};

build_options quirk_build_options(const device_entry *entry, const char *kernel) {
  for (size_t i = 0; i < sizeof build_option_rows / sizeof *build_option_rows; i++) {
    const build_option *row = &build_option_rows[i];
    if (row->platform && !strstr(entry->info.platform, row->platform)) continue;
    if (row->extension && !has_word(entry->info.extensions, row->extension)) continue;
    if (entry->traits.min_lanes < row->min_lanes) continue;
    if (!row->kernels || has_word(row->kernels, kernel)) return row->options;
  }
  return (build_options){0};
}
