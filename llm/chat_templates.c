/* The built-in chat templates, by name. They are written for clave and produce the formats that the
 * models of a family were trained on. A template in the model's file takes precedence. */
#include "llm/template.h"

#define EACH "{%- for m in messages -%}"
#define END "{%- endfor -%}"
#define ANSWER(text) "{%- if add_generation_prompt -%}{{ " text " }}{%- endif -%}"
/* Rejects what cannot be rendered: an empty chat, and messages of unknown roles. */
#define CHECKED                                                                                \
  "{%- if not messages -%}{{ raise_exception('a chat without a message') }}{%- endif -%}" EACH \
  "{%- if m.role not in ['system', 'user', 'assistant'] -%}"                                   \
  "{{ raise_exception('message ' ~ loop.index0 ~ ' is of \\'' ~ m.role ~ "                     \
  "'\\', not system, user or assistant') }}{%- endif -%}" END
/* Sets `system` to the content of a leading system message, and `rest` to the other messages, in
 * which user and assistant must alternate. */
#define TURNS                                                                                  \
  CHECKED                                                                                      \
  "{%- set system = messages[0].content if messages[0].role == 'system' else none -%}"         \
  "{%- set rest = messages[1:] if system is not none else messages -%}"                        \
  "{%- if not rest -%}{{ raise_exception('a chat without a user\\'s message') }}{%- endif -%}" \
  "{%- for m in rest -%}{%- if m.role != ['user', 'assistant'][loop.index0 % 2] -%}"           \
  "{{ raise_exception('user and assistant take turns in this template') }}{%- endif -%}" END
#define HEADER(role) "'<|start_header_id|>' + " role " + '<|end_header_id|>\n\n'"

const builtin_template builtin_templates[] = {
    /* Llama 3.1 to 3.3: dates before the system message; the day is their templates' default. */
    {"llama3.1", CHECKED
     "{%- set system = messages[0].content | trim if messages[0].role == 'system' else '' -%}"
     "{{ bos_token }}{{ " HEADER(
         "'system'") " }}"
                     "{{ 'Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n' }}"
                     "{{ system }}{{ '<|eot_id|>' }}"
                     "{%- for m in (messages[1:] if messages[0].role == 'system' else messages) -%}"
                     "{{ " HEADER("m.role") " + m.content | trim + '<|eot_id|>' }}" END ANSWER(
                         HEADER("'assistant'"))},
    {"llama3",
     CHECKED "{{ bos_token }}" EACH "{{ " HEADER(
         "m.role") " + m.content | trim + '<|eot_id|>' }}" END ANSWER(HEADER("'assistant'"))},
    {"chatml",
     CHECKED EACH "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}" END ANSWER(
         "'<|im_start|>assistant\n'")},
    /* Gemma 1 to 3: the system message is prepended to the first user message. */
    {"gemma",
     TURNS "{{ bos_token }}"
           "{%- for m in rest -%}"
           "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\n' }}"
           "{%- if loop.first and system is not none -%}{{ system + '\n\n' }}{%- endif -%}"
           "{{ m.content | trim }}{{ '<end_of_turn>\n' }}" END ANSWER("'<start_of_turn>model\n'")},
    {"phi3", CHECKED EACH
     "{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}" END ANSWER("'<|assistant|>\n'")},
    /* Mistral 7B Instruct 0.1 and 0.2, Mixtral 8x7B */
    {"mistral-v1",
     TURNS "{{ bos_token }}"
           "{%- for m in rest -%}{%- if m.role == 'user' -%}"
           "{{ ' [INST] ' + (system + '\n\n' if loop.first and system is not none else '')"
           " + m.content + ' [/INST]' }}"
           "{%- else -%}{{ ' ' + m.content + eos_token }}{%- endif -%}" END},
    /* Mistral 7B Instruct 0.3, Mixtral 8x22B: the system message is in the last user message. */
    {"mistral-v3", TURNS
     "{{ bos_token }}"
     "{%- set last = (rest | selectattr('role', 'equalto', 'user') | list | length) * 2 - 2 -%}"
     "{%- for m in rest -%}{%- if m.role == 'user' -%}"
     "{{ '[INST] ' + (system + '\n\n' if loop.index0 == last and system is not none else '')"
     " + m.content + '[/INST]' }}"
     "{%- else -%}{{ ' ' + m.content | trim + eos_token }}{%- endif -%}" END},
    {"zephyr", CHECKED EACH
     "{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}" END ANSWER("'<|assistant|>\n'")},
    {NULL, NULL}};
