#ifndef SERIALIZE_PROGRAM_H
#define SERIALIZE_PROGRAM_H
/* A decoded and verified program with its constants, and the files that it is read from and
 * written to. It is immutable once created, so threads may share it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "ir.h"
#include "ops/tensor.h"

/* A section of a .clv file that belongs to a user of the format, such as a tokenizer. Loading keeps
 * the section and saving writes it again. */
typedef struct program_section {
  char tag[4];
  bool required;       /* readers that do not know the section must reject the file */
  const uint8_t *data; /* borrowed from the program's file, or owned by pool */
  size_t size;
} program_section;

/* A packed weight: a constant that was packed ahead of time for a device (packed_weight_request of
 * backend.h). Its bytes suit the devices whose backend_info.weight_layout equals `layout`. */
typedef struct program_packed_weight {
  char layout[32];   /* NUL-terminated */
  uint32_t constant; /* Tid */
  int kind;
  tensor view; /* the constant as the op reads it, without encoding */
  int64_t size[3];
  size_t bytes;
  uint64_t hash;    /* XXH3 of the bytes */
  const void *data; /* points into the program's file, or equals own */
  void *own;        /* owned; may be NULL */
} program_packed_weight;

/* A mapped file. */
typedef struct program_file {
  file_map map;
  char *path; /* owned */
} program_file;

typedef struct program program;
struct program {
  ir_program ir;
  mem_pool *pool; /* owned: everything decoded */
  mem_pool *data; /* owned: constants copied for this program; may be NULL */
  tensor *types;  /* by Tid, in pool: the declared types, with DIM_UNKNOWN for sizes that are Vids;
                     strides only if all sizes are known */
  void *copied;   /* owned: copies of the caller's constants (program_own_constants); may be NULL */
  const void **constants; /* by Tid, in pool: the bytes of constants, aligned for their dtype; NULL
                             if empty */
  program_file *files; /* owned: the files that constants are read from, the program's own first */
  size_t n_files, cap_files;
  const program *base; /* borrowed: owner of the files with this copy's constants; may be NULL */
  struct tensor_file *tensors; /* owned: the contents of a .json program's file of constants */
  program_section *sections;   /* in pool */
  uint32_t n_sections;
  program_packed_weight *packed_weights; /* owned, (n_packed_weights) */
  size_t n_packed_weights, cap_packed_weights;
  bool unhashed; /* made in memory: consts_hash is 0 and is computed when a file is written */
};

/* A constant that the caller owns: contiguous; must outlive the program. */
typedef struct constant_data {
  dtype type;
  int rank;
  const int64_t *dims;
  const void *data;
} constant_data;

/* The source of constants: a list in slot order, or a function that finds each constant by its
 * name. */
typedef struct constant_source {
  const constant_data *list;
  size_t n;
  /* Finds a constant. *data holds the stored dtype and shape that the program declares; the
   * function sets data->data, and may replace dtype and shape. */
  clave_status (*find)(void *ctx, const char *name, constant_data *data); /* NULL: use list */
  void *ctx;
} constant_source;

/* Creates an empty program for the caller to fill and destroy. */
clave_status program_new(program **out) STATUS_CHECK;
/* Maps a file that constants are read from. */
clave_status program_open_file(program *program, const char *path) STATUS_CHECK;
/* Adds a mapped file, and takes ownership of it, also on failure. */
clave_status program_add_file(program *program, program_file file) STATUS_CHECK;
void program_close_file(program *program); /* closes the file that was opened last */
void program_destroy(program *program);    /* accepts NULL and half-built programs */
/* Reads a .clv or .json program, which its first bytes distinguish, and verifies all of it. consts:
 * the file with the constants of a .json, or NULL for consts.safetensors in the same folder. Errors
 * end with the file's path. */
clave_status program_load(const char *path, const char *consts, program **out) STATUS_CHECK;
/* Works like program_load on the bytes of a .clv, which are used in place and must outlive the
 * program. name: used in messages. */
