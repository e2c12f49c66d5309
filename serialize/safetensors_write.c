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
  uint32_t *order; /* owned, (count): tensors by descending element size, the order of their bytes
                      in the file */
  size_t *begins;  /* owned, (count) */
} file_plan;

static int safetensors_write_compare_names(const void *left, const void *right) {
  return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static clave_status safetensors_write_check_names(const tensor_entry *tensors, uint32_t count) {
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
  if (!st) qsort(names, count, sizeof *names, safetensors_write_compare_names);
  for (uint32_t i = 1; i < count && !st; i++) {
    if (strcmp(names[i - 1], names[i]) == 0)
      st = INVALID("two tensors are named '%.200s'", names[i]);
  }
  free(names);
  return st;
}

static clave_status safetensors_write_make_plan(file_plan *plan) {
  plan->order = calloc((size_t)plan->count + 1, sizeof *plan->order);
  plan->begins = calloc((size_t)plan->count + 1, sizeof *plan->begins);
  if (!plan->order || !plan->begins) return status_no_memory();
  uint32_t placed = 0;
  size_t at = 0;
  for (size_t size = 8; size > 0; size /= 2) {
    for (uint32_t i = 0; i < plan->count; i++) {
      if (dtype_size(plan->tensors[i].type) != size) continue;
      plan->order[placed++] = i;
      plan->begins[i] = at;
      if (!add_size(at, plan->tensors[i].bytes, &at))
        return INVALID("the size of the tensors overflows");
    }
  }
  return placed == plan->count ? NULL : INVALID("a tensor has no dtype");
}

static void safetensors_write_metadata(json_writer *writer, const char *const *metadata,
                                       uint32_t n) {
  emit_object(writer, "__metadata__");
  for (uint32_t i = 0; i < n; i++) emit_string(writer, metadata[2 * i], metadata[2 * i + 1]);
  emit_end_object(writer);
}

static void safetensors_write_entry(json_writer *writer, const tensor_entry *entry, size_t begin) {
  emit_object(writer, entry->name);
  emit_string(writer, "dtype", dtype_name(entry->type));
  emit_array(writer, "shape");
  for (int i = 0; i < entry->rank; i++) emit_integer(writer, NULL, entry->dims[i]);
  emit_end_array(writer);
  emit_array(writer, "data_offsets");
  emit_size(writer, NULL, begin);
  emit_size(writer, NULL, begin + entry->bytes);
  emit_end_array(writer);
  emit_end_object(writer);
}

static clave_status safetensors_write_header(const file_plan *plan, const char *const *metadata,
                                             uint32_t n_metadata, text *out) {
  json_writer writer = {.out = out, .compact = true};
  emit_object(&writer, NULL);
  if (n_metadata) safetensors_write_metadata(&writer, metadata, n_metadata);
  for (uint32_t i = 0; i < plan->count; i++)
    safetensors_write_entry(&writer, &plan->tensors[i], plan->begins[i]);
  emit_end_object(&writer);
  while (!out->failed && (out->size + 8) % DATA_ALIGNMENT) text_puts(out, " ");
  return text_status(out);
}

static clave_status safetensors_write_all(file_writer *writer, const file_plan *plan,
                                          const text *header) {
  uint64_t length = header->size;
  TRY(file_writer_append(writer, &length, sizeof length));
  TRY(file_writer_append(writer, header->data, header->size));
  for (uint32_t i = 0; i < plan->count; i++) {
    const tensor_entry *entry = &plan->tensors[plan->order[i]];
    TRY(file_writer_append(writer, entry->data, entry->bytes));
  }
  return file_writer_commit(writer);
}

clave_status tensor_file_save(const char *path, const tensor_entry *tensors, uint32_t count,
                              const char *const *metadata, uint32_t n_metadata) {
  file_plan plan = {.tensors = tensors, .count = count};
  text header = {0};
  file_writer *writer = NULL;
  clave_status st = safetensors_write_check_names(tensors, count);
  if (!st) st = safetensors_write_make_plan(&plan);
  if (!st) st = safetensors_write_header(&plan, metadata, n_metadata, &header);
  if (!st) st = file_writer_create(path, &writer);
  if (!st) st = safetensors_write_all(writer, &plan, &header);
  file_writer_destroy(writer);
  text_free(&header);
  free(plan.order);
  free(plan.begins);
  return st;
}
