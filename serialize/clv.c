/* The .clv container: header, section table, sections. docs/reference/formats.md has the layout. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "serialize/decode.h"
#include "serialize/encode.h"
#include "serialize/limits.h"
#include "serialize/program_files.h"
#include "serialize/verify.h"

static const char magic[8] = {'\x93', 'c', 'l', 'a', 'v', 'e', '\r', '\n'};

enum {
  CONTAINER_VERSION = 1,
  KNOWN_FEATURES = 0,   /* bits of clv_header.features that this build supports */
  SECTION_REQUIRED = 1, /* clv_section.flags: readers without support must reject the file */
  SECTION_ALIGNMENT = 64,
  CONSTANTS_ALIGNMENT = 4096,
  SMALL_ALIGNMENT = 256,  /* alignment of constants */
  LARGE_ALIGNMENT = 4096, /* alignment of constants of at least LARGE_BYTES */
  LARGE_BYTES = 64 * 1024
};

typedef struct clv_header {
  char magic[8];
  uint32_t version;
  uint32_t features; /* bits that a reader must support */
  uint64_t file_size;
  uint32_t n_sections;
  uint32_t reserved;   /* 0 */
  uint64_t hash;       /* XXH3 of the header, with this field 0, and the section table */
  uint8_t padding[24]; /* 0 */
} clv_header;

typedef struct clv_section {
  char tag[4];
  uint32_t flags;
  uint64_t offset, size;
  uint64_t hash; /* XXH3 of the bytes; for the constants, the program's consts_hash */
} clv_section;

typedef struct clv_constant {
  uint64_t offset; /* in section CONS */
  uint64_t size;
} clv_constant;

_Static_assert(sizeof(clv_header) == 64 && sizeof(clv_section) == 32 && sizeof(clv_constant) == 16,
               "as in the file");

static const char program_tag[4] = {'P', 'R', 'O', 'G'}, index_tag[4] = {'C', 'I', 'D', 'X'},
                  constants_tag[4] = {'C', 'O', 'N', 'S'},
                  packed_index_tag[4] = {'F', 'I', 'D', 'X'},
                  packed_weights_tag[4] = {'F', 'O', 'R', 'M'};

typedef struct clv_table {
  clv_header header;
  clv_section sections[LIMIT_SECTIONS];
} clv_table;

static uint64_t hash_table(const clv_table *table) {
  clv_table copy = *table;
  copy.header.hash = 0;
  return hash_bytes(&copy, sizeof copy.header + copy.header.n_sections * sizeof *copy.sections);
}

