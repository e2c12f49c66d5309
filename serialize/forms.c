/* Packed forms of constants that a program carries: found, added, and in a .clv's sections FIDX and
 * FORM (docs/format.md). */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "serialize/program_files.h"

typedef struct form_head {
  uint64_t consts_hash; /* of the constants that the forms were made of */
  uint32_t count;
  uint32_t reserved; /* 0 */
} form_head;

typedef struct form_entry {
  char layout[32];
  uint32_t constant, kind, dtype, rank;
  int64_t dims[MAX_RANK], strides[MAX_RANK], view_offset; /* of the view */
  int64_t size[3];
  uint64_t offset; /* in section FORM */
  uint64_t bytes;
  uint64_t hash; /* XXH3 of the bytes */
} form_entry;

_Static_assert(sizeof(form_head) == 16 && sizeof(form_entry) == 232, "as in the file");

static uint64_t align_up(uint64_t n) {
  return (n + FORM_ALIGNMENT - 1) / FORM_ALIGNMENT * FORM_ALIGNMENT;
}

/* ---------------------------------------------------------------- the list */

static bool is_same_form(const program_form *a, const program_form *b) {
  return a->constant == b->constant && a->kind == b->kind && a->bytes == b->bytes &&
         memcmp(a->size, b->size, sizeof a->size) == 0 && strcmp(a->layout, b->layout) == 0 &&
         tensor_same_view(&a->view, &b->view);
}

const program_form *program_find_form(const program *p, const program_form *f) {
  for (size_t i = 0; i < p->n_forms; i++)
    if (is_same_form(&p->forms[i], f)) return &p->forms[i];
  return NULL;
}

bool program_form_is_whole(const program_form *f) {
  return hash_bytes(f->data, f->bytes) == f->hash;
}

static clave_status append(program *p, const program_form *f) {
  if (!array_reserve(&p->forms, &p->cap_forms, p->n_forms + 1, sizeof *p->forms))
    return status_no_memory();
  p->forms[p->n_forms++] = *f;
  return NULL;
}

clave_status program_add_form(program *p, const program_form *f) {
  program_form made = *f, *old = (program_form *)program_find_form(p, f);
  made.hash = hash_bytes(made.data, made.bytes);
  if (old) {
    free(old->own);
    *old = made;
    return NULL;
  }
  clave_status st = append(p, &made);
  if (st) free(made.own);
  return st;
}

clave_status program_share_form(program *p, const program_form *f) {
  program_form shared = *f;
  shared.own = NULL;
  return append(p, &shared);
}

void program_drop_forms(program *p) {
  for (size_t i = 0; i < p->n_forms; i++) free(p->forms[i].own);
  p->n_forms = 0;
}

clave_status forms_check(const program *p) {
  for (size_t i = 0; i < p->n_forms; i++) {
    const program_form *f = &p->forms[i];
    if (!program_form_is_whole(f))
      return INVALID("the packed form of constant '%.200s' for '%s' is damaged (hash)",
                     p->ir.constants.items[f->constant].name, f->layout);
  }
  return NULL;
}

/* ---------------------------------------------------------------- reading */

/* A device's text: printable, NUL to its end. */
static bool is_layout(const char *s, size_t size) {
  const size_t n = strnlen(s, size);
  for (size_t i = 0; i < size; i++)
    if (i < n ? s[i] < 0x20 || s[i] > 0x7e : s[i] != 0) return false;
  return n > 0 && n < size;
}

