#ifndef IMPORT_IMPORTER_H
#define IMPORT_IMPORTER_H
/* The state of an import: a program that grows, the first error, notes on unsupported nodes, and
 * the scopes of bodies. Importers of all formats use it; it knows no format.
 *
 * Functions that emit or compute return no status. The first error of a node is kept; after it they
 * do nothing and return NULL or 0, and they accept NULL. So a converter of a node is straight code,
 * and the importer checks once after it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "clave_builder.h"
#include "import/import.h"

enum { MAX_BODY_DEPTH = 64, MAX_REPORTED = 64 };

/* A node, or a kind of node, that cannot be imported. */
typedef struct unsupported {
  const char *what;  /* "com.acme.Foo (version 3)" or "Resize: mode 'crop'"; in pool */
  const char *nodes; /* names of the first nodes; in pool */
  int count;
} unsupported;

typedef struct number_entry number_entry;
typedef struct importer {
  mem_pool *pool;         /* owned: everything of the import */
  clave_builder *builder; /* owned */
  clave_status error;     /* owned: why the current node cannot be imported */
  clave_status fatal;     /* owned: the file is wrong, or memory is out; ends the import */
  const char *node;       /* name of the current node; in pool */

  uint32_t
      scopes[MAX_BODY_DEPTH]; /* (depth + 1) serial numbers of the open bodies; 0: the method */
  int depth;
  uint32_t n_scopes;

  number_entry *numbers; /* owned, (n_numbers): host scalars computed so far, by expression */
  size_t n_numbers, cap_numbers;
  int32_t *buckets; /* owned, (N_BUCKETS): last entry of each hash; -1: none */

  unsupported *reported; /* owned */
  size_t n_reported, cap_reported;
  int n_more; /* unsupported nodes beyond MAX_REPORTED kinds */

  import_file *files; /* owned, (n_files); passed on to the program */
  size_t n_files, cap_files;
  text tokenizer;     /* a tokenizer file that the program will contain; empty: none */
  uint32_t n_names;   /* names made for constants and temporaries */
  uint32_t n_streams; /* random nodes so far */
} importer;

clave_status importer_create(importer **out) STATUS_CHECK;
void importer_destroy(importer *im); /* accepts NULL */

/* True if the current node has no error so far. */
bool import_ok(const importer *im);
/* Keep why the current node cannot be imported: the importer lacks it, or the file is wrong.
 * Further messages are dropped. */
void import_unsupported(importer *im, const char *format, ...) STATUS_PRINTF(2, 3);
void import_invalid(importer *im, const char *format, ...) STATUS_PRINTF(2, 3);
/* Keeps a status as the error of the current node, and takes ownership. NULL does nothing. */
void import_fail(importer *im, clave_status st);
/* Ends the import with an error, of which it takes ownership. Later errors are dropped. NULL does
 * nothing. */
void import_end(importer *im, clave_status st);
/* Returns zeroed memory of the import; NULL after an error. */
void *import_alloc(importer *im, size_t count, size_t size);
const char *import_text(importer *im, const char *format, ...) STATUS_PRINTF(2, 3); /* never NULL */

/* Ends a node. An unsupported node is added to the report with `op` before its reason, and false is
 * returned: its results are unknown. An invalid node ends the import (fatal). */
bool import_end_node(importer *im, const char *op);
void import_report(importer *im, const char *what); /* adds the current node to the report */
/* Returns the report as one message, or NULL if everything can be imported. */
clave_status import_report_status(importer *im) STATUS_CHECK;

/* Begins a body: numbers and tensors that are made in it are visible only until its end. */
clave_id import_begin_body(importer *im, const char *name, const clave_id *args, uint32_t n);
void import_end_body(importer *im, const clave_id *results, uint32_t n);
/* True if tensors that were made in the scope with this serial number are visible. */
bool import_sees(const importer *im, uint32_t scope);
uint32_t import_scope(const importer *im); /* the innermost scope's serial number */

/* Maps a file of which constants use bytes in place; *data and *size are valid with the program. */
clave_status import_open_file(importer *im, const char *path, const uint8_t **data,
                              size_t *size) STATUS_CHECK;

#endif
