#ifndef COMPILE_RUNTIME_ARGUMENTS_H
#define COMPILE_RUNTIME_ARGUMENTS_H
/* The arguments of a method in words, and the sizes that follow from what its inputs are given. */
#include "base/memory.h"
#include "compile/runtime/model.h"

/* Bytes of an argument of these dimensions (NULL: its own, all numbers). False: they overflow, or
 * one is open. */
bool argument_bytes(const model_argument *argument, const int64_t *dims, size_t *bytes);
/* "F32 (batch, 784), a multiple of 3136 bytes", "I64 (4), 32 bytes", "a number, F64" */
void append_type(text *text, const model_method *method, const model_argument *argument);

/* An input as it was given: elements alone, or with their shape. */
typedef struct given_input {
  const char *from; /* for messages: a file */
  size_t bytes;
  const int64_t *dims; /* (rank), of the input's rank; NULL: not known */
} given_input;

#define SIZE_UNKNOWN INT64_MIN

/* sizes (n_sizes): in: what was said of them, or SIZE_UNKNOWN; out: all, within their bounds. Each
 * follows from an input of which it is the only unknown size. INVALID: which does not follow, what
 * is wrong. All inputs are as large as their sizes say, then. */
clave_status find_sizes(const model_method *method, const given_input *given,
                        int64_t *sizes) STATUS_CHECK;
/* An input's dimensions, (rank). */
void known_dims(const model_argument *argument, const int64_t *sizes, int64_t *dims);
/* NAME=N among the sizes of the method. */
clave_status read_size(const model_method *method, const char *word, int64_t *sizes) STATUS_CHECK;
/* A number for a scalar input, as its 8 bytes or, of a BOOL, one. */
clave_status read_number(const model_argument *argument, const char *word,
                         unsigned char bytes[8]) STATUS_CHECK;

#endif
