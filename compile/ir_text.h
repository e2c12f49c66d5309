#ifndef COMPILE_IR_TEXT_H
#define COMPILE_IR_TEXT_H
/* The decoded program's structs as C initialisers, by their descriptors. */
#include "base/memory.h"
#include "ir.h"

/* "{.x = 3, .stride = {(int32_t[]){1, 1}, 2}}": designated, without what is 0. */
void write_ir(text *to, const ir_table *table, const void *base);
/* "layer_norm" of "LayerNorm". */
void write_ir_name(text *to, const char *name);

#endif
