/* Models in several files, NAME-00001-of-00003.gguf to NAME-00003-of-00003.gguf: the first has the
 * keys, and each has tensors. */
#include <stdlib.h>
#include <string.h>

#include "import/gguf/file.h"

enum { MAX_PARTS = 65535 };

/* The key that numbers parts from 0, and their number. */
static clave_status read_part(gguf_file *file, int64_t *part, int64_t *count) {
  *part = 0;
  *count = 1;
  TRY(gguf_read_integer(file, "split.count", 0, MAX_PARTS, count));
  return gguf_read_integer(file, "split.no", 0, MAX_PARTS, part);
}

/* Returns the path of a part, counted from 1; NULL unless `path` is that of the first part. */
static const char *part_path(importer *im, const char *path, int64_t part, int64_t count) {
  const char *end = import_text(im, "-00001-of-%05lld.gguf", (long long)count);
  const size_t size = path ? strlen(path) : 0, cut = strlen(end);
  if (size < cut || strcmp(path + size - cut, end) != 0) return NULL;
  return import_text(im, "%.*s-%05lld-of-%05lld.gguf", (int)(size - cut), path, (long long)part,
                     (long long)count);
}

typedef struct all_tensors {
  gguf_tensor *items; /* in pool */
  size_t count, capacity;
} all_tensors;

/* Adds the tensors of a part, which stay in its bytes. */
static clave_status add_tensors(all_tensors *all, const gguf_file *part) {
  const size_t n = all->count + part->n_tensors;
  if (n > all->capacity) {
    all->capacity = 2 * n;
    gguf_tensor *items = mem_pool_alloc(part->im->pool, all->capacity, sizeof *items);
    if (!items) return status_no_memory();
    memcpy(items, all->items, all->count * sizeof *items);
    all->items = items;
  }
  memcpy(all->items + all->count, part->tensors, part->n_tensors * sizeof *all->items);
  all->count = n;
  return NULL;
}

/* Sets the tensors of the file to those of all parts. */
static clave_status take_tensors(gguf_file *file, const all_tensors *all) {
  gguf_tensor *items = all->items;
  qsort(items, all->count, sizeof *items, gguf_by_name);
  for (size_t i = 1; i < all->count; i++)
    if (gguf_by_name(&items[i - 1], &items[i]) == 0)
      return INVALID("has tensor %s twice", gguf_shown(file->im, items[i].name));
  file->tensors = items;
  file->n_tensors = all->count;
  return NULL;
}

/* part: counted from 0 */
static clave_status read_other(gguf_file *file, span bytes, int64_t part, int64_t count,
                               all_tensors *all) {
  gguf_file other;
  int64_t found, of;
  TRY(gguf_file_open(file->im, bytes, &other));
  TRY(read_part(&other, &found, &of));
  if (found != part || of != count)
    return INVALID("expected part %lld of %lld, got part %lld of %lld", (long long)part + 1,
                   (long long)count, (long long)found + 1, (long long)of);
  return add_tensors(all, &other);
}

clave_status gguf_open_parts(gguf_file *file, const char *path) {
  int64_t part, count, n_tensors = -1;
  TRY(read_part(file, &part, &count));
  if (count <= 1) return NULL;
  if (part)
    return INVALID("expected the first part of the model, got part %lld of %lld",
                   (long long)part + 1, (long long)count);
  if (!part_path(file->im, path, 1, count))
    return INVALID("is one of %lld parts: expected a file name that ends in -00001-of-%05lld.gguf",
                   (long long)count, (long long)count);
  all_tensors all = {file->tensors, file->n_tensors, file->n_tensors};
  for (part = 1; part < count; part++) {
    const uint8_t *bytes;
    size_t size;
    const char *other = part_path(file->im, path, part + 1, count);
    TRY(import_open_file(file->im, other, &bytes, &size));
    clave_status st = read_other(file, (span){(const char *)bytes, size}, part, count, &all);
    if (st) return status_while(st, "%s", other);
  }
  TRY(take_tensors(file, &all));
  TRY(gguf_read_integer(file, "split.tensors.count", 0, INT64_MAX, &n_tensors));
  if (n_tensors < 0 || (size_t)n_tensors == file->n_tensors) return NULL;
  return INVALID("key 'split.tensors.count' is %lld, but the parts have %zu tensors",
                 (long long)n_tensors, file->n_tensors);
}
