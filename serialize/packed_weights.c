/* Packed weights of a program: the list in memory, and two sections of a .clv: FIDX, their index,
 * and FORM, their bytes. docs/reference/formats.md describes the sections. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "serialize/program_files.h"

typedef struct packed_weights_head {
  uint64_t consts_hash; /* hash of the constants that were packed */
  uint32_t count;
  uint32_t reserved; /* 0 */
} packed_weights_head;

typedef struct packed_weight_entry {
  char layout[32];
  uint32_t constant, kind, dtype, rank;
  int64_t dims[MAX_RANK], strides[MAX_RANK], view_offset; /* layout of the view */
  int64_t size[3];
  uint64_t offset; /* in section FORM */
  uint64_t bytes;
  uint64_t hash; /* XXH3 of the bytes */
} packed_weight_entry;

_Static_assert(sizeof(packed_weights_head) == 16 && sizeof(packed_weight_entry) == 232,
               "as in the file");

static uint64_t packed_align_up(uint64_t n) {
  return (n + PACKED_WEIGHT_ALIGNMENT - 1) / PACKED_WEIGHT_ALIGNMENT * PACKED_WEIGHT_ALIGNMENT;
}

/* ---------------------------------------------------------------- the list */

static bool is_same_packed_weight(const program_packed_weight *left,
                                  const program_packed_weight *right) {
  return left->constant == right->constant && left->kind == right->kind &&
         left->bytes == right->bytes && memcmp(left->size, right->size, sizeof left->size) == 0 &&
         strcmp(left->layout, right->layout) == 0 && tensor_same_view(&left->view, &right->view);
}

const program_packed_weight *program_find_packed_weight(const program *program,
                                                        const program_packed_weight *desc) {
  for (size_t i = 0; i < program->n_packed_weights; i++)
    if (is_same_packed_weight(&program->packed_weights[i], desc))
      return &program->packed_weights[i];
  return NULL;
}

bool program_packed_weight_is_whole(const program_packed_weight *desc) {
  return hash_bytes(desc->data, desc->bytes) == desc->hash;
}

static clave_status append_packed_weight(program *program, const program_packed_weight *desc) {
  if (!array_reserve(&program->packed_weights, &program->cap_packed_weights,
                     program->n_packed_weights + 1, sizeof *program->packed_weights))
    return status_no_memory();
  program->packed_weights[program->n_packed_weights++] = *desc;
  return NULL;
}

clave_status program_add_packed_weight(program *program, const program_packed_weight *desc) {
  program_packed_weight made = *desc,
                        *old = (program_packed_weight *)program_find_packed_weight(program, desc);
  made.hash = hash_bytes(made.data, made.bytes);
  if (old) {
    memory_free(old->own);
    *old = made;
    return NULL;
  }
  clave_status st = append_packed_weight(program, &made);
  if (st) memory_free(made.own);
  return st;
}

clave_status program_share_packed_weight(program *program, const program_packed_weight *desc) {
  program_packed_weight shared = *desc;
  shared.own = NULL;
  return append_packed_weight(program, &shared);
}

void program_drop_packed_weights(program *program) {
  for (size_t i = 0; i < program->n_packed_weights; i++)
    memory_free(program->packed_weights[i].own);
  program->n_packed_weights = 0;
}

clave_status packed_weights_check(const program *program) {
  for (size_t i = 0; i < program->n_packed_weights; i++) {
    const program_packed_weight *desc = &program->packed_weights[i];
    if (!program_packed_weight_is_whole(desc))
      return INVALID("the packed weight of constant '%.200s' for '%s' is damaged (hash)",
                     program->ir.constants.items[desc->constant].name, desc->layout);
  }
  return NULL;
}

/* ---------------------------------------------------------------- reading */

/* True if the text is printable and NUL-padded to its end. */
static bool is_layout(const char *text, size_t size) {
  const size_t n = strnlen(text, size);
  for (size_t i = 0; i < size; i++)
    if (i < n ? text[i] < 0x20 || text[i] > 0x7e : text[i] != 0) return false;
  return n > 0 && n < size;
}

