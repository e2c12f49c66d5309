/* Programs from memory: a FlatBuffers program and the caller's constants. */
#include <string.h>

#include "serialize/decode.h"
#include "serialize/program_files.h"
#include "serialize/verify.h"

static bool is_as_declared(const constant_data *data, const tensor *declared) {
  const tensor stored = tensor_stored(declared);
  return data->type == stored.type && data->rank == stored.rank &&
         (stored.rank == 0 ||
          memcmp(data->dims, stored.dims, (size_t)stored.rank * sizeof *stored.dims) == 0);
}

static clave_status bind_given(program *program, uint32_t i, const constant_source *from) {
  const tensor want = tensor_stored(&program->types[i]);
  constant_data data = {.type = want.type, .rank = want.rank, .dims = want.dims};
  if (from->find) {
    TRY(from->find(from->ctx, program->ir.constants.items[i].name, &data));
  } else {
    data = from->list[i];
  }
  if (!is_as_declared(&data, &program->types[i]))
    return INVALID("the dtype or shape differs from the program's declaration");
  return bind_constant(program, i, data.data);
}

static clave_status bind_all_given(program *program, const constant_source *from) {
  if (!from->find && from->n != program->ir.constants.count)
    return INVALID("%zu constants are given, and the program has %u", from->n,
                   program->ir.constants.count);
  TRY(alloc_constants(program));
  for (uint32_t i = 0; i < program->ir.constants.count; i++) {
    clave_status st = bind_given(program, i, from);
    if (st)
      return status_while(st, "constant %u ('%.200s')", i, program->ir.constants.items[i].name);
  }
  program->ir.consts_hash = 0;
  program->unhashed = true;
  return NULL;
}

uint32_t needed_version(const ir_program *program) {
  int version = 0;
  for (uint32_t c = 0; c < program->chains.count; c++) {
    const ir_instructions *list = &program->chains.items[c].instructions;
    for (uint32_t i = 0; i < list->count; i++) {
      int since = instruction_needs(program, &list->items[i]).version;
      if (since > version) version = since;
    }
  }
  for (uint32_t i = 0; i < program->tensors.count; i++) {
    int since = tensor_needs(&program->tensors.items[i]).version;
    if (since > version) version = since;
  }
  return (uint32_t)version;
}

static clave_status fill_created(program *program, const void *flatbuffer, size_t size,
                                 const constant_source *from) {
  TRY(decode_flatbuffer(flatbuffer, size, program->pool, &program->ir));
  program->ir.version = needed_version(&program->ir);
  TRY(verify_program(program));
  return bind_all_given(program, from);
}

clave_status program_create(const void *flatbuffer, size_t size, const constant_source *from,
                            program **out) {
  program *program;
  *out = NULL;
  TRY(program_new(&program));
  clave_status st = fill_created(program, flatbuffer, size, from);
  if (st) {
    program_destroy(program);
    return st;
  }
  *out = program;
  return NULL;
}

/* Lets `copy` borrow those packed weights whose constants have the same address in both
 * programs. */
static clave_status keep_packed_weights(program *copy, const program *from) {
  for (size_t i = 0; i < from->n_packed_weights; i++) {
    program_packed_weight desc = from->packed_weights[i];
    const void *data = from->constants[desc.constant];
    uint32_t same = 0;
    while (same < copy->ir.constants.count && copy->constants[same] != data) same++;
    if (!data || same == copy->ir.constants.count) continue;
    desc.constant = same;
    TRY(program_share_packed_weight(copy, &desc));
  }
  return NULL;
}

clave_status program_finish_copy(program *copy, const program *from) {
  for (uint32_t i = 0; i < from->n_sections; i++) {
    const program_section *section = &from->sections[i];
    char tag[sizeof section->tag + 1] = {0};
    memcpy(tag, section->tag, sizeof section->tag);
    TRY(program_set_section(copy, tag, section->data, section->size, section->required));
  }
  copy->unhashed = true;
  copy->base = from;
  return keep_packed_weights(copy, from);
}
