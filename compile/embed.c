/* Files whose bytes lie in what is built. */
#include "compile/embed.h"

const embedded_file embedded_weights = {"model_weights", "weights.S", "weights.bin", false};
const embedded_file embedded_program = {"carried_clv", "program.S", "program.clv", true};
const embedded_file embedded_expected = {"carried_expected", "expected.S", "expected.bin", false};
const embedded_file embedded_binaries = {"carried_binaries", "binaries.S", "binaries.bin", false};

/* Within 2 GB of the code lies all but what is far. */
static const char far_section[] =
    "#ifdef __x86_64__\n"
    "  .section .lrodata,\"a\",%progbits\n"
    "#else\n"
    "  .section .rodata\n"
    "#endif\n";

clave_status project_embed(project *k, const embedded_file *e) {
  text t = {0};
  text_printf(&t, "/* %s, mapped with the program and read in place. */\n%s", e->file,
              e->is_far ? far_section : "  .section .rodata\n");
  text_printf(&t,
              "  .balign 4096\n  .globl %s\n  .hidden %s\n%s:\n  .incbin \"%s\"\n  .byte 0\n"
              "  .section .note.GNU-stack,\"\",%%progbits\n",
              e->symbol, e->symbol, e->symbol, e->file);
  clave_status st = text_status(&t);
  if (!st) st = project_write_file(k, e->source, t.data, t.size);
  text_free(&t);
  k->sources[k->n_sources++] = e->source;
  k->embedded[k->n_embedded++] = e;
  return st;
}
