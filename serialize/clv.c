/* The .clv container: header, section table, sections. docs/format.md has the layout. */
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
  KNOWN_FEATURES = 0,   /* bits of clv_header.features that this build reads */
  SECTION_REQUIRED = 1, /* clv_section.flags: who does not know the section must refuse the file */
  SECTION_ALIGNMENT = 64,
  CONSTANTS_ALIGNMENT = 4096,
  SMALL_ALIGNMENT = 256,  /* of a constant */
  LARGE_ALIGNMENT = 4096, /* of one from LARGE_BYTES on */
  LARGE_BYTES = 64 * 1024
};

typedef struct clv_header {
  char magic[8];
  uint32_t version;
  uint32_t features; /* bits a reader must know */
  uint64_t file_size;
  uint32_t n_sections;
  uint32_t reserved;   /* 0 */
  uint64_t hash;       /* XXH3 of the header, this field 0, and the section table */
  uint8_t padding[24]; /* 0 */
} clv_header;

typedef struct clv_section {
  char tag[4];
  uint32_t flags;
  uint64_t offset, size;
  uint64_t hash; /* XXH3 of the bytes; of the constants the program's consts_hash */
} clv_section;

typedef struct clv_constant {
  uint64_t offset; /* in the constants' section */
  uint64_t size;
} clv_constant;

_Static_assert(sizeof(clv_header) == 64 && sizeof(clv_section) == 32 && sizeof(clv_constant) == 16,
               "as in the file");

static const char program_tag[4] = {'P', 'R', 'O', 'G'}, index_tag[4] = {'C', 'I', 'D', 'X'},
                  constants_tag[4] = {'C', 'O', 'N', 'S'}, form_index_tag[4] = {'F', 'I', 'D', 'X'},
                  forms_tag[4] = {'F', 'O', 'R', 'M'};

typedef struct clv_table {
  clv_header header;
  clv_section sections[LIMIT_SECTIONS];
} clv_table;

static uint64_t hash_table(const clv_table *t) {
  clv_table copy = *t;
  copy.header.hash = 0;
  return hash_bytes(&copy, sizeof copy.header + copy.header.n_sections * sizeof *copy.sections);
}

