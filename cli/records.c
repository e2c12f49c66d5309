/* Keeps copies of observed tensors, and writes them to a file. */
#include "cli/records.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave_files.h"
#include "cli/values.h"

bool keep_record(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value) {
  records *r = ctx;
  if (!array_reserve(&r->items, &r->capacity, r->count + 1, sizeof *r->items))
    return !(r->no_memory = true);
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

/* seen: records of each node so far. */
static int name_record(const record *r, const model *m, uint32_t *seen, page *name) {
  clave_node_info node = {.size = sizeof node};
  TRY_STATUS(clave_program_node(m->program, m->method.name, r->node, &node));
  text_printf(name, "%" PRIu32 ".%s", r->node, node.name);
  if (seen[r->node]) text_printf(name, ".%" PRIu32, seen[r->node]);
  seen[r->node]++;
  return name->failed ? fail_memory() : EXIT_GOOD;
}

/* Names end in `names`, one page each, so that they stay where they are. Further results of a node,
 * and of its further runs in a loop, are numbered. */
static int name_records(const records *r, const model *m, page *names) {
  uint32_t *seen = calloc(m->method.n_nodes + 1, sizeof *seen);
  int result = seen ? EXIT_GOOD : fail_memory();
  for (size_t i = 0; i < r->count && !result; i++)
    result = name_record(&r->items[i], m, seen, &names[i]);
  free(seen);
  return result;
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
  for (size_t i = 0; names && i < r->count; i++) text_free(&names[i]);
  free(names);
  free(keys);
  free(values);
  return result;
}
