#ifndef COMPILE_CARRIED_LIBRARY_H
#define COMPILE_CARRIED_LIBRARY_H
/* Functions called by a shared library with a language model. Types are avoided, because the
 * library's own names could be the same; comments describe the layout of types in its header. A
 * returned int is nonzero after an error, whose text carried_text_error returns. */
#include <stddef.h>

/* Returns NULL if out of memory. Any other failure is stored as the error, and calls then do
 * nothing. note: may be NULL. */
void *carried_text_create(int n_threads, void (*note)(void *ctx, const char *line), void *ctx);
void carried_text_destroy(void *library); /* accepts NULL */
const char *carried_text_error(const void *library);
/* role NULL: `content` is text to continue; else it is a chat message, and a "system" message waits
 * for the next message. options: a text_choice (library_text.c); NULL: all zeros. */
int carried_text_generate(void *library, const char *role, const char *content, const void *options,
                          int (*piece)(void *ctx, const char *text, size_t bytes), void *ctx);
int carried_text_reset(void *library);
int carried_text_verify(void *library);

#endif
