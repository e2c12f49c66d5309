#ifndef CLI_LANGUAGE_H
#define CLI_LANGUAGE_H
/* What a person wants to know of a language model first: its size, its context, what it can do. */
#include "cli/graph.h"
#include "json/writer.h"

/* A program whose metadata has the key "llm", in lines; j not NULL: as an object of that name.
 * Nothing of any other program, but null in JSON. */
int write_language_model(const model *m, const graph *g, json_writer *j, page *out) CHECK;

#endif
