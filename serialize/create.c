/* Programs from memory: a FlatBuffers program and the caller's constants. */
#include <string.h>

#include "serialize/decode.h"
#include "serialize/program_files.h"
#include "serialize/verify.h"

static bool same_shape(const constant_data *c, const tensor *declared) {
  const tensor t = tensor_stored(declared);
  return c->type == t.type && c->rank == t.rank &&
         (t.rank == 0 || memcmp(c->dims, t.dims, (size_t)t.rank * sizeof *t.dims) == 0);
}

static clave_status bind_given(program *p, uint32_t i, const constant_source *from) {
  const tensor want = tensor_stored(&p->types[i]);
  constant_data c = {.type = want.type, .rank = want.rank, .dims = want.dims};
  if (from->find) {
    TRY(from->find(from->ctx, p->ir.constants.items[i].name, &c));
  } else {
    c = from->list[i];
  }
  if (!same_shape(&c, &p->types[i]))
    return INVALID("its dtype or shape is not what the program declares");
  return bind_constant(p, i, c.data);
}

static clave_status bind_all(program *p, const constant_source *from) {
  if (!from->find && from->n != p->ir.constants.count)
    return INVALID("%zu constants given, the program has %u", from->n, p->ir.constants.count);
  TRY(alloc_constants(p));
  for (uint32_t i = 0; i < p->ir.constants.count; i++) {
    clave_status st = bind_given(p, i, from);
    if (st) return status_while(st, "constant %u ('%.200s')", i, p->ir.constants.items[i].name);
  }
  p->ir.consts_hash = 0;
  p->unhashed = true;
  return NULL;
}

uint32_t needed_version(const ir_program *p) {
  int version = 0;
  for (uint32_t c = 0; c < p->chains.count; c++) {
    const ir_instructions *list = &p->chains.items[c].instructions;
    for (uint32_t i = 0; i < list->count; i++) {
      int since = instruction_needs(p, &list->items[i]).version;
      if (since > version) version = since;
    }
  }
  for (uint32_t i = 0; i < p->tensors.count; i++) {
    int since = tensor_needs(&p->tensors.items[i]).version;
    if (since > version) version = since;
  }
  return (uint32_t)version;
}

static clave_status fill_program(program *p, const void *flatbuffer, size_t size,
                                 const constant_source *from) {
  TRY(decode_flatbuffer(flatbuffer, size, p->pool, &p->ir));
  p->ir.version = needed_version(&p->ir);
  TRY(verify_program(p));
  return bind_all(p, from);
}

clave_status program_create(const void *flatbuffer, size_t size, const constant_source *from,
                            program **out) {
  program *p;
  *out = NULL;
  TRY(program_new(&p));
  clave_status st = fill_program(p, flatbuffer, size, from);
  if (st) {
    program_destroy(p);
    return st;
  }
  *out = p;
  return NULL;
}

/* The packed forms of constants that are the same bytes in both; borrowed. */
static clave_status keep_forms(program *p, const program *from) {
  for (size_t i = 0; i < from->n_forms; i++) {
    program_form f = from->forms[i];
    const void *data = from->constants[f.constant];
    uint32_t same = 0;
    while (same < p->ir.constants.count && p->constants[same] != data) same++;
    if (!data || same == p->ir.constants.count) continue;
    f.constant = same;
    TRY(program_share_form(p, &f));
  }
  return NULL;
}

clave_status program_finish_copy(program *p, const program *from) {
  for (uint32_t i = 0; i < from->n_sections; i++) {
    const program_section *s = &from->sections[i];
    char tag[sizeof s->tag + 1] = {0};
    memcpy(tag, s->tag, sizeof s->tag);
    TRY(program_set_section(p, tag, s->data, s->size, s->required));
  }
  p->unhashed = true;
  p->base = from;
  return keep_forms(p, from);
}
