/* Keeps copies of observed tensors, and writes them to a file. */
#include "cli/records.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/values.h"

bool keep_record(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value) {
  records *r = ctx;
  if (r->count == r->capacity) {
    size_t capacity = r->capacity ? 2 * r->capacity : 64;
    record *items = realloc(r->items, capacity * sizeof *items);
    if (!items) return !(r->no_memory = true);
    r->items = items;
    r->capacity = capacity;
  }
  uint64_t count = count_elements(value);
  size_t size = clave_dtype_size(value->dtype);
  char *data = malloc(count ? (size_t)count * size : 1);
  if (!data) return !(r->no_memory = true);
  for (uint64_t i = 0; i < count; i++) memcpy(data + i * size, element_at(value, i), size);
  r->items[r->count++] =
      (record){node, slot, clave_tensor_make(value->dtype, value->rank, value->dims, data), data};
  return true;
}

void free_records(records *r) {
  for (size_t i = 0; i < r->count; i++) free(r->items[i].data);
  free(r->items);
}

/* Names end in `names`, one page each, so that they stay where they are. */
static int name_records(const records *r, const model *m, page *names) {
  int further = 0;
  for (size_t i = 0; i < r->count; i++) {
    clave_node_info node;
    TRY_STATUS(clave_program_node(m->program, m->method.name, r->items[i].node, &node));
    page_format(&names[i], "%" PRIu32 ".%s", r->items[i].node, node.name);
    further = i && r->items[i - 1].node == r->items[i].node ? further + 1 : 0;
    if (further) page_format(&names[i], ".%d", further);
    if (names[i].failed) return fail_memory();
  }
  return EXIT_GOOD;
}

int save_records(const records *r, const model *m, const char *path) {
  size_t n = r->count ? r->count : 1;
  page *names = calloc(n, sizeof *names);
  const char **keys = calloc(n, sizeof *keys);
  clave_tensor *values = calloc(n, sizeof *values);
  int result = names && keys && values ? name_records(r, m, names) : fail_memory();
  for (size_t i = 0; !result && i < r->count; i++) {
    keys[i] = names[i].data;
    values[i] = r->items[i].value;
  }
  if (!result) {
    clave_status st = clave_tensors_save(path, keys, values, (uint32_t)r->count, NULL, 0);
    if (st) result = fail_status(st);
  }
  for (size_t i = 0; names && i < r->count; i++) page_free(&names[i]);
  free(names);
  free(keys);
  free(values);
  return result;
}
