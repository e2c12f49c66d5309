/* Reads FlatBuffers by slot numbers. */
#include "import/tflite/flatbuffer.h"

#include <string.h>

static bool flat_is_within(const flat_file *file, size_t at, size_t n) {
  if (at <= file->size && n <= file->size - at) return true;
  import_invalid(file->im, "%zu bytes at %zu run past the end of %zu bytes", n, at, file->size);
  return false;
}

/* Returns a little-endian integer, extended by its sign. */
static int64_t flat_read(const flat_file *file, size_t at, int size) {
  int64_t out = 0;
  if (!flat_is_within(file, at, (size_t)size)) return 0;
  memcpy(&out, file->data + at, (size_t)size);
  if (size == 1) return (int8_t)out;
  if (size == 2) return (int16_t)out;
  if (size == 4) return (int32_t)out;
  return out;
}

/* Returns the position to which the offset at `at` points; 0 after an error. */
static size_t flat_follow(const flat_file *file, size_t at) {
  const uint32_t offset = (uint32_t)flat_read(file, at, 4);
  if (!import_ok(file->im) || !flat_is_within(file, at, offset)) return 0;
  return at + offset;
}

static flat_table flat_open(const flat_file *file, size_t at) {
  flat_table table = {.file = file};
  if (!at || !import_ok(file->im)) return table;
  const int64_t slots = (int64_t)at - flat_read(file, at, 4);
  if (slots < 0 || !flat_is_within(file, (size_t)slots, 4)) {
    import_invalid(file->im, "the table at %zu has its fields outside of the file", at);
    return table;
  }
  table.slots = (size_t)slots;
  table.slots_bytes = (uint16_t)flat_read(file, table.slots, 2);
  table.bytes = (uint16_t)flat_read(file, table.slots + 2, 2);
  if (flat_is_within(file, table.slots, table.slots_bytes) && flat_is_within(file, at, table.bytes))
    table.at = at;
  return table;
}

flat_table flat_root(const flat_file *file) { return flat_open(file, flat_follow(file, 0)); }

/* Returns the position of a field of `size` bytes, or 0 if the table lacks it. */
static size_t flat_field(const flat_table *table, int slot, size_t size) {
  const size_t entry = 4 + 2 * (size_t)slot;
  if (!table->at || entry + 2 > table->slots_bytes) return 0;
  const uint16_t offset = (uint16_t)flat_read(table->file, table->slots + entry, 2);
  if (!offset) return 0;
  if (offset < 4 || offset + size > table->bytes) {
    import_invalid(table->file->im, "field %d of the table at %zu is outside of it", slot,
                   table->at);
    return 0;
  }
  return table->at + offset;
}

bool flat_has(const flat_table *table, int slot) { return flat_field(table, slot, 1) != 0; }

int64_t flat_int(const flat_table *table, int slot, int size, int64_t missing) {
  const size_t at = flat_field(table, slot, (size_t)size);
  return at ? flat_read(table->file, at, size) : missing;
}

bool flat_bool(const flat_table *table, int slot) { return flat_int(table, slot, 1, 0) != 0; }

double flat_float(const flat_table *table, int slot, double missing) {
  float out;
  const size_t at = flat_field(table, slot, sizeof out);
  if (!at) return missing;
  memcpy(&out, table->file->data + at, sizeof out);
  return (double)out;
}

flat_table flat_child(const flat_table *table, int slot) {
  const size_t at = flat_field(table, slot, 4);
  return at ? flat_open(table->file, flat_follow(table->file, at))
            : (flat_table){.file = table->file};
}

flat_vector flat_list(const flat_table *table, int slot, uint32_t item_size) {
  flat_vector out = {.file = table->file, .item_size = item_size};
  const size_t field = flat_field(table, slot, 4), at = field ? flat_follow(table->file, field) : 0;
  if (!at) return out;
  const uint32_t count = (uint32_t)flat_read(table->file, at, 4);
  if (!import_ok(table->file->im)) return out;
  if (count > table->file->size / item_size ||
      !flat_is_within(table->file, at + 4, (size_t)count * item_size)) {
    import_invalid(table->file->im, "the %u items at %zu run past the end of the file", count, at);
    return out;
  }
  out.at = at + 4;
  out.count = count;
  return out;
}

const char *flat_text(const flat_table *table, int slot) {
  const flat_vector bytes = flat_list(table, slot, 1);
  const size_t n = bytes.count < 1000 ? bytes.count : 1000;
  const char *out =
      n ? mem_pool_strdup(table->file->im->pool, (const char *)flat_bytes(&bytes), n) : "";
  if (!out && !table->file->im->fatal) table->file->im->fatal = status_no_memory();
  return out ? out : "";
}

const uint8_t *flat_bytes(const flat_vector *vector) { return vector->file->data + vector->at; }

int64_t flat_int_at(const flat_vector *vector, uint32_t i) {
  return i < vector->count ? flat_read(vector->file, vector->at + (size_t)i * vector->item_size,
                                       (int)vector->item_size)
                           : 0;
}

float flat_float_at(const flat_vector *vector, uint32_t i) {
  float out = 0;
  if (i < vector->count) memcpy(&out, flat_bytes(vector) + (size_t)i * 4, sizeof out);
  return out;
}

flat_table flat_table_at(const flat_vector *vector, uint32_t i) {
  if (i >= vector->count) return (flat_table){.file = vector->file};
  return flat_open(vector->file, flat_follow(vector->file, vector->at + (size_t)i * 4));
}
