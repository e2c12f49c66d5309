/* Releases memory of loaded libraries that are not being called. */
#include "base/loaded_code.h"

#ifdef __linux__
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bits of an entry of /proc/self/pagemap, which has a 64-bit word for each page. */
#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_SWAPPED (UINT64_C(1) << 62)
#define PAGE_OF_FILE (UINT64_C(1) << 61)

typedef struct releasing {
  const char *names;
  int pages; /* descriptor of /proc/self/pagemap */
  size_t page_size;
} releasing;

static bool loaded_code_is_named(const char *path, const char *names) {
  const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
  for (size_t n; *names; names += n + (names[n] == ' ')) {
    n = strcspn(names, " ");
    if (n > 0 && strncmp(file, names, n) == 0) return true;
  }
  return false;
}

/* True if some of the pages are in memory and all of those are unchanged pages of the file. Pages
 * that were relocated, patched or never mapped from a file would be lost. */
static bool can_release(const releasing *releasing, uintptr_t begin, uintptr_t end) {
  enum { ENTRIES = 512 };
  uint64_t entries[ENTRIES];
  bool some = false;
  for (uintptr_t at = begin; at < end;) {
    const size_t left = (end - at) / releasing->page_size, n = left < ENTRIES ? left : ENTRIES;
    const off_t offset = (off_t)(at / releasing->page_size * sizeof *entries);
    const ssize_t size = (ssize_t)(n * sizeof *entries);
    if (pread(releasing->pages, entries, (size_t)size, offset) != size) return false;
    for (size_t i = 0; i < n; i++) {
      if (!(entries[i] & (PAGE_PRESENT | PAGE_SWAPPED))) continue;
      if (!(entries[i] & PAGE_OF_FILE)) return false;
      some = true;
    }
    at += n * releasing->page_size;
  }
  return some;
}

/* Releases the whole pages of a segment that is only read and executed. */
static void release_segment(const releasing *releasing, uintptr_t at, size_t size) {
  const uintptr_t begin =
                      (at + releasing->page_size - 1) / releasing->page_size * releasing->page_size,
                  end = (at + size) / releasing->page_size * releasing->page_size;
  if (end > begin && can_release(releasing, begin, end))
    (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

static int release_library(struct dl_phdr_info *info, size_t size, void *ctx) {
  const releasing *releasing = ctx;
  (void)size;
  if (!info->dlpi_name || !loaded_code_is_named(info->dlpi_name, releasing->names)) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type == PT_LOAD && p->p_flags & PF_X && !(p->p_flags & PF_W))
      release_segment(releasing, (uintptr_t)(info->dlpi_addr + p->p_vaddr), (size_t)p->p_filesz);
  }
  return 0;
}

void release_code(const char *names) {
  releasing releasing = {.names = names,
                         .pages = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
                         .page_size = (size_t)sysconf(_SC_PAGESIZE)};
  if (releasing.pages < 0) return;
  (void)dl_iterate_phdr(release_library, &releasing);
  (void)close(releasing.pages);
}
#else
void release_code(const char *names) { (void)names; }
#endif
