#ifndef CLI_DIAGNOSIS_H
#define CLI_DIAGNOSIS_H
/* The findings that `clave probe` wrote, line by line, and the doctor's report on them. */
#include "cli/page.h"
#include "cli/report.h"
#include "json/json.h"
#include "json/writer.h"

typedef struct diagnosis {
  json **lines; /* owned; one finding each */
  size_t count, capacity, n_problems;
  int ended; /* exit status of the child, or 128 plus the signal that ended it */
} diagnosis;

int diagnosis_add(diagnosis *diagnosis, const char *line, size_t size) CHECK;
void diagnosis_free(diagnosis *diagnosis);
const json *diagnosis_find(const diagnosis *diagnosis,
                           const char *finding);        /* the first of that kind, or NULL */
const json *diagnosis_last(const diagnosis *diagnosis); /* NULL if there are no findings */
/* Writes checks and speeds as members of an open object. Appends each problem, NUL-terminated, to
 * `problems`. */
void diagnosis_write(diagnosis *diagnosis, const char *device, json_writer *writer, text *problems);
/* Prints a whole report, given as JSON, in readable lines. */
int diagnosis_print(const char *report, size_t size, page *out) CHECK;

#endif