bool is_clv(const void *bytes, size_t size) {
  return size >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

/* ---------------------------------------------------------------- reading */

static clave_status clv_read_header(const uint8_t *bytes, size_t size, clv_table *table) {
  clv_header *header = &table->header;
  if (size < sizeof *header)
    return INVALID("the file is cut off: it has %zu bytes, and a header has %zu", size,
                   sizeof *header);
  memcpy(header, bytes, sizeof *header);
  if (!is_clv(bytes, size)) return INVALID("not a .clv file");
  if (header->version != CONTAINER_VERSION) {
    return UNSUPPORTED("the file has container version %u, and this build reads version %d",
                       header->version, (int)CONTAINER_VERSION);
  }
  if (header->features & ~(uint32_t)KNOWN_FEATURES) {
    return UNSUPPORTED("the file needs features %#x, and this build supports %#x", header->features,
                       (unsigned)KNOWN_FEATURES);
  }
  if (header->file_size != size) {
    return INVALID("the file is cut off or has grown: it has %zu bytes, and its header says %llu",
                   size, (unsigned long long)header->file_size);
  }
  if (header->n_sections > LIMIT_SECTIONS)
    return INVALID("expected at most %d sections, got %u", (int)LIMIT_SECTIONS, header->n_sections);
  size_t table_bytes = header->n_sections * sizeof *table->sections;
  if (table_bytes > size - sizeof *header)
    return INVALID("the file is cut off: %u sections do not fit in %zu bytes", header->n_sections,
                   size);
  memcpy(table->sections, bytes + sizeof *header, table_bytes);
  return hash_table(table) == header->hash ? NULL
                                           : INVALID("the header of the file is damaged (hash)");
}

static clave_status check_section(const clv_table *table, uint32_t i, uint64_t *end) {
  const clv_section *section = &table->sections[i];
  if (section->offset < *end || section->offset > table->header.file_size ||
      section->size > table->header.file_size - section->offset) {
    return INVALID("section '%.4s' at %llu with %llu bytes overlaps another or the end of the file",
                   section->tag, (unsigned long long)section->offset,
                   (unsigned long long)section->size);
  }
  *end = section->offset + section->size;
  for (uint32_t k = 0; k < i; k++) {
    if (memcmp(table->sections[k].tag, section->tag, sizeof section->tag) == 0)
      return INVALID("section '%.4s' appears twice", section->tag);
  }
  return NULL;
}

/* Checks that sections are in bounds, ascend without overlap, and have unique tags. */
static clave_status check_sections(const clv_table *table) {
  uint64_t end = sizeof table->header + table->header.n_sections * sizeof *table->sections;
  for (uint32_t i = 0; i < table->header.n_sections; i++) TRY(check_section(table, i, &end));
  return NULL;
}

static const clv_section *find_section(const clv_table *table, const char tag[4]) {
  for (uint32_t i = 0; i < table->header.n_sections; i++) {
    if (memcmp(table->sections[i].tag, tag, sizeof table->sections[i].tag) == 0)
      return &table->sections[i];
  }
  return NULL;
}

static clave_status find_checked(const clv_table *table, const uint8_t *bytes, const char tag[4],
                                 const clv_section **out) {
  const clv_section *section = find_section(table, tag);
  *out = section;
  if (!section) return INVALID("section '%.4s' is missing", tag);
  return hash_bytes(bytes + section->offset, (size_t)section->size) == section->hash
             ? NULL
             : INVALID("section '%.4s' is damaged (hash)", tag);
}

/* Keeps sections that are not the program's own; fails if a required one is among them. */
static clave_status keep_sections(program *program, const clv_table *table, const uint8_t *bytes) {
  for (uint32_t i = 0; i < table->header.n_sections; i++) {
    const clv_section *section = &table->sections[i];
    program_section *kept;
    if (is_own_section(section->tag)) continue;
    if (section->flags & SECTION_REQUIRED)
      return UNSUPPORTED("the file needs section '%.4s', which this build does not support",
                         section->tag);
    TRY(find_checked(table, bytes, section->tag, &section));
    TRY(add_section_to(program, section->tag, &kept));
    kept->data = bytes + section->offset;
    kept->size = (size_t)section->size;
  }
  return NULL;
}

static size_t constant_alignment(size_t bytes) {
  return bytes >= LARGE_BYTES ? LARGE_ALIGNMENT : SMALL_ALIGNMENT;
}

static clave_status bind_entry(program *program, uint32_t i, const clv_constant *constant,
                               const uint8_t *section, uint64_t size, uint64_t *end) {
  size_t bytes;
  if (!tensor_bytes(&program->types[i], &bytes))
    return INVALID("the size of the constant overflows");
  if (constant->size != bytes)
    return INVALID("the constant has %llu bytes, and its dtype and shape need %zu",
                   (unsigned long long)constant->size, bytes);
  if (constant->offset < *end || constant->offset > size ||
      constant->size > size - constant->offset) {
    return INVALID("%llu bytes at %llu overlap another or the end of the section",
                   (unsigned long long)constant->size, (unsigned long long)constant->offset);
  }
  if (constant->offset % constant_alignment(bytes)) {
    return INVALID("offset: expected a multiple of %zu, got %llu", constant_alignment(bytes),
                   (unsigned long long)constant->offset);
  }
  *end = constant->offset + constant->size;
  return bind_constant(program, i, section + constant->offset);
}

static clave_status bind_section(program *program, const clv_table *table, const uint8_t *bytes) {
  uint32_t n = program->ir.constants.count;
  TRY(alloc_constants(program));
  if (n == 0) return NULL;
  const clv_section *index, *section = find_section(table, constants_tag);
  TRY(find_checked(table, bytes, index_tag, &index));
  if (!section || section->offset % CONSTANTS_ALIGNMENT)
    return INVALID("section 'CONS' is missing or not at a multiple of 4096");
  if (section->hash != program->ir.consts_hash)
    return INVALID("the constants belong to another program (hash)");
  if (index->size != n * sizeof(clv_constant)) {
    return INVALID("section 'CIDX' has %llu bytes, and %u constants need %zu",
                   (unsigned long long)index->size, n, n * sizeof(clv_constant));
  }
  uint64_t end = 0;
  for (uint32_t i = 0; i < n; i++) {
    clv_constant constant;
    memcpy(&constant, bytes + index->offset + i * sizeof constant, sizeof constant);
    clave_status st =
        bind_entry(program, i, &constant, bytes + section->offset, section->size, &end);
    if (st)
      return status_while(st, "constant %u ('%.200s')", i, program->ir.constants.items[i].name);
  }
  return NULL;
}

/* Reads only the index of the packed weights. Their bytes are checked when a device uses them, and
 * by clave verify. */
static clave_status read_packed_weights(program *program, const clv_table *table,
                                        const uint8_t *bytes) {
  const clv_section *index = find_section(table, packed_index_tag),
                    *packed_weights = find_section(table, packed_weights_tag);
  if (!index && !packed_weights) return NULL;
  TRY(find_checked(table, bytes, packed_index_tag, &index));
  if (!packed_weights || packed_weights->offset % PACKED_WEIGHT_ALIGNMENT)
    return INVALID("section 'FORM' is missing or not at a multiple of 4096");
  return status_while(
      packed_weights_read(program, bytes + index->offset, (size_t)index->size,
                          bytes + packed_weights->offset, (size_t)packed_weights->size),
      "section 'FIDX'");
}

clave_status clv_read(program *program, const uint8_t *bytes, size_t size) {
  clv_table table = {0};
  const clv_section *section;
  TRY(clv_read_header(bytes, size, &table));
  TRY(check_sections(&table));
  TRY(keep_sections(program, &table, bytes));
  TRY(find_checked(&table, bytes, program_tag, &section));
  TRY(decode_flatbuffer(bytes + section->offset, (size_t)section->size, program->pool,
                        &program->ir));
  TRY(verify_program(program));
  TRY(bind_section(program, &table, bytes));
  return read_packed_weights(program, &table, bytes);
}

/* ---------------------------------------------------------------- writing */

typedef struct clv_plan {
  const program *program;
  clv_table table;
  const void *data[LIMIT_SECTIONS];   /* by section; NULL for the constants and packed weights,
                                         which are streamed */
  clv_constant *index;                /* owned, (n_constants) */
  packed_weights_plan packed_weights; /* owns its index */
  text encoded;                       /* the encoded program */
} clv_plan;

static uint64_t clv_align_up(uint64_t n, uint64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

/* Sets the offsets of the constants and returns the section's size. */
static uint64_t plan_constants(const clv_plan *plan) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < plan->program->ir.constants.count; i++) {
    size_t bytes = 0;
    (void)tensor_bytes(&plan->program->types[i],
                       &bytes); /* overflow was checked when the constant was bound */
    at = clv_align_up(at, constant_alignment(bytes));
    plan->index[i] = (clv_constant){at, bytes};
    at = clv_align_up(at + bytes, SMALL_ALIGNMENT);
  }
  return at;
}

