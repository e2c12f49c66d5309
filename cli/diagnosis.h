#ifndef CLI_DIAGNOSIS_H
#define CLI_DIAGNOSIS_H
/* What `clave probe` found, line by line, and the doctor's report of it. */
#include "cli/page.h"
#include "cli/report.h"
#include "json/json.h"
#include "json/writer.h"

typedef struct diagnosis {
  json **lines; /* owned, each a finding */
  size_t count, capacity, n_problems;
  int ended; /* the child's exit status, or 128 and the signal that ended it */
} diagnosis;

int diagnosis_add(diagnosis *diagnosis, const char *line, size_t size) CHECK;
void diagnosis_free(diagnosis *diagnosis);
const json *diagnosis_find(const diagnosis *diagnosis,
                           const char *finding);        /* the first; NULL: none */
const json *diagnosis_last(const diagnosis *diagnosis); /* NULL: none */
/* Checks and speeds as members of an open object; what is broken is added to `problems`, each ended
 * by NUL. */
void diagnosis_write(diagnosis *diagnosis, const char *device, json_writer *writer, text *problems);
/* A whole report, as JSON, in lines. */
int diagnosis_print(const char *report, size_t size, page *out) CHECK;

#endif
