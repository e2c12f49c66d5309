#ifndef CLI_CARRIED_H
#define CLI_CARRIED_H
/* What a program carries besides its graph: the tokenizer, and what is said of a language model. */
#include "cli/command.h"
#include "json/json.h"
#include "json/writer.h"

/* writer NULL: as lines of a page. Nothing that is not there is written as lines. */
int write_carried(const clave_program *program, json_writer *writer, page *out) CHECK;

/* A value as it was read. */
void emit_json(json_writer *writer, const char *key, const json *json);
/* On one line, visibly; a long text by its first line. */
void write_value(const json *json, page *out);

#endif