clave_status program_load_bytes(const void *clv, size_t size, const char *name,
                                program **out) STATUS_CHECK;
/* Creates a program from its FlatBuffers encoding (copied) and its constants (borrowed, not read).
 * Sets the version. */
clave_status program_create(const void *flatbuffer, size_t size, const constant_source *from,
                            program **out) STATUS_CHECK;
/* Completes `copy`, a program made from `from`: copies the sections and borrows packed weights.
 * `from` must outlive it. */
clave_status program_finish_copy(program *copy, const program *from) STATUS_CHECK;
/* Writes a .clv, or a .json with consts.safetensors beside it (none without constants), as the file
 * extension selects. Each file is written whole or not at all. Fails if it would replace a
 * consts.safetensors that belongs to another program. */
clave_status program_save(const program *program, const char *path) STATUS_CHECK;
/* The setters copy their arguments into the program's pool. A tag is four letters or digits. */
const program_section *program_find_section(const program *program, const char *tag); /* or NULL */
clave_status program_set_section(program *program, const char *tag, const void *data, size_t size,
                                 bool required) STATUS_CHECK; /* data NULL: removes it */
clave_status program_set_metadata(program *program, const char *metadata) STATUS_CHECK;
/* ---- packed_weights.c ---- */
/* Returns the packed weight that equals desc except in data and hash, or NULL. */
const program_packed_weight *program_find_packed_weight(const program *program,
                                                        const program_packed_weight *desc);
bool program_packed_weight_is_whole(
    const program_packed_weight *desc); /* reads all bytes; true if they match the hash */
/* Adds a packed weight, or replaces the one with the same fields. Takes ownership of desc->own,
 * also on failure, and sets the hash. */
clave_status program_add_packed_weight(program *program,
                                       const program_packed_weight *desc) STATUS_CHECK;
/* Adds a packed weight whose bytes belong to another program, which must outlive this one. Keeps
 * the weight's hash. */
clave_status program_share_packed_weight(program *program,
                                         const program_packed_weight *desc) STATUS_CHECK;
void program_drop_packed_weights(program *program);

/* Copies the caller's constants, which the caller may then change or free. The program must not be
 * in use yet; on failure it is unchanged. */
clave_status program_own_constants(program *program) STATUS_CHECK;
/* Fails with IO if a file with constants was truncated, or was modified and now contains other
 * constants: bytes that were read may be wrong. Readers of constants call it before and after they
 * read. It takes microseconds if the file is unchanged. */
clave_status program_check_files(const program *program) STATUS_CHECK;
/* Works like program_check_files after constants were read. st: the reader's status, which is
 * returned if the files are unchanged, and freed otherwise. */
clave_status program_check_after(const program *program, clave_status st) STATUS_CHECK;
/* Reads all constants and packed weights, and fails unless they match their hashes. program_load
 * checks the hash of a .json program's constants, but not those of a .clv. */
clave_status program_check_hashes(const program *program) STATUS_CHECK;

/* Counts a method's nodes: those of its chain, followed by those of the bodies of its control ops
 * in order, each followed by the bodies within it. */
uint32_t program_count_nodes(const ir_program *program, uint32_t chain);
/* Finds node `number` of the method with chain *chain. Sets *chain to the chain that contains the
 * node, and *index to its index in that chain. */
void program_find_node(const ir_program *program, uint32_t number, uint32_t *chain,
                       uint32_t *index);

/* Tensor slots are stored in this order, so a slot's kind is a range test. */
typedef enum slot_kind {
  SLOT_CONSTANT,
  SLOT_INPUT,
  SLOT_OUTPUT,
  SLOT_STATE,
  SLOT_TEMPORARY
} slot_kind;
slot_kind program_slot_kind(const ir_program *program, uint32_t tid);
/* Sets *bytes to the size of a state tensor whose open dimension is at its maximum. Returns false
 * on overflow. */
bool program_state_bytes(const ir_program *program, uint32_t tid, size_t *bytes);
const char *slot_kind_name(slot_kind kind); /* "constant" */

#endif
