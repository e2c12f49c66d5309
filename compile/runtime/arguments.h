#ifndef COMPILE_RUNTIME_ARGUMENTS_H
#define COMPILE_RUNTIME_ARGUMENTS_H
/* Describes the arguments of a method, and derives sizes from the given inputs. */
#include "base/memory.h"
#include "compile/runtime/model.h"

/* Computes the bytes of an argument with these dimensions (NULL: its own, which are all fixed).
 * Returns false if they overflow or one is open. */
bool argument_bytes(const model_argument *argument, const int64_t *dims, size_t *bytes);
/* Appends "F32 (batch, 784), a multiple of 3136 bytes", "I64 (4), 32 bytes" or "a number, F64". */
void append_type(text *text, const model_method *method, const model_argument *argument);

/* A given input: its bytes, and its shape if known. */
typedef struct given_input {
  const char *from; /* its source for messages, such as a file */
  size_t bytes;
  const int64_t *dims; /* (rank) as in the method; NULL: unknown */
} given_input;

#define SIZE_UNKNOWN INT64_MIN

/* sizes: (n_sizes); on entry given sizes or SIZE_UNKNOWN, on return all sizes, within their bounds.
 * An unknown size is derived from an input that has no other unknown size. INVALID names a size
 * that cannot be derived or is wrong. On success all inputs have the bytes that their sizes
 * require. */
clave_status find_sizes(const model_method *method, const given_input *given,
                        int64_t *sizes) STATUS_CHECK;
/* Sets dims (rank) to an input's dimensions. */
void known_dims(const model_argument *argument, const int64_t *sizes, int64_t *dims);
/* Parses NAME=N and sets this size of the method. */
clave_status read_size(const model_method *method, const char *word, int64_t *sizes) STATUS_CHECK;
/* Parses a number for a scalar input: 8 bytes, or one for a BOOL. */
clave_status read_number(const model_argument *argument, const char *word,
                         unsigned char bytes[8]) STATUS_CHECK;

#endif
