/* Memory of libraries that were loaded and are not called. */
#include "base/loaded_code.h"

#ifdef __linux__
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A library whose code was relocated has pages that no file has. */
static bool has_relocated_code(const struct dl_phdr_info *info, const ElfW(Phdr) * dynamic) {
  const ElfW(Dyn) *d = (const void *)(uintptr_t)(info->dlpi_addr + dynamic->p_vaddr);
  for (; d->d_tag != DT_NULL; d++)
    if (d->d_tag == DT_TEXTREL || (d->d_tag == DT_FLAGS && d->d_un.d_val & DF_TEXTREL)) return true;
  return false;
}

static bool is_named(const char *path, const char *names) {
  const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
  for (size_t n; *names; names += n + (names[n] == ' ')) {
    n = strcspn(names, " ");
    if (n > 0 && strncmp(file, names, n) == 0) return true;
  }
  return false;
}

/* Whole pages of a segment that is read and run alone. */
static void release_segment(const struct dl_phdr_info *info, const ElfW(Phdr) * segment) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const uintptr_t at = (uintptr_t)(info->dlpi_addr + segment->p_vaddr),
                  begin = (at + page - 1) / page * page,
                  end = (at + (uintptr_t)segment->p_filesz) / page * page;
  if (end > begin) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

static int release_library(struct dl_phdr_info *info, size_t size, void *names) {
  (void)size;
  if (!info->dlpi_name || !is_named(info->dlpi_name, names)) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type == PT_DYNAMIC && has_relocated_code(info, p)) return 0;
  }
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type == PT_LOAD && p->p_flags & PF_X && !(p->p_flags & PF_W)) release_segment(info, p);
  }
  return 0;
}

void release_code(const char *names) {
  (void)dl_iterate_phdr(release_library, (void *)(uintptr_t)names);
}
#else
void release_code(const char *names) { (void)names; }
#endif
