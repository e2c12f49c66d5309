#ifndef BASE_MESSAGE_ENDS_H
#define BASE_MESSAGE_ENDS_H
/* The tokens with which chat models end a message, as in llama.cpp. A model's files may not name
 * them all as ends of an answer. */
#include <stdint.h>

static const char *const message_ends[] = {
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<end_of_utterance>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
    "<\357\275\234end\342\226\201of\342\226\201sentence\357\275\234>"};
enum { N_MESSAGE_ENDS = sizeof message_ends / sizeof *message_ends };

/* Removes "<|end|>" where it ends only a part of an answer, because the model has other tokens that
 * end the answer, as gpt-oss and Solar Open do. ids: those of message_ends; -1: no such token. */
static inline void message_ends_select(int64_t ids[N_MESSAGE_ENDS]) {
  enum { END, RETURN, CALL, CALLS, FLUSH };
  if ((ids[RETURN] >= 0 && ids[CALL] >= 0) || (ids[CALLS] >= 0 && ids[FLUSH] >= 0)) ids[END] = -1;
}

#endif
