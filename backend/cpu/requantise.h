#ifndef BACKEND_CPU_REQUANTISE_H
#define BACKEND_CPU_REQUANTISE_H
/* Which elementwise nodes kernels/requantise.c computes. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/elementwise/requantise.h"
#include "ops/elementwise.h"

/* Records the node, if it is one of those; *done says. */
clave_status record_requantise(cpu_recorder *recorder, const elementwise_form *desc,
                               bool *done) STATUS_CHECK;
/* Whether the epilogue of a convolution (images, channels, ...) is one of those: then its
 * arguments, where terms[0] is the op's result and has no x; there is no out. */
bool take_requantise(cpu_recorder *recorder, const elementwise_form *desc, requantise_args *out);
/* The same of what those codes decode to: out = ((float)code - *zero) * *scale. */
bool take_decoded(cpu_recorder *recorder, const elementwise_form *desc, requantise_args *out,
                  float *zero, float *scale);
/* Whether the epilogue of a product (..., columns), a channel each, is floats or codes of its
 * result, scaled, perhaps added to a tensor like it, with at most one other step of one operand on
 * that: `step`, on its own input, or none. */
bool take_rows(cpu_recorder *recorder, const elementwise_form *desc, requantise_args *out,
               const elementwise_step **step);

#endif
