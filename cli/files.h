#ifndef CLI_FILES_H
#define CLI_FILES_H
/* Reads and writes whole small files. */
#include "cli/page.h"
#include "cli/report.h"

/* Reads all of a file; "-": standard input. */
int read_file(const char *path, page *out) CHECK;
/* Replaces the file atomically; writes directly to anything but a regular file (/dev/stdout). */
int write_file(const char *path, const page *content) CHECK;
/* Fails if write_file could not write to `path`. Called before long work. */
int check_writable(const char *path) CHECK;
/* True if both paths name the same regular file, which need not exist yet. */
bool is_same_file(const char *left, const char *right);
/* True if `path` names a file called `name` in the folder of `other`. */
bool is_in_folder_of(const char *path, const char *name, const char *other);
/* Writes all bytes to standard output and flushes it. */
int write_output(const char *bytes, size_t size) CHECK;
/* Prints the page and empties it, for output before long work. */
int print_page(page *page) CHECK;

#endif