static clave_status read_entry(const program *p, const form_entry *e, const uint8_t *section,
                               uint64_t size, uint64_t *end, program_form *out) {
  if (!is_layout(e->layout, sizeof e->layout)) return INVALID("its layout is not printable text");
  if (e->constant >= p->ir.constants.count)
    return INVALID("constant %u of %u", e->constant, p->ir.constants.count);
  if (e->rank > MAX_RANK || e->dtype >= DTYPE_COUNT || e->kind > INT32_MAX)
    return INVALID("rank %u, dtype %u, kind %u", e->rank, e->dtype, e->kind);
  if (e->bytes == 0 || e->offset < *end || e->offset > size || e->bytes > size - e->offset)
    return INVALID("%llu bytes at %llu overlap another or the end of section 'FORM'",
                   (unsigned long long)e->bytes, (unsigned long long)e->offset);
  if (e->offset % FORM_ALIGNMENT)
    return INVALID("offset: expected a multiple of %d, got %llu", (int)FORM_ALIGNMENT,
                   (unsigned long long)e->offset);
  *end = e->offset + e->bytes;
  *out = (program_form){
      .constant = e->constant,
      .kind = (int)e->kind,
      .view = {.type = (dtype)e->dtype, .rank = (int)e->rank, .offset = e->view_offset},
      .bytes = (size_t)e->bytes,
      .hash = e->hash,
      .data = section + e->offset};
  memcpy(out->layout, e->layout, sizeof out->layout);
  memcpy(out->size, e->size, sizeof out->size);
  memcpy(out->view.dims, e->dims, sizeof e->dims);
  memcpy(out->view.strides, e->strides, sizeof e->strides);
  return NULL;
}

clave_status forms_read(program *p, const uint8_t *index, size_t index_size, const uint8_t *section,
                        size_t size) {
  form_head h;
  uint64_t end = 0;
  if (index_size < sizeof h) return INVALID("%zu bytes, its head has %zu", index_size, sizeof h);
  memcpy(&h, index, sizeof h);
  if ((index_size - sizeof h) % sizeof(form_entry) ||
      (index_size - sizeof h) / sizeof(form_entry) != h.count)
    return INVALID("%zu bytes, %u forms need %zu", index_size, h.count,
                   sizeof h + h.count * sizeof(form_entry));
  for (uint32_t i = 0; i < h.count; i++) {
    form_entry e;
    program_form f;
    memcpy(&e, index + sizeof h + i * sizeof e, sizeof e);
    TRY(status_while(read_entry(p, &e, section, size, &end, &f), "form %u", i));
    if (h.consts_hash == p->ir.consts_hash) TRY(append(p, &f));
  }
  return NULL;
}

/* ---------------------------------------------------------------- writing */

static form_entry entry_of(const program_form *f, uint64_t offset) {
  form_entry e = {.constant = f->constant,
                  .kind = (uint32_t)f->kind,
                  .dtype = (uint32_t)f->view.type,
                  .rank = (uint32_t)f->view.rank,
                  .view_offset = f->view.offset,
                  .offset = offset,
                  .bytes = f->bytes,
                  .hash = f->hash};
  const size_t n = (size_t)f->view.rank;
  memcpy(e.layout, f->layout, sizeof e.layout);
  memcpy(e.size, f->size, sizeof e.size);
  memcpy(e.dims, f->view.dims, n * sizeof *e.dims);
  memcpy(e.strides, f->view.strides, n * sizeof *e.strides);
  return e;
}

/* As a section of any tag: readers that do not know it check that. */
static clave_status hash_section(const program *p, uint64_t *out) {
  static const uint8_t zeros[FORM_ALIGNMENT];
  hash_state *h = hash_create();
  if (!h) return status_no_memory();
  for (size_t i = 0; i < p->n_forms; i++) {
    const size_t bytes = p->forms[i].bytes;
    hash_update(h, p->forms[i].data, bytes);
    hash_update(h, zeros, (size_t)(align_up(bytes) - bytes));
  }
  *out = hash_value(h);
  hash_destroy(h);
  return NULL;
}

clave_status forms_plan_create(const program *p, forms_plan *out) {
  const form_head h = {.consts_hash = p->ir.consts_hash, .count = (uint32_t)p->n_forms};
  *out = (forms_plan){.index_size = sizeof h + p->n_forms * sizeof(form_entry)};
  out->index = malloc(out->index_size);
  if (!out->index) return status_no_memory();
  memcpy(out->index, &h, sizeof h);
  for (size_t i = 0; i < p->n_forms; i++) {
    const form_entry e = entry_of(&p->forms[i], out->size);
    memcpy(out->index + sizeof h + i * sizeof e, &e, sizeof e);
    out->size += align_up(p->forms[i].bytes);
  }
  return hash_section(p, &out->hash);
}

clave_status forms_write(const program *p, file_writer *f) {
  for (size_t i = 0; i < p->n_forms; i++) {
    TRY(file_writer_append(f, p->forms[i].data, p->forms[i].bytes));
    TRY(file_writer_pad(f, FORM_ALIGNMENT));
  }
  return NULL;
}
