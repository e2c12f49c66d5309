#ifndef CLI_LANGUAGE_H
#define CLI_LANGUAGE_H
/* The summary of a language model that clave inspect prints first: its size, context and
 * features. */
#include "cli/graph.h"
#include "json/writer.h"

/* Writes the summary as lines, or as the object "language_model" if writer is not NULL. Without the
 * metadata key "llm", writes no lines, and null in JSON. */
int write_language_model(const model *model, const graph *graph, json_writer *writer,
                         page *out) CHECK;

#endif
