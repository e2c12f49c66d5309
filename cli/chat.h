#ifndef CLI_CHAT_H
#define CLI_CHAT_H
/* Chats: a single message, those of a file, or what a person types. */
#include "cli/generate_arguments.h"

typedef struct chat {
  generate_arguments options; /* as the command line has them; /set changes them */
  const command *settings;    /* whose options these are */
  const clave_logit_bias *bias;
  speech *speech;
  page system; /* owned: the message that a chat begins with; nothing in it: none */
  bool has_system, ended;
} chat;

/* Messages from a terminal, answers out, until the input ends. Ctrl-C ends an answer; at the
 * prompt, the chat. */
int converse(chat *chat) CHECK;
/* One message of the user's. */
int answer_message(chat *chat, const char *content, size_t size) CHECK;
/* A JSON array of messages: each of the user's that no answer follows is answered, in turn, on
 * lines of their own. name: for errors. */
int answer_script(chat *chat, const char *name, const page *script) CHECK;

/* chat_commands.c */
bool is_chat_command(const page *line);
/* What is wrong with it is said, and the chat goes on: only what ends it is an error. */
int run_chat_command(chat *chat, const page *line) CHECK;

#endif