bool is_clv(const void *bytes, size_t size) {
  return size >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

/* ---------------------------------------------------------------- reading */

static clave_status read_header(const uint8_t *bytes, size_t size, clv_table *t) {
  clv_header *h = &t->header;
  if (size < sizeof *h) return INVALID("cut off: %zu bytes, a header has %zu", size, sizeof *h);
  memcpy(h, bytes, sizeof *h);
  if (!is_clv(bytes, size)) return INVALID("not a .clv file");
  if (h->version != CONTAINER_VERSION) {
    return UNSUPPORTED("container version %u, this build reads %d", h->version,
                       (int)CONTAINER_VERSION);
  }
  if (h->features & ~(uint32_t)KNOWN_FEATURES) {
    return UNSUPPORTED("needs features %#x, this build knows %#x", h->features,
                       (unsigned)KNOWN_FEATURES);
  }
  if (h->file_size != size) {
    return INVALID("cut off or grown: %zu bytes, its header says %llu", size,
                   (unsigned long long)h->file_size);
  }
  if (h->n_sections > LIMIT_SECTIONS)
    return INVALID("expected at most %d sections, got %u", (int)LIMIT_SECTIONS, h->n_sections);
  size_t table_bytes = h->n_sections * sizeof *t->sections;
  if (table_bytes > size - sizeof *h)
    return INVALID("cut off: %u sections in %zu bytes", h->n_sections, size);
  memcpy(t->sections, bytes + sizeof *h, table_bytes);
  return hash_table(t) == h->hash ? NULL : INVALID("its header is damaged (hash)");
}

static clave_status check_section(const clv_table *t, uint32_t i, uint64_t *end) {
  const clv_section *s = &t->sections[i];
  if (s->offset < *end || s->offset > t->header.file_size ||
      s->size > t->header.file_size - s->offset) {
    return INVALID("section '%.4s' at %llu with %llu bytes overlaps another or the end of the file",
                   s->tag, (unsigned long long)s->offset, (unsigned long long)s->size);
  }
  *end = s->offset + s->size;
  for (uint32_t k = 0; k < i; k++) {
    if (memcmp(t->sections[k].tag, s->tag, sizeof s->tag) == 0)
      return INVALID("section '%.4s' is there twice", s->tag);
  }
  return NULL;
}

/* In bounds, ascending without overlap, no tag twice. */
static clave_status check_sections(const clv_table *t) {
  uint64_t end = sizeof t->header + t->header.n_sections * sizeof *t->sections;
  for (uint32_t i = 0; i < t->header.n_sections; i++) TRY(check_section(t, i, &end));
  return NULL;
}

static const clv_section *find_section(const clv_table *t, const char tag[4]) {
  for (uint32_t i = 0; i < t->header.n_sections; i++) {
    if (memcmp(t->sections[i].tag, tag, sizeof t->sections[i].tag) == 0) return &t->sections[i];
  }
  return NULL;
}

static clave_status find_checked(const clv_table *t, const uint8_t *bytes, const char tag[4],
                                 const clv_section **out) {
  const clv_section *s = find_section(t, tag);
  *out = s;
  if (!s) return INVALID("section '%.4s' is missing", tag);
  return hash_bytes(bytes + s->offset, (size_t)s->size) == s->hash
             ? NULL
             : INVALID("section '%.4s' is damaged (hash)", tag);
}

/* Sections that are not ours are kept, unless one must be known. */
static clave_status keep_sections(program *p, const clv_table *t, const uint8_t *bytes) {
  for (uint32_t i = 0; i < t->header.n_sections; i++) {
    const clv_section *s = &t->sections[i];
    program_section *kept;
    if (is_own_section(s->tag)) continue;
    if (s->flags & SECTION_REQUIRED)
      return UNSUPPORTED("section '%.4s' must be known to read the file", s->tag);
    TRY(find_checked(t, bytes, s->tag, &s));
    TRY(add_section_to(p, s->tag, &kept));
    kept->data = bytes + s->offset;
    kept->size = (size_t)s->size;
  }
  return NULL;
}

static size_t constant_alignment(size_t bytes) {
  return bytes >= LARGE_BYTES ? LARGE_ALIGNMENT : SMALL_ALIGNMENT;
}

static clave_status bind_entry(program *p, uint32_t i, const clv_constant *e,
                               const uint8_t *section, uint64_t size, uint64_t *end) {
  size_t bytes;
  if (!tensor_bytes(&p->types[i], &bytes)) return INVALID("its size overflows");
  if (e->size != bytes)
    return INVALID("%llu bytes, its dtype and shape need %zu", (unsigned long long)e->size, bytes);
  if (e->offset < *end || e->offset > size || e->size > size - e->offset) {
    return INVALID("%llu bytes at %llu overlap another or the end of the section",
                   (unsigned long long)e->size, (unsigned long long)e->offset);
  }
  if (e->offset % constant_alignment(bytes)) {
    return INVALID("offset: expected a multiple of %zu, got %llu", constant_alignment(bytes),
                   (unsigned long long)e->offset);
  }
  *end = e->offset + e->size;
  return bind_constant(p, i, section + e->offset);
}

static clave_status bind_section(program *p, const clv_table *t, const uint8_t *bytes) {
  uint32_t n = p->ir.constants.count;
  TRY(alloc_constants(p));
  if (n == 0) return NULL;
  const clv_section *index, *section = find_section(t, constants_tag);
  TRY(find_checked(t, bytes, index_tag, &index));
  if (!section || section->offset % CONSTANTS_ALIGNMENT)
    return INVALID("section 'CONS' is missing or not at a multiple of 4096");
  if (section->hash != p->ir.consts_hash)
    return INVALID("the constants belong to another program (hash)");
  if (index->size != n * sizeof(clv_constant)) {
    return INVALID("section 'CIDX' has %llu bytes, %u constants need %zu",
                   (unsigned long long)index->size, n, n * sizeof(clv_constant));
  }
  uint64_t end = 0;
  for (uint32_t i = 0; i < n; i++) {
    clv_constant e;
    memcpy(&e, bytes + index->offset + i * sizeof e, sizeof e);
    clave_status st = bind_entry(p, i, &e, bytes + section->offset, section->size, &end);
    if (st) return status_while(st, "constant %u ('%.200s')", i, p->ir.constants.items[i].name);
  }
  return NULL;
}

/* Packed forms are checked when a device takes them, and by clave verify. */
static clave_status read_forms(program *p, const clv_table *t, const uint8_t *bytes) {
  const clv_section *index = find_section(t, form_index_tag), *forms = find_section(t, forms_tag);
  if (!index && !forms) return NULL;
  TRY(find_checked(t, bytes, form_index_tag, &index));
  if (!forms || forms->offset % FORM_ALIGNMENT)
    return INVALID("section 'FORM' is missing or not at a multiple of 4096");
  return status_while(forms_read(p, bytes + index->offset, (size_t)index->size,
                                 bytes + forms->offset, (size_t)forms->size),
                      "section 'FIDX'");
}

clave_status clv_read(program *p, const uint8_t *bytes, size_t size) {
  clv_table t = {0};
  const clv_section *s;
  TRY(read_header(bytes, size, &t));
  TRY(check_sections(&t));
  TRY(keep_sections(p, &t, bytes));
  TRY(find_checked(&t, bytes, program_tag, &s));
  TRY(decode_flatbuffer(bytes + s->offset, (size_t)s->size, p->pool, &p->ir));
  TRY(verify_program(p));
  TRY(bind_section(p, &t, bytes));
  return read_forms(p, &t, bytes);
}

/* ---------------------------------------------------------------- writing */

typedef struct clv_plan {
  const program *p;
  clv_table table;
  const void *data[LIMIT_SECTIONS]; /* by section; NULL: the constants, or forms */
  clv_constant *index;              /* owned, (n_constants) */
  forms_plan forms;                 /* its index owned */
  text encoded;                     /* the program */
} clv_plan;

static uint64_t align_up(uint64_t n, uint64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

/* Offsets of the constants; returns the section's size. */
static uint64_t plan_constants(const clv_plan *w) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < w->p->ir.constants.count; i++) {
    size_t bytes = 0;
    (void)tensor_bytes(&w->p->types[i], &bytes); /* checked when it was bound */
    at = align_up(at, constant_alignment(bytes));
    w->index[i] = (clv_constant){at, bytes};
    at = align_up(at + bytes, SMALL_ALIGNMENT);
  }
  return at;
}

