#ifndef SERIALIZE_PROGRAM_H
#define SERIALIZE_PROGRAM_H
/* A decoded and verified program with its constants, and the files it comes from and goes to.
 * Read-only once made, so threads may share it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "ir.h"
#include "ops/tensor.h"

/* A section of a .clv file that is not the program's own (a tokenizer, say): kept and written
 * again. */
typedef struct program_section {
  char tag[4];
  bool required;       /* a reader that does not know it must refuse the file */
  const uint8_t *data; /* borrowed from the program's file, or in pool */
  size_t size;
} program_section;

/* A constant as a device wants it (backend.h: constant_form), packed ahead. The bytes are those of
 * the program's constants for a device whose backend_info.forms is `layout`. */
typedef struct program_form {
  char layout[32];   /* NUL-terminated */
  uint32_t constant; /* Tid */
  int kind;
  tensor view; /* without encoding: the constant's */
  int64_t size[3];
  size_t bytes;
  uint64_t hash;    /* XXH3 of the bytes */
  const void *data; /* borrowed from the program's file, or own */
  void *own;        /* owned, or NULL */
} program_form;

typedef struct program program;
struct program {
  ir_program ir;
  mem_pool *pool; /* owned: everything decoded */
  mem_pool *data; /* owned: constants that were copied for this program; NULL */
  tensor *types;  /* by Tid, in pool: as declared; DIM_UNKNOWN where a Vid stands; strides only if
                     all are known */
  void *copied;   /* owned: constants that were the caller's (program_own_constants); NULL */
  const void **constants; /* by Tid, in pool: the bytes of constants, aligned to their dtype; NULL
                             if empty */
  file_map maps[2];       /* [0] the .clv, [1] the .json's constants */
  const char *paths[2];   /* in pool: the paths of maps */
  const program *base;    /* borrowed: of a copy, whose maps its constants lie in; NULL */
  struct tensor_file *tensors; /* owned: what is in maps[1] */
  program_section *sections;   /* in pool */
  uint32_t n_sections;
  program_form *forms; /* owned (n_forms) */
  size_t n_forms, cap_forms;
  bool unhashed; /* made in memory: consts_hash is 0, and a file gets one when it is written */
};

/* A constant of the caller's: contiguous, outliving the program. */
typedef struct constant_data {
  dtype type;
  int rank;
  const int64_t *dims;
  const void *data;
} constant_data;

/* Where constants come from: all in slot order, or each by its name. */
typedef struct constant_source {
  const constant_data *list;
  size_t n;
  /* Given the stored dtype and shape that the program declares in *data; sets data, perhaps others.
   */
  clave_status (*find)(void *ctx, const char *name, constant_data *data); /* NULL: list */
  void *ctx;
} constant_source;

/* An empty program, to be filled and destroyed. */
clave_status program_new(program **out) STATUS_CHECK;
void program_destroy(program *program); /* takes NULL and half-built ones */
/* Reads a .clv or .json program, told apart by their first bytes, and verifies it whole. consts:
 * the constants of a .json, NULL for consts.safetensors beside it. Errors end in the file's path.
 */
clave_status program_load(const char *path, const char *consts, program **out) STATUS_CHECK;
/* The same from the bytes of a .clv, which are used in place and outlive the program. name: for
 * messages. */
clave_status program_load_bytes(const void *clv, size_t size, const char *name,
                                program **out) STATUS_CHECK;
/* From the FlatBuffers form (copied) and its constants (borrowed, not read). Fills in version. */
clave_status program_create(const void *flatbuffer, size_t size, const constant_source *from,
                            program **out) STATUS_CHECK;
/* Gives a program that was made of another its sections and metadata. */
clave_status program_finish_copy(program *first_program, const program *from) STATUS_CHECK;
/* By the ending: .clv, or .json with consts.safetensors beside it (none if there are no constants).
 * Each file is written whole or not at all. Refuses to replace a consts.safetensors that is not
 * this program's own. */
clave_status program_save(const program *program, const char *path) STATUS_CHECK;
/* What set_* are given is copied into the program's pool. A tag is one of four letters or digits.
 */
const program_section *program_find_section(const program *program, const char *tag); /* or NULL */
clave_status program_set_section(program *program, const char *tag, const void *data, size_t size,
                                 bool required) STATUS_CHECK; /* data NULL: removed */
clave_status program_set_metadata(program *program, const char *metadata) STATUS_CHECK;
/* ---- forms.c ---- */
/* The one with these fields, data and hash aside; NULL. */
const program_form *program_find_form(const program *program, const program_form *desc);
bool program_form_is_whole(const program_form *desc); /* reads it all: whether its hash is right */
/* Adds a form, or puts it in the place of the one with these fields; takes desc->own over, also on
 * failure. Fills in the hash. */
clave_status program_add_form(program *program, const program_form *desc) STATUS_CHECK;
/* Adds one whose bytes another program owns, which outlives this one, as they are. */
clave_status program_share_form(program *program, const program_form *desc) STATUS_CHECK;
void program_drop_forms(program *program);

/* Copies constants that are the caller's, who may change or free them from then on. The program is
 * not in use yet; on failure it is unchanged. */
clave_status program_own_constants(program *program) STATUS_CHECK;
/* Fails with IO if a file that holds constants was cut short, or was written to and holds other
 * constants now: bytes that were read may be wrong. Readers of constants call it before and after;
 * it takes microseconds while nothing changes. */
clave_status program_check_files(const program *program) STATUS_CHECK;
/* The same after constants were read. st: the reader's status, returned if the files are good, else
 * freed. */
clave_status program_check_after(const program *program, clave_status st) STATUS_CHECK;
/* Reads all constants and compares them with consts_hash (done at load for .json, not for .clv),
 * and packed forms with theirs; nothing where there is none. */
clave_status program_check_hashes(const program *program) STATUS_CHECK;

/* A method's nodes: those of its chain, then, from the first control op on, those of each of its
 * bodies, each chain's followed by those of the bodies in it. */
uint32_t program_count_nodes(const ir_program *program, uint32_t chain);
/* In: the method's chain and a node's number. Out: the chain in which it stands, and where. */
void program_find_node(const ir_program *program, uint32_t number, uint32_t *chain,
                       uint32_t *index);

/* Tensor slots lie in this order, so that a slot's kind is a range test. */
typedef enum slot_kind {
  SLOT_CONSTANT,
  SLOT_INPUT,
  SLOT_OUTPUT,
  SLOT_STATE,
  SLOT_TEMPORARY
} slot_kind;
slot_kind program_slot_kind(const ir_program *program, uint32_t tid);
/* Of a state whose open dimension is the largest; false: it overflows. */
bool program_state_bytes(const ir_program *program, uint32_t tid, size_t *bytes);
const char *slot_kind_name(slot_kind kind); /* "constant" */

#endif
