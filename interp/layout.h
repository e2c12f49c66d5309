#ifndef INTERP_LAYOUT_H
#define INTERP_LAYOUT_H
/* What planning an op and planning a control op share. */
#include "interp/internal.h"

/* The instruction that is planned. */
typedef struct placing {
  session *s;
  method *m;
  plan *p;
  uint32_t index;
  int backend;
} placing;

/* The actual sizes of a slot whose Vids are all known. */
clave_status resolve_type(const session *s, plan *p, uint32_t tid) STATUS_CHECK;
/* The actual sizes of what an instruction writes; what it reads at its first use. */
clave_status resolve_operands(session *s, method *m, plan *p,
                              const ir_instruction *ins) STATUS_CHECK;
/* New bytes for a slot on backend b, alive from the current step on. */
clave_status new_place(plan *p, const tensor *t, int b, uint32_t last_use,
                       location *out) STATUS_CHECK;
/* rebind: the slot that is at `out` afterwards, or NO_INDEX. */
clave_status add_copy(plan *p, int b, uint32_t index, location x, location out,
                      uint32_t rebind) STATUS_CHECK;
/* An operand on the instruction's backend; one that must be dense and is not gets a copy, which
 * later readers share. */
clave_status bring_operand(const placing *l, const operand *o) STATUS_CHECK;
void settle(plan *p, uint32_t tid, location l);
int home_of(const plan *p, uint32_t storage); /* the preferred device for what the host has */
uint32_t later_use(uint32_t a, uint32_t b);

#endif
