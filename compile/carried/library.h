#ifndef COMPILE_CARRIED_LIBRARY_H
#define COMPILE_CARRIED_LIBRARY_H
/* What the functions of a shared library call that carries a language model.
 * There are no types, which the library's own names could be, too; those of its header are laid out
 * as the comments say. An int is 0, or an error has happened, which is the library's text. */
#include <stddef.h>

/* NULL: no memory for it. What else is wrong is its error, and nothing of it runs. note: may be
 * NULL. */
void *carried_text_create(int n_threads, void (*note)(void *ctx, const char *line), void *ctx);
void carried_text_destroy(void *library); /* takes NULL */
const char *carried_text_error(const void *library);
/* role: NULL: `said` is a text to go on with; else a message of a chat, of which that of "system"
 * waits for the next. how: text_choice of
 * library_text.c; NULL: zeros. */
int carried_text_generate(void *library, const char *role, const char *said, const void *how,
                          int (*piece)(void *ctx, const char *text, size_t bytes), void *ctx);
int carried_text_reset(void *library);
int carried_text_verify(void *library);

#endif
