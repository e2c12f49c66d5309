#ifndef CLI_FILES_H
#define CLI_FILES_H
/* Small files, as a whole. */
#include "cli/page.h"
#include "cli/report.h"

/* All of a file, "-": of standard input. */
int read_file(const char *path, page *out) CHECK;
/* Written whole or not at all; what is no regular file (/dev/stdout) is written directly. */
int write_file(const char *path, const page *content) CHECK;
/* Before work that may take long: whether write_file could write there. */
int check_writable(const char *path) CHECK;
/* Whether they name one regular file, there or to be made. */
bool is_same_file(const char *left, const char *right);
/* Whether the path is that of a file of this name in the folder that `other` lies in. */
bool is_in_folder_of(const char *path, const char *name, const char *other);
/* All of it, to standard output, now. */
int write_output(const char *bytes, size_t size) CHECK;
/* Prints what is there and empties it: before work that may take long. */
int print_page(page *page) CHECK;

#endif
