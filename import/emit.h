#ifndef IMPORT_EMIT_H
#define IMPORT_EMIT_H
/* Emits instructions of the program, with the shapes of their results. All functions accept NULL
 * values, after an error, and then return NULL. Negative axes count from the end. */
#include "import/value.h"

/* Returns a new tensor, which a control op writes. */
value *emit_declare(importer *im, clave_dtype type, int rank, const number *dims);
/* Adds an input of the method, or state of the session, in the order of the calls. */
value *emit_input(importer *im, const char *name, clave_dtype type, int rank, const number *dims);
value *emit_state(importer *im, const char *name, clave_dtype type, int rank, const number *dims);
/* Begins an instruction whose result `out` is a new tensor of this dtype and shape. The caller sets
 * the other fields, whose tensors must exist before. */
value *emit_begin(importer *im, const char *op, clave_dtype type, int rank, const number *dims);
/* Begins an instruction that moves elements of input, its operand `input`. The result has its
 * dtype. */
value *emit_begin_move(importer *im, const char *op, const value *input, int rank,
                       const number *dims);
/* Adds a further result of the current instruction, in the field of this name. */
value *emit_result(importer *im, const char *field, clave_dtype type, int rank, const number *dims);
/* Sets a field to the tensor of input; nothing for NULL. emit_prepare made the tensor. */
void emit_set_tensor(importer *im, const char *field, const value *input);
void emit_set_number(importer *im, const char *field, number a);
void emit_set_sizes(importer *im, const char *field, const number *sizes, int n);
void emit_set_ints(importer *im, const char *field, const int64_t *ints, int n);
/* Fails, now or during the run, unless kind(a, b) holds: NUMBER_EQ to NUMBER_GE. */
void emit_check(importer *im, number_kind kind, number a, number b, const char *message);
/* Makes the tensor of input. Returns false after an error or for NULL. */
bool emit_prepare(importer *im, value *input);

/* Returns the axis counted from 0; fails if it is not within the rank. */
int emit_axis(importer *im, int64_t axis, int rank);

/* ---- emit_elementwise.c ---- */
/* The dims of tensors that are broadcast to each other as in numpy. */
int emit_broadcast(importer *im, value *const *xs, int n, number *dims);
/* kind: a row of ops/elementwise.tsv. The operands, broadcast to each other, have one dtype, in
 * which the step computes; stored-only dtypes (U16, U32, U64, 8-bit floats) are computed in a wider
 * one. */
value *emit_step(importer *im, const char *kind, value *const *operands, int n);
value *emit_unary(importer *im, const char *kind, value *input);
value *emit_binary(importer *im, const char *kind, value *input, value *other);
/* Rounds y to input's dtype. */
value *emit_binary_float(importer *im, const char *kind, value *input, double y);
value *emit_where(importer *im, value *condition, value *input, value *other);
value *emit_cast(importer *im, value *input, clave_dtype type);
value *emit_computable(importer *im, value *input); /* casts a stored-only dtype to a wider one */
clave_dtype emit_computable_type(clave_dtype type);

/* ---- emit_views.c ---- */
value *emit_reshape(importer *im, value *input, int rank, const number *dims);
value *emit_permute(importer *im, value *input, const int *order);
value *emit_transpose(importer *im, value *input, int axis, int other); /* exchanges two axes */
value *emit_expand(importer *im, value *input, int rank, const number *dims);
value *emit_unsqueeze(importer *im, value *input, int axis); /* axis of the result */
value *emit_squeeze(importer *im, value *input, int axis);
/* input[start:stop] along an axis, both within 0 and the size */
value *emit_slice(importer *im, value *input, int axis, number start, number stop);
value *emit_slice_step(importer *im, value *input, int axis, number start, number stop,
                       int64_t step);
value *emit_flip(importer *im, value *input, int axis);
value *emit_select(importer *im, value *input, int axis, number index); /* removes the axis */
/* Removes two axes; the last axis of the result is their diagonal. */
value *emit_diagonal(importer *im, value *input, int axis, int other);
/* Reshapes input to a matrix: (the dims before axis, the other dims). */
value *emit_flatten(importer *im, value *input, int axis);

/* ---- emit_data.c ---- */
value *emit_cat(importer *im, value *const *xs, int n, int axis);
value *emit_full(importer *im, clave_dtype type, int rank, const number *dims, number element);
value *emit_arange(importer *im, clave_dtype type, number start, number step, number count);
value *emit_arange_tensor(importer *im, number count); /* I64; not kept as numbers */
value *emit_copy(importer *im, value *input); /* a contiguous copy in a tensor of its own */
/* Makes a value the method's next output. A temporary becomes it; any other value is copied. */
void emit_output(importer *im, const char *name, value *out);
/* mode: "constant", "reflect", "replicate" or "circular"; before, after: (rank) */
value *emit_pad(importer *im, value *input, const number *before, const number *after,
                const char *mode, double fill);
value *emit_triangle(importer *im, value *input, int64_t diagonal, bool upper);
/* input[..., index, ...]: index's shape replaces the axis. Negative indices must have been wrapped.
 */
value *emit_index_select(importer *im, value *input, int axis, value *index);
value *emit_gather(importer *im, value *input, int axis, value *index); /* as torch.gather */
/* input[i0, i1, ...] of n indices */
value *emit_index(importer *im, value *input, value *const *indices, int n);
/* kind: "assign", "add", "mul", "max", "min" */
value *emit_scatter(importer *im, const char *kind, value *input, int axis, value *index,
                    value *source);
value *emit_slice_update(importer *im, value *input, value *update, int axis, number start);
value *emit_bitcast(importer *im, value *input, clave_dtype type); /* equal element sizes */
/* Adds the size of the axis to negative indices. */
value *emit_wrap_index(importer *im, value *index, number size);

/* ---- emit_reduce.c ---- */
/* kind: "sum", "mean", ...; no axes: all */
value *emit_reduce(importer *im, const char *kind, value *input, const int *axes, int n,
                   bool keepdim);
value *emit_arg_reduce(importer *im, const char *kind, value *input, int axis, bool keepdim);
value *emit_softmax(importer *im, value *input, int axis, bool log);
value *emit_cumulate(importer *im, const char *kind, value *input, int axis);
/* The first k elements in sorted order; *indices (may be NULL) receives their I64 indices. */
value *emit_sort(importer *im, value *input, int axis, number k, bool descending, value **indices);
/* alpha * left @ right + beta * bias; bias may be NULL */
value *emit_matmul(importer *im, value *left, value *right, value *bias, double alpha, double beta);

#endif
