#ifndef SERIALIZE_PROGRAM_FILES_H
#define SERIALIZE_PROGRAM_FILES_H
/* What the files share that make programs and write them: load.c, create.c, save.c, clv.c. */
#include "serialize/program.h"
#include "serialize/safetensors.h"

/* ---- constants.c ---- */
/* Allocates program->constants. */
clave_status alloc_constants(program *program) STATUS_CHECK;
/* Sets constant i to `data`, or to a copy if that is not aligned for its dtype. */
clave_status bind_constant(program *program, uint32_t i, const void *data) STATUS_CHECK;
/* Over name, dtype, rank, dims and bytes of every constant, in order (docs/format.md); 0 without
 * constants. */
clave_status hash_constants(const program *program, uint64_t *out) STATUS_CHECK;

/* ---- create.c ---- */
uint32_t needed_version(const ir_program *program); /* the highest of what is in it */

/* ---- .clv ---- */
bool is_clv(const void *bytes, size_t size);
/* Decodes, verifies and binds what is in `bytes`, which outlive program. */
clave_status clv_read(program *program, const uint8_t *bytes, size_t size) STATUS_CHECK;
clave_status clv_write(const program *program, const char *path) STATUS_CHECK;

/* ---- sections.c ---- */
enum { N_OWN_SECTIONS = 5 };
bool is_own_section(const char *tag); /* one of the program itself: PROG, CIDX, CONS, FIDX, FORM */
/* The one with this tag, made (empty) if it is not there. */
clave_status add_section_to(program *program, const char *tag, program_section **out) STATUS_CHECK;

/* ---- forms.c ---- */
enum { FORM_ALIGNMENT = 4096 }; /* of section FORM, and of each form in it */
/* What is in the index `index`, whose forms lie in `section`; those of other constants are left
 * out. */
clave_status forms_read(program *program, const uint8_t *index, size_t index_size,
                        const uint8_t *section, size_t size) STATUS_CHECK;
/* The index of p's forms, made for consts_hash; owned by the caller. */
typedef struct forms_plan {
  uint8_t *index;
  size_t index_size;
  uint64_t size; /* of the section */
  uint64_t hash;
} forms_plan;
clave_status forms_plan_create(const program *program, forms_plan *out) STATUS_CHECK;
clave_status forms_write(const program *program, file_writer *writer) STATUS_CHECK;
clave_status forms_check(const program *program) STATUS_CHECK;

/* ---- .json ---- */
/* The key of a consts.safetensors' metadata that holds the hash, as 16 hexadecimal digits. */
#define CONSTS_HASH_KEY "clave.consts_hash"
/* consts.safetensors in the folder of `path`. Caller frees; NULL when memory is out. */
char *consts_path_beside(const char *path);

#endif
