#ifndef CLI_CHAT_H
#define CLI_CHAT_H
/* Chats: a single message, the messages of a file, or an interactive conversation. */
#include "cli/generate_arguments.h"

typedef struct chat {
  generate_arguments options; /* from the command line; /set changes them */
  const command *settings;    /* the command whose options these are */
  const clave_logit_bias *bias;
  speech *speech;
  page system; /* owned; the system message, empty if none exists */
  bool has_system, ended;
} chat;

/* Reads messages from a terminal and prints answers until the input ends. Ctrl-C stops an answer,
 * and at the prompt ends the chat. */
int converse(chat *chat) CHECK;
/* Answers one user message. */
int answer_message(chat *chat, const char *content, size_t size) CHECK;
/* Answers, in order, each message of a JSON array that is not followed by an answer, and prints
 * each answer on separate lines. name: for errors. */
int answer_script(chat *chat, const char *name, const page *script) CHECK;

/* chat_commands.c */
bool is_chat_command(const page *line);
/* Reports a malformed command and lets the chat continue; returns an error only if the chat must
 * end. */
int run_chat_command(chat *chat, const page *line) CHECK;

#endif
