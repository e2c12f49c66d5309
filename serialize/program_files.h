#ifndef SERIALIZE_PROGRAM_FILES_H
#define SERIALIZE_PROGRAM_FILES_H
/* Functions shared by the files that create and write programs: load.c, create.c, save.c, clv.c,
 * packed_weights.c. */
#include "serialize/program.h"
#include "serialize/safetensors.h"

/* ---- constants.c ---- */
/* Allocates program->constants, all NULL. */
clave_status alloc_constants(program *program) STATUS_CHECK;
/* Binds constant i to `data`, or to a copy if `data` is not aligned for its dtype. */
clave_status bind_constant(program *program, uint32_t i, const void *data) STATUS_CHECK;
/* Hashes name, dtype, rank, dims and bytes of every constant, in order (docs/reference/formats.md).
 * The hash is 0 if there are no constants. */
clave_status hash_constants(const program *program, uint64_t *out) STATUS_CHECK;

/* ---- create.c ---- */
uint32_t needed_version(const ir_program *program); /* returns the lowest schema version that
                                                       supports everything in the program */

/* ---- .clv ---- */
bool is_clv(const void *bytes, size_t size);
/* Decodes, verifies and binds the program in `bytes`, which must outlive it. */
clave_status clv_read(program *program, const uint8_t *bytes, size_t size) STATUS_CHECK;
clave_status clv_write(const program *program, const char *path) STATUS_CHECK;

/* ---- sections.c ---- */
enum { N_OWN_SECTIONS = 5 };
bool is_own_section(const char *tag); /* true for the program's own: PROG, CIDX, CONS, FIDX, FORM */
/* Returns the section with this tag, creating an empty one if it does not exist. */
clave_status add_section_to(program *program, const char *tag, program_section **out) STATUS_CHECK;

/* ---- packed_weights.c ---- */
enum {
  PACKED_WEIGHT_ALIGNMENT = 4096
}; /* alignment of section FORM and of each packed weight in it */
/* Reads the packed weights that `index` lists and `section` stores. Skips packed weights that were
 * made from other constants. */
clave_status packed_weights_read(program *program, const uint8_t *index, size_t index_size,
                                 const uint8_t *section, size_t size) STATUS_CHECK;
/* The contents of section FIDX, the index of a program's packed weights, and the size and hash of
 * section FORM. index: owned by the caller. */
typedef struct packed_weights_plan {
  uint8_t *index;
  size_t index_size;
  uint64_t size; /* bytes of section FORM */
  uint64_t hash;
} packed_weights_plan;
clave_status packed_weights_plan_create(const program *program,
                                        packed_weights_plan *out) STATUS_CHECK;
clave_status packed_weights_write(const program *program, file_writer *writer) STATUS_CHECK;
/* Fails if the bytes of a packed weight do not match their hash. */
clave_status packed_weights_check(const program *program) STATUS_CHECK;

/* ---- .json ---- */
/* The metadata key of consts.safetensors under which the hash is stored as 16 hexadecimal digits.
 */
#define CONSTS_HASH_KEY "clave.consts_hash"
/* Returns the path of consts.safetensors in the folder of `path`, which the caller frees, or NULL
 * if memory is exhausted. */
char *consts_path_beside(const char *path);

#endif
