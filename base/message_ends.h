#ifndef BASE_MESSAGE_ENDS_H
#define BASE_MESSAGE_ENDS_H
/* The tokens with which chat models end a message, as in llama.cpp. A model's files may not name
 * them all as ends of an answer. */

static const char *const message_ends[] = {
    "<|eot_id|>",      "<|eom_id|>",
    "<|im_end|>",      "<|end|>",
    "<end_of_turn>",   "<|endoftext|>",
    "<|end_of_text|>", "<EOT>",
    "_<EOT>",          "<\357\275\234end\342\226\201of\342\226\201sentence\357\275\234>"};
enum { N_MESSAGE_ENDS = sizeof message_ends / sizeof *message_ends };

#endif
