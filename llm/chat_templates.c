/* The chat templates we know, as data. */
#include "llm/chat.h"

#define HEADER(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define TRIM true

const chat_template chat_templates[] = {
    /* Llama 3.1 and 3.2: dates before the system message; the day is the one that the template
     * falls back to. */
    {.name = "llama3.1",
     .marks = {"<|start_header_id|>", "Cutting Knowledge Date"},
     .begin = CHAT_BOS,
     .system = {HEADER("system") "Cutting Knowledge Date: December 2023\n"
                                 "Today Date: 26 Jul 2024\n\n",
                "<|eot_id|>", TRIM},
     .user = {HEADER("user"), "<|eot_id|>", TRIM},
     .assistant = {HEADER("assistant"), "<|eot_id|>", TRIM},
     .place = CHAT_SYSTEM_ALWAYS,
     .answer = HEADER("assistant"),
     .end = "<|eot_id|>"},
    {.name = "llama3",
     .marks = {"<|start_header_id|>", "<|eot_id|>"},
     .begin = CHAT_BOS,
     .system = {HEADER("system"), "<|eot_id|>", TRIM},
     .user = {HEADER("user"), "<|eot_id|>", TRIM},
     .assistant = {HEADER("assistant"), "<|eot_id|>", TRIM},
     .answer = HEADER("assistant"),
     .end = "<|eot_id|>"},
    /* Qwen 2 and 2.5, Yi, Hermes, SmolLM, OLMo 2's relatives */
    {.name = "chatml",
     .marks = {"<|im_start|>", "<|im_end|>"},
     .not = {"<|im_sep|>", "<end_of_utterance>"},
     .begin = "",
     .system = {"<|im_start|>system\n", "<|im_end|>\n", false},
     .user = {"<|im_start|>user\n", "<|im_end|>\n", false},
     .assistant = {"<|im_start|>assistant\n", "<|im_end|>\n", false},
     .answer = "<|im_start|>assistant\n",
     .end = "<|im_end|>"},
    /* Gemma 1 to 3; the first two take no system message, the third puts it there. */
    {.name = "gemma",
     .marks = {"<start_of_turn>", "<end_of_turn>"},
     .begin = CHAT_BOS,
     .system = {"", "\n\n", false},
     .user = {"<start_of_turn>user\n", "<end_of_turn>\n", TRIM},
     .assistant = {"<start_of_turn>model\n", "<end_of_turn>\n", TRIM},
     .place = CHAT_SYSTEM_IN_FIRST_USER,
     .answer = "<start_of_turn>model\n",
     .end = "<end_of_turn>"},
    {.name = "phi3",
     .marks = {"<|assistant|>", "<|end|>"},
     .begin = "",
     .system = {"<|system|>\n", "<|end|>\n", false},
     .user = {"<|user|>\n", "<|end|>\n", false},
     .assistant = {"<|assistant|>\n", "<|end|>\n", false},
     .answer = "<|assistant|>\n",
     .end = "<|end|>"},
    /* Mistral 7B Instruct 0.1 and 0.2, Mixtral 8x7B */
    {.name = "mistral-v1",
     .marks = {" [INST] ", " [/INST]"},
     .not = {"[SYSTEM_PROMPT]", "<<SYS>>", "[AVAILABLE_TOOLS]"},
     .begin = CHAT_BOS,
     .system = {"", "\n\n", false},
     .user = {" [INST] ", " [/INST]", false},
     .assistant = {" ", CHAT_EOS, false},
     .place = CHAT_SYSTEM_IN_FIRST_USER,
     .answer = "",
     .end = CHAT_EOS},
    /* Mistral 7B Instruct 0.3, Mixtral 8x22B, Codestral, Mistral Large 2407 */
    {.name = "mistral-v3",
     .marks = {"[INST] ", "[/INST]", "[AVAILABLE_TOOLS]"},
     .not = {"[SYSTEM_PROMPT]", "<<SYS>>"},
     .begin = CHAT_BOS,
     .system = {"", "\n\n", false},
     .user = {"[INST] ", "[/INST]", false},
     .assistant = {" ", CHAT_EOS, TRIM},
     .place = CHAT_SYSTEM_IN_LAST_USER,
     .answer = "",
     .end = CHAT_EOS},
    /* Zephyr, StableLM Zephyr's relatives, TinyLlama Chat */
    {.name = "zephyr",
     .marks = {"<|assistant|>", "eos_token"},
     .begin = "",
     .system = {"<|system|>\n", CHAT_EOS "\n", false},
     .user = {"<|user|>\n", CHAT_EOS "\n", false},
     .assistant = {"<|assistant|>\n", CHAT_EOS "\n", false},
     .answer = "<|assistant|>\n",
     .end = CHAT_EOS},
};
const size_t n_chat_templates = sizeof chat_templates / sizeof *chat_templates;
