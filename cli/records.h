#ifndef CLI_RECORDS_H
#define CLI_RECORDS_H
/* The results of every op of a run, recorded by clave_session_observe. */
#include "cli/model.h"

typedef struct record {
  uint32_t node, slot;
  clave_tensor value;
  void *data; /* owned */
} record;

typedef struct records {
  record *items; /* owned */
  size_t count, capacity;
  bool no_memory; /* out of memory, which stopped the run */
} records;

/* A clave_observe_fn; ctx is a records. */
bool keep_record(void *ctx, uint32_t node, uint32_t slot, const clave_tensor *value);
void free_records(records *records);

/* Saves all records as safetensors named by node: "3.conv2d"; further results of a node are
 * "3.conv2d.1". */
int save_records(const records *records, const model *model, const char *path) CHECK;

#endif
