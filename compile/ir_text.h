#ifndef COMPILE_IR_TEXT_H
#define COMPILE_IR_TEXT_H
/* Writes structs of the decoded program as C initialisers, by their descriptors. */
#include "base/memory.h"
#include "ir.h"

/* Writes "{.x = 3, .stride = {(int32_t[]){1, 1}, 2}}": a designated initialiser without zero
 * members. */
void write_ir(text *to, const ir_table *table, const void *base);
/* Writes "layer_norm" for "LayerNorm". */
void write_ir_name(text *to, const char *name);

#endif