static void add_section(clv_plan *plan, const char tag[4], bool required, const void *data,
                        uint64_t size, uint64_t hash) {
  clv_section *section = &plan->table.sections[plan->table.header.n_sections];
  plan->data[plan->table.header.n_sections++] = data;
  *section = (clv_section){.flags = required ? SECTION_REQUIRED : 0,
                           .size = size,
                           .hash = data ? hash_bytes(data, (size_t)size) : hash};
  memcpy(section->tag, tag, sizeof section->tag);
}

/* Sets the offset of each section once all sizes are known, and the size of the file. */
static void place_sections(clv_plan *plan) {
  clv_header *header = &plan->table.header;
  uint64_t at = sizeof *header + header->n_sections * sizeof(clv_section);
  for (uint32_t i = 0; i < header->n_sections; i++) {
    clv_section *section = &plan->table.sections[i];
    at = clv_align_up(at, plan->data[i] ? SECTION_ALIGNMENT : CONSTANTS_ALIGNMENT);
    section->offset = at;
    at += section->size;
  }
  header->file_size = at;
  header->hash = hash_table(&plan->table);
}

static clave_status plan_file(clv_plan *plan) {
  const program *program = plan->program;
  size_t n = program->ir.constants.count;
  TRY(encode_flatbuffer(&program->ir, &plan->encoded));
  plan->index = calloc(n + 1, sizeof *plan->index);
  if (!plan->index) return status_no_memory();
  plan->table.header = (clv_header){.version = CONTAINER_VERSION};
  memcpy(plan->table.header.magic, magic, sizeof magic);
  uint64_t constants_bytes = plan_constants(plan);
  add_section(plan, program_tag, true, plan->encoded.data, plan->encoded.size, 0);
  if (n) add_section(plan, index_tag, true, plan->index, n * sizeof *plan->index, 0);
  for (uint32_t i = 0; i < program->n_sections; i++) {
    const program_section *section = &program->sections[i];
    add_section(plan, section->tag, section->required,
                section->data ? (const void *)section->data : "", section->size, 0);
  }
  if (program->n_packed_weights) {
    TRY(packed_weights_plan_create(program, &plan->packed_weights));
    add_section(plan, packed_index_tag, false, plan->packed_weights.index,
                plan->packed_weights.index_size, 0);
  }
  if (n) add_section(plan, constants_tag, true, NULL, constants_bytes, program->ir.consts_hash);
  if (program->n_packed_weights)
    add_section(plan, packed_weights_tag, false, NULL, plan->packed_weights.size,
                plan->packed_weights.hash);
  place_sections(plan);
  return NULL;
}

