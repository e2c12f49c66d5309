#ifndef IMPORT_TFLITE_FLATBUFFER_H
#define IMPORT_TFLITE_FLATBUFFER_H
/* Reads FlatBuffers by slot numbers, in place. Every read is bounds-checked and tolerates any
 * alignment. The first malformed offset becomes the importer's error; after it, and for fields that
 * a table lacks, the functions return the default. */
#include "import/importer.h"

typedef struct flat_file {
  importer *im;
  const uint8_t *data; /* (size), borrowed */
  size_t size;
} flat_file;

typedef struct flat_table {
  const flat_file *file;
  size_t at; /* 0: the table is absent */
  size_t slots;
  uint16_t slots_bytes, bytes;
} flat_table;

typedef struct flat_vector {
  const flat_file *file;
  size_t at;
  uint32_t count, item_size;
} flat_vector;

flat_table flat_root(const flat_file *file);
bool flat_has(const flat_table *table, int slot);
/* Returns a signed integer of `size` bytes: 1, 2, 4 or 8. */
int64_t flat_int(const flat_table *table, int slot, int size, int64_t missing);
bool flat_bool(const flat_table *table, int slot);
double flat_float(const flat_table *table, int slot, double missing);
const char *flat_text(const flat_table *table, int slot); /* in the pool; "" if it is missing */
flat_table flat_child(const flat_table *table, int slot);
flat_vector flat_list(const flat_table *table, int slot, uint32_t item_size);

const uint8_t *flat_bytes(const flat_vector *vector);            /* all items */
int64_t flat_int_at(const flat_vector *vector, uint32_t i);      /* signed */
float flat_float_at(const flat_vector *vector, uint32_t i);      /* 4 bytes each */
flat_table flat_table_at(const flat_vector *vector, uint32_t i); /* items are offsets */

#endif
