#ifndef CLI_TUNE_TABLE_H
#define CLI_TUNE_TABLE_H
/* A device's tuning table: lists, exports and imports it. */
#include "clave_tune.h"
#include "cli/model.h"

/* Writes the table's key and rows as JSON. */
int write_table(const model *model, page *out) CHECK;
void list_table(const model *model, page *out);
/* Adds the rows of the file and counts them. any_device: accepts rows of another device. */
int import_table(const model *model, const char *path, bool any_device, uint32_t *count) CHECK;

#endif