static clave_status clv_write_constants(const clv_plan *plan, file_writer *writer) {
  for (uint32_t i = 0; i < plan->program->ir.constants.count; i++) {
    size_t bytes = (size_t)plan->index[i].size;
    TRY(file_writer_pad(writer, constant_alignment(bytes)));
    TRY(file_writer_append(writer, plan->program->constants[i], bytes));
    TRY(file_writer_pad(writer, SMALL_ALIGNMENT));
  }
  return NULL;
}

static clave_status clv_write_file(const clv_plan *plan, file_writer *writer) {
  const clv_header *header = &plan->table.header;
  TRY(file_writer_append(writer, &plan->table,
                         sizeof *header + header->n_sections * sizeof(clv_section)));
  for (uint32_t i = 0; i < header->n_sections; i++) {
    const clv_section *section = &plan->table.sections[i];
    TRY(file_writer_pad(writer, plan->data[i] ? SECTION_ALIGNMENT : CONSTANTS_ALIGNMENT));
    if (plan->data[i]) {
      TRY(file_writer_append(writer, plan->data[i], (size_t)section->size));
    } else {
      TRY(memcmp(section->tag, packed_weights_tag, sizeof section->tag)
              ? clv_write_constants(plan, writer)
              : packed_weights_write(plan->program, writer));
    }
  }
  TRY(program_check_files(plan->program));
  return file_writer_commit(writer);
}

clave_status clv_write(const program *program, const char *path) {
  clv_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return status_no_memory();
  plan->program = program;
  file_writer *writer = NULL;
  clave_status st = plan_file(plan);
  if (!st) st = file_writer_create(path, &writer);
  if (!st) st = clv_write_file(plan, writer);
  file_writer_destroy(writer);
  text_free(&plan->encoded);
  free(plan->index);
  free(plan->packed_weights.index);
  free(plan);
  return st;
}