static void add_section(clv_plan *w, const char tag[4], bool required, const void *data,
                        uint64_t size, uint64_t hash) {
  clv_section *s = &w->table.sections[w->table.header.n_sections];
  w->data[w->table.header.n_sections++] = data;
  *s = (clv_section){.flags = required ? SECTION_REQUIRED : 0,
                     .size = size,
                     .hash = data ? hash_bytes(data, (size_t)size) : hash};
  memcpy(s->tag, tag, sizeof s->tag);
}

/* Where each section lies, once all are known; the file's size. */
static void place_sections(clv_plan *w) {
  clv_header *h = &w->table.header;
  uint64_t at = sizeof *h + h->n_sections * sizeof(clv_section);
  for (uint32_t i = 0; i < h->n_sections; i++) {
    clv_section *s = &w->table.sections[i];
    at = align_up(at, w->data[i] ? SECTION_ALIGNMENT : CONSTANTS_ALIGNMENT);
    s->offset = at;
    at += s->size;
  }
  h->file_size = at;
  h->hash = hash_table(&w->table);
}

static clave_status plan_file(clv_plan *w) {
  const program *p = w->p;
  size_t n = p->ir.constants.count;
  TRY(encode_flatbuffer(&p->ir, &w->encoded));
  w->index = calloc(n + 1, sizeof *w->index);
  if (!w->index) return status_no_memory();
  w->table.header = (clv_header){.version = CONTAINER_VERSION};
  memcpy(w->table.header.magic, magic, sizeof magic);
  uint64_t constants_bytes = plan_constants(w);
  add_section(w, program_tag, true, w->encoded.data, w->encoded.size, 0);
  if (n) add_section(w, index_tag, true, w->index, n * sizeof *w->index, 0);
  for (uint32_t i = 0; i < p->n_sections; i++) {
    const program_section *s = &p->sections[i];
    add_section(w, s->tag, s->required, s->data ? (const void *)s->data : "", s->size, 0);
  }
  if (p->n_forms) {
    TRY(forms_plan_create(p, &w->forms));
    add_section(w, form_index_tag, false, w->forms.index, w->forms.index_size, 0);
  }
  if (n) add_section(w, constants_tag, true, NULL, constants_bytes, p->ir.consts_hash);
  if (p->n_forms) add_section(w, forms_tag, false, NULL, w->forms.size, w->forms.hash);
  place_sections(w);
  return NULL;
}

static clave_status write_constants(const clv_plan *w, file_writer *f) {
  for (uint32_t i = 0; i < w->p->ir.constants.count; i++) {
    size_t bytes = (size_t)w->index[i].size;
    TRY(file_writer_pad(f, constant_alignment(bytes)));
    TRY(file_writer_append(f, w->p->constants[i], bytes));
    TRY(file_writer_pad(f, SMALL_ALIGNMENT));
  }
  return NULL;
}

static clave_status write_file(const clv_plan *w, file_writer *f) {
  const clv_header *h = &w->table.header;
  TRY(file_writer_append(f, &w->table, sizeof *h + h->n_sections * sizeof(clv_section)));
  for (uint32_t i = 0; i < h->n_sections; i++) {
    const clv_section *s = &w->table.sections[i];
    TRY(file_writer_pad(f, w->data[i] ? SECTION_ALIGNMENT : CONSTANTS_ALIGNMENT));
    if (w->data[i]) {
      TRY(file_writer_append(f, w->data[i], (size_t)s->size));
    } else {
      TRY(memcmp(s->tag, forms_tag, sizeof s->tag) ? write_constants(w, f) : forms_write(w->p, f));
    }
  }
  TRY(program_check_files(w->p));
  return file_writer_commit(f);
}

clave_status clv_write(const program *p, const char *path) {
  clv_plan *w = calloc(1, sizeof *w);
  if (!w) return status_no_memory();
  w->p = p;
  file_writer *f = NULL;
  clave_status st = plan_file(w);
  if (!st) st = file_writer_create(path, &f);
  if (!st) st = write_file(w, f);
  file_writer_destroy(f);
  text_free(&w->encoded);
  free(w->index);
  free(w->forms.index);
  free(w);
  return st;
}