static clave_status serialize_packed_weights_read_entry(const program *program,
                                                        const packed_weight_entry *entry,
                                                        const uint8_t *section, uint64_t size,
                                                        uint64_t *end, program_packed_weight *out) {
  if (!is_layout(entry->layout, sizeof entry->layout))
    return INVALID("the name of the layout is not printable text");
  if (entry->constant >= program->ir.constants.count)
    return INVALID("constant %u is out of range: the program has %u", entry->constant,
                   program->ir.constants.count);
  if (entry->rank > MAX_RANK || entry->dtype >= DTYPE_COUNT || entry->kind > INT32_MAX)
    return INVALID("invalid rank %u, dtype %u or kind %u", entry->rank, entry->dtype, entry->kind);
  if (entry->bytes == 0 || entry->offset < *end || entry->offset > size ||
      entry->bytes > size - entry->offset)
    return INVALID("%llu bytes at %llu overlap another or the end of section 'FORM'",
                   (unsigned long long)entry->bytes, (unsigned long long)entry->offset);
  if (entry->offset % PACKED_WEIGHT_ALIGNMENT)
    return INVALID("offset: expected a multiple of %d, got %llu", (int)PACKED_WEIGHT_ALIGNMENT,
                   (unsigned long long)entry->offset);
  *end = entry->offset + entry->bytes;
  *out = (program_packed_weight){
      .constant = entry->constant,
      .kind = (int)entry->kind,
      .view = {.type = (dtype)entry->dtype, .rank = (int)entry->rank, .offset = entry->view_offset},
      .bytes = (size_t)entry->bytes,
      .hash = entry->hash,
      .data = section + entry->offset};
  memcpy(out->layout, entry->layout, sizeof out->layout);
  memcpy(out->size, entry->size, sizeof out->size);
  memcpy(out->view.dims, entry->dims, sizeof entry->dims);
  memcpy(out->view.strides, entry->strides, sizeof entry->strides);
  return NULL;
}

clave_status packed_weights_read(program *program, const uint8_t *index, size_t index_size,
                                 const uint8_t *section, size_t size) {
  packed_weights_head head;
  uint64_t end = 0;
  if (index_size < sizeof head)
    return INVALID("the index has %zu bytes, and its header needs %zu", index_size, sizeof head);
  memcpy(&head, index, sizeof head);
  if ((index_size - sizeof head) % sizeof(packed_weight_entry) ||
      (index_size - sizeof head) / sizeof(packed_weight_entry) != head.count)
    return INVALID("the index has %zu bytes, and %u packed weights need %zu", index_size,
                   head.count, sizeof head + head.count * sizeof(packed_weight_entry));
  for (uint32_t i = 0; i < head.count; i++) {
    packed_weight_entry entry;
    program_packed_weight desc;
    memcpy(&entry, index + sizeof head + i * sizeof entry, sizeof entry);
    TRY(status_while(
        serialize_packed_weights_read_entry(program, &entry, section, size, &end, &desc),
        "packed weight %u", i));
    if (head.consts_hash == program->ir.consts_hash) TRY(append_packed_weight(program, &desc));
  }
  return NULL;
}

/* ---------------------------------------------------------------- writing */

static packed_weight_entry packed_entry_of(const program_packed_weight *desc, uint64_t offset) {
  packed_weight_entry entry = {.constant = desc->constant,
                               .kind = (uint32_t)desc->kind,
                               .dtype = (uint32_t)desc->view.type,
                               .rank = (uint32_t)desc->view.rank,
                               .view_offset = desc->view.offset,
                               .offset = offset,
                               .bytes = desc->bytes,
                               .hash = desc->hash};
  const size_t n = (size_t)desc->view.rank;
  memcpy(entry.layout, desc->layout, sizeof entry.layout);
  memcpy(entry.size, desc->size, sizeof entry.size);
  memcpy(entry.dims, desc->view.dims, n * sizeof *entry.dims);
  memcpy(entry.strides, desc->view.strides, n * sizeof *entry.strides);
  return entry;
}

/* Hashes section FORM like any other section, including its padding, because readers that do not
 * know the section check its hash. */
static clave_status hash_section(const program *program, uint64_t *out) {
  static const uint8_t zeros[PACKED_WEIGHT_ALIGNMENT];
  hash_state *hash = hash_create();
  if (!hash) return status_no_memory();
  for (size_t i = 0; i < program->n_packed_weights; i++) {
    const size_t bytes = program->packed_weights[i].bytes;
    hash_update(hash, program->packed_weights[i].data, bytes);
    hash_update(hash, zeros, (size_t)(packed_align_up(bytes) - bytes));
  }
  *out = hash_value(hash);
  hash_destroy(hash);
  return NULL;
}

clave_status packed_weights_plan_create(const program *program, packed_weights_plan *out) {
  const packed_weights_head head = {.consts_hash = program->ir.consts_hash,
                                    .count = (uint32_t)program->n_packed_weights};
  *out = (packed_weights_plan){.index_size = sizeof head + program->n_packed_weights *
                                                               sizeof(packed_weight_entry)};
  out->index = malloc(out->index_size);
  if (!out->index) return status_no_memory();
  memcpy(out->index, &head, sizeof head);
  for (size_t i = 0; i < program->n_packed_weights; i++) {
    const packed_weight_entry entry = packed_entry_of(&program->packed_weights[i], out->size);
    memcpy(out->index + sizeof head + i * sizeof entry, &entry, sizeof entry);
    out->size += packed_align_up(program->packed_weights[i].bytes);
  }
  return hash_section(program, &out->hash);
}

clave_status packed_weights_write(const program *program, file_writer *writer) {
  for (size_t i = 0; i < program->n_packed_weights; i++) {
    TRY(file_writer_append(writer, program->packed_weights[i].data,
                           program->packed_weights[i].bytes));
    TRY(file_writer_pad(writer, PACKED_WEIGHT_ALIGNMENT));
  }
  return NULL;
}
