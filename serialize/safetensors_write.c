/* The safetensors writer. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "json/writer.h"
#include "serialize/safetensors.h"

enum { DATA_ALIGNMENT = 64 };

typedef struct file_plan {
  const tensor_entry *tensors;
  uint32_t count;
  uint32_t *order; /* owned, (count): tensors by descending element size, as their bytes lie in the
                      file */
  size_t *begins;  /* owned, (count) */
} file_plan;

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static clave_status check_names(const tensor_entry *tensors, uint32_t count) {
  const char **names = calloc((size_t)count + 1, sizeof *names);
  if (!names) return status_no_memory();
  clave_status st = NULL;
  for (uint32_t i = 0; i < count && !st; i++) {
    const char *name = names[i] = tensors[i].name;
    if (!utf8_valid(name, strlen(name)))
      st = INVALID("tensor name '%.200s' is not valid UTF-8", name);
    if (!st && strcmp(name, "__metadata__") == 0)
      st = INVALID("a tensor cannot be named __metadata__");
  }
  if (!st) qsort(names, count, sizeof *names, compare_names);
  for (uint32_t i = 1; i < count && !st; i++) {
    if (strcmp(names[i - 1], names[i]) == 0)
      st = INVALID("two tensors are named '%.200s'", names[i]);
  }
  free(names);
  return st;
}

static clave_status make_plan(file_plan *p) {
  p->order = calloc((size_t)p->count + 1, sizeof *p->order);
  p->begins = calloc((size_t)p->count + 1, sizeof *p->begins);
  if (!p->order || !p->begins) return status_no_memory();
  uint32_t placed = 0;
  size_t at = 0;
  for (size_t size = 8; size > 0; size /= 2) {
    for (uint32_t i = 0; i < p->count; i++) {
      if (dtype_size(p->tensors[i].type) != size) continue;
      p->order[placed++] = i;
      p->begins[i] = at;
      if (!add_size(at, p->tensors[i].bytes, &at)) return INVALID("the tensors' size overflows");
    }
  }
  return placed == p->count ? NULL : INVALID("a tensor has no dtype");
}

static void write_metadata(json_writer *j, const char *const *metadata, uint32_t n) {
  emit_object(j, "__metadata__");
  for (uint32_t i = 0; i < n; i++) emit_string(j, metadata[2 * i], metadata[2 * i + 1]);
  emit_end_object(j);
}

static void write_entry(json_writer *j, const tensor_entry *t, size_t begin) {
  emit_object(j, t->name);
  emit_string(j, "dtype", dtype_name(t->type));
  emit_array(j, "shape");
  for (int i = 0; i < t->rank; i++) emit_integer(j, NULL, t->dims[i]);
  emit_end_array(j);
  emit_array(j, "data_offsets");
  emit_size(j, NULL, begin);
  emit_size(j, NULL, begin + t->bytes);
  emit_end_array(j);
  emit_end_object(j);
}

static clave_status write_header(const file_plan *p, const char *const *metadata,
                                 uint32_t n_metadata, text *out) {
  json_writer j = {.out = out, .compact = true};
  emit_object(&j, NULL);
  if (n_metadata) write_metadata(&j, metadata, n_metadata);
  for (uint32_t i = 0; i < p->count; i++) write_entry(&j, &p->tensors[i], p->begins[i]);
  emit_end_object(&j);
  while (!out->failed && (out->size + 8) % DATA_ALIGNMENT) text_puts(out, " ");
  return text_status(out);
}

static clave_status write_all(file_writer *w, const file_plan *p, const text *header) {
  uint64_t length = header->size;
  TRY(file_writer_append(w, &length, sizeof length));
  TRY(file_writer_append(w, header->data, header->size));
  for (uint32_t i = 0; i < p->count; i++) {
    const tensor_entry *t = &p->tensors[p->order[i]];
    TRY(file_writer_append(w, t->data, t->bytes));
  }
  return file_writer_commit(w);
}

clave_status tensor_file_save(const char *path, const tensor_entry *tensors, uint32_t count,
                              const char *const *metadata, uint32_t n_metadata) {
  file_plan p = {.tensors = tensors, .count = count};
  text header = {0};
  file_writer *w = NULL;
  clave_status st = check_names(tensors, count);
  if (!st) st = make_plan(&p);
  if (!st) st = write_header(&p, metadata, n_metadata, &header);
  if (!st) st = file_writer_create(path, &w);
  if (!st) st = write_all(w, &p, &header);
  file_writer_destroy(w);
  text_free(&header);
  free(p.order);
  free(p.begins);
  return st;
}
