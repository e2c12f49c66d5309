#ifndef CLI_TUNE_TABLE_H
#define CLI_TUNE_TABLE_H
/* A device's tuning table: listed, written to a file for others, read from one. */
#include "clave_tune.h"
#include "cli/model.h"

/* JSON: what the table is for and its rows. */
int write_table(const model *model, page *out) CHECK;
void list_table(const model *model, page *out);
/* Puts the file's rows; any_device: of whatever device they are. */
int import_table(const model *model, const char *path, bool any_device, uint32_t *count) CHECK;

#endif
