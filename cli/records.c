/* Copies observed tensors, and writes them to a file. */
#include "cli/records.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clave_files.h"
#include "cli/values.h"

bool keep_record(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value) {
  records *records = ctx;
  if (!array_reserve(&records->items, &records->capacity, records->count + 1,
                     sizeof *records->items))
    return !(records->no_memory = true);
  uint64_t count = count_elements(value);
  size_t size = clave_dtype_size(value->dtype);
  char *data = malloc(count ? (size_t)count * size : 1);
  if (!data) return !(records->no_memory = true);
  for (uint64_t i = 0; i < count; i++) memcpy(data + i * size, values_element_at(value, i), size);
  records->items[records->count++] =
      (record){node, slot, clave_tensor_make(value->dtype, value->rank, value->dims, data), data};
  return true;
}

void free_records(records *records) {
  for (size_t i = 0; i < records->count; i++) free(records->items[i].data);
  free(records->items);
}

/* seen: number of records of each node so far. */
static int name_record(const record *record, const model *model, uint32_t *seen, page *name) {
  clave_node_info node = {.size = sizeof node};
  TRY_STATUS(clave_program_node(model->program, model->method.name, record->node, &node));
  text_printf(name, "%" PRIu32 ".%s", record->node, node.name);
  if (seen[record->node]) text_printf(name, ".%" PRIu32, seen[record->node]);
  seen[record->node]++;
  return name->failed ? fail_memory() : EXIT_GOOD;
}

/* Writes the names to `names`, one page each, so that their addresses stay valid. Further results
 * of a node, and results of its later runs in a loop, are numbered. */
static int name_records(const records *records, const model *model, page *names) {
  uint32_t *seen = calloc(model->method.n_nodes + 1, sizeof *seen);
  int result = seen ? EXIT_GOOD : fail_memory();
  for (size_t i = 0; i < records->count && !result; i++)
    result = name_record(&records->items[i], model, seen, &names[i]);
  free(seen);
  return result;
}

int save_records(const records *records, const model *model, const char *path) {
  size_t n = records->count ? records->count : 1;
  page *names = calloc(n, sizeof *names);
  const char **keys = calloc(n, sizeof *keys);
  clave_tensor *values = calloc(n, sizeof *values);
  int result = names && keys && values ? name_records(records, model, names) : fail_memory();
  for (size_t i = 0; !result && i < records->count; i++) {
    keys[i] = names[i].data;
    values[i] = records->items[i].value;
  }
  if (!result) {
    clave_status st = clave_tensors_save(path, keys, values, (uint32_t)records->count, NULL, 0);
    if (st) result = fail_status(st);
  }
  for (size_t i = 0; names && i < records->count; i++) text_free(&names[i]);
  free(names);
  free(keys);
  free(values);
  return result;
}
