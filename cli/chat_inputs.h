#ifndef CLI_CHAT_INPUTS_H
#define CLI_CHAT_INPUTS_H
/* Inputs of a chat template other than the messages, from the command line. */
#include "clave_template.h"
#include "cli/command.h"

typedef struct chat_inputs {
  page messages, tools, documents, arguments; /* JSON; empty if not given */
} chat_inputs;

/* Reads a file that is a JSON array of `what`. path NULL: the page stays empty; "-": standard
 * input. */
int read_chat_file(const char *path, const char *what, page *out) CHECK;
/* Parses each NAME=JSON as a member of one object. flag: for errors. */
int read_chat_arguments(const char *flag, const text_list *list, page *out) CHECK;
clave_template_inputs chat_template_inputs(const chat_inputs *inputs);
/* Prints a note for --tools and for --documents if the template ignores them. st: the status of
 * clave_template_ignores, which is freed here. An error in st only means that the template rejects
 * the test message; the real call reports its own errors. */
int note_ignored_inputs(clave_status st, bool tools, bool documents) CHECK;
void free_chat_inputs(chat_inputs *inputs);

#endif
