#ifndef CLI_CARRIED_H
#define CLI_CARRIED_H
/* Shows what a program contains besides its graph: the tokenizer and the metadata of a language
 * model. */
#include "cli/command.h"
#include "json/json.h"
#include "json/writer.h"

/* Writes to `writer`, or as lines on the page if `writer` is NULL. Absent items are omitted from
 * lines. */
int write_carried(const clave_program *program, json_writer *writer, page *out) CHECK;

/* Writes a parsed value unchanged. */
void emit_json(json_writer *writer, const char *key, const json *json);
/* Writes a value on one line with control characters escaped; of a long text only the beginning. */
void write_value(const json *json, page *out);

#endif
