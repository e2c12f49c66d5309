/* The order in which devices are preferred. */
#include <string.h>

#include "api/internal.h"

static bool is_software_renderer(const backend_info *info) {
  static const char *const names[] = {"llvmpipe", "softpipe", "swrast", "SwiftShader"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strstr(info->name, names[i])) return true;
  return false;
}

typedef enum device_group {
  GROUP_RENDERER,
  GROUP_CPU,
  GROUP_ACCELERATOR,
  GROUP_GPU,
  GROUP_GPU_WITH_MEMORY
} device_group;

static device_group group_of(const backend_info *info) {
  if (is_software_renderer(info)) return GROUP_RENDERER;
  if (strcmp(info->type, "GPU") == 0)
    return info->shares_host_memory ? GROUP_GPU : GROUP_GPU_WITH_MEMORY;
  return strcmp(info->type, "accelerator") == 0 ? GROUP_ACCELERATOR : GROUP_CPU;
}

uint64_t device_rank(const backend_info *info) {
  const uint64_t most = ((uint64_t)1 << 56) - 1;
  return ((uint64_t)group_of(info) << 56) | (info->speed < most ? info->speed : most);
}

bool device_outranks_cpus(const backend_info *info) { return group_of(info) > GROUP_CPU; }
