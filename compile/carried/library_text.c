/* The models of a shared library with a language model: text in, text out. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "clave_llm.h"
#include "compile/carried/carried.h"
#include "compile/carried/device.h"
#include "compile/carried/library.h"
#include "compile/runtime/verify.h"

/* Must match the declaration in the library's header. */
typedef struct text_choice {
  uint32_t max_new_tokens, top_k;
  float temperature, top_p, min_p, repetition_penalty;
  uint64_t seed;
} text_choice;

typedef int (*piece_fn)(void *ctx, const char *text, size_t bytes);

typedef struct text_library {
  clave_device *device;         /* owned */
  clave_llm *llm;               /* owned */
  clave_llm_conversation *talk; /* owned; NULL if the start failed */
  clave_status failed;          /* owned; status of the last call */
  char *system;                 /* owned; a pending system message, or NULL */
  int n_threads;
} text_library;

static clave_status library_text_start(text_library *library, model_note_fn note, void *ctx) {
  const clave_llm_options options = {
      .size = sizeof options, .clv = carried.clv, .clv_size = carried.size};
  const clave_session_options session_options = {
      .size = sizeof session_options, .allow_custom_kernels = carried.allow_custom_kernels != 0};
  const clave_llm_conversation_options talk = {.size = sizeof talk, .session = &session_options};
  TRY(carried_open(library->n_threads, note, ctx, &library->device));
  TRY(carried_status(clave_llm_load(carried.name, library->device, &options, &library->llm)));
  return carried_status(clave_llm_conversation_create(library->llm, &talk, &library->talk));
}

void *carried_text_create(int n_threads, void (*note)(void *ctx, const char *line), void *ctx) {
  text_library *library = calloc(1, sizeof *library);
  if (!library) return NULL;
  library->n_threads = n_threads;
  (void)carried_answer(&library->failed, library_text_start(library, note, ctx));
  return library;
}

void carried_text_destroy(void *library) {
  text_library *self = library;
  if (!self) return;
  clave_llm_conversation_destroy(self->talk);
  clave_llm_destroy(self->llm);
  clave_device_destroy(self->device);
  status_free(self->failed);
  free(self->system);
  free(self);
}

const char *carried_text_error(const void *library) {
  return status_message(((const text_library *)library)->failed);
}

/* ---------------------------------------------------------------- text */

static clave_status set_sampler(text_library *library, const text_choice *options) {
  const clave_sampler_options sampler = {.size = sizeof sampler,
                                         .temperature = options->temperature,
                                         .top_k = options->top_k,
                                         .top_p = options->top_p,
                                         .min_p = options->min_p,
                                         .repetition_penalty = options->repetition_penalty,
                                         .seed = options->seed};
  return carried_status(clave_llm_set_sampler(library->talk, &sampler));
}

/* Prompts with the message, preceded by a pending system message. */
static clave_status prompt_chat(text_library *library, const char *role, const char *content) {
  const clave_llm_message both[] = {
      {.role = "system",
       .content = library->system,
       .content_size = library->system ? strlen(library->system) : 0},
      {.role = role, .content = content, .content_size = strlen(content)}};
  const size_t n = library->system ? 2 : 1;
  TRY(carried_status(clave_llm_prompt_chat(library->talk, NULL, both + 2 - n, n)));
  free(library->system);
  library->system = NULL;
  return NULL;
}

static clave_status library_text_prompt(text_library *library, const char *role,
                                        const char *content) {
  return role ? prompt_chat(library, role, content)
              : carried_status(clave_llm_prompt_text(library->talk, content, strlen(content)));
}

static clave_status keep_system(text_library *library, const char *content) {
  char *kept = strdup(content);
  if (!kept) return status_no_memory();
  free(library->system);
  library->system = kept;
  return NULL;
}

/* Passes on the text that was held back for a possible stop text. */
static clave_status flush(text_library *library, piece_fn piece, void *ctx) {
  const char *held;
  size_t n;
  TRY(carried_status(clave_llm_flush(library->talk, &held, &n)));
  if (n) (void)piece(ctx, held, n);
  return NULL;
}

static clave_status library_text_generate(text_library *library, const char *role,
                                          const char *content, const text_choice *options,
                                          piece_fn piece, void *ctx) {
  clave_llm_token token = {0};
  if (role && strcmp(role, "system") == 0) return keep_system(library, content);
  TRY(set_sampler(library, options));
  TRY(library_text_prompt(library, role, content));
  for (uint32_t i = 0; !options->max_new_tokens || i < options->max_new_tokens; i++) {
    TRY(carried_status(clave_llm_next(library->talk, &token)));
    const bool goes_on = !token.text_size || piece(ctx, token.text, token.text_size);
    if (token.stop || !goes_on) return NULL;
  }
  return flush(library, piece, ctx);
}

int carried_text_generate(void *library, const char *role, const char *content, const void *options,
                          int (*piece)(void *ctx, const char *text, size_t bytes), void *ctx) {
  static const text_choice by_default;
  text_library *self = library;
  if (!self->talk) return 1;
  return carried_answer(
      &self->failed,
      library_text_generate(self, role, content, options ? options : &by_default, piece, ctx));
}

int carried_text_reset(void *library) {
  text_library *self = library;
  if (!self->talk) return 1;
  free(self->system);
  self->system = NULL;
  return carried_answer(&self->failed, carried_status(clave_llm_reset(self->talk)));
}

int carried_text_verify(void *library) {
  text_library *self = library;
  return self->talk ? carried_answer(&self->failed, verify_another(self->n_threads)) : 1;
}
