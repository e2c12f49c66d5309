#ifndef BACKEND_CPU_KERNELS_SUPPORT_REAL_MATH_H
#define BACKEND_CPU_KERNELS_SUPPORT_REAL_MATH_H
/* Selects functions of math.h by the type of their first argument, float or double, under the names
 * that ops/elementwise.tsv uses. <tgmath.h> does the same, but it also names functions of complex
 * numbers, which C libraries of firmware lack. steps.h is included before the macros, as its
 * functions name their types themselves. */
#include <math.h>

#include "backend/cpu/kernels/elementwise/steps.h"

#undef log2 /* newlib defines it as a macro */

#define acos(a) _Generic((a), float : acosf, default : acos)(a)
#define acosh(a) _Generic((a), float : acoshf, default : acosh)(a)
#define asin(a) _Generic((a), float : asinf, default : asin)(a)
#define asinh(a) _Generic((a), float : asinhf, default : asinh)(a)
#define atan(a) _Generic((a), float : atanf, default : atan)(a)
#define atan2(a, b) _Generic((a), float : atan2f, default : atan2)(a, b)
#define atanh(a) _Generic((a), float : atanhf, default : atanh)(a)
#define ceil(a) _Generic((a), float : ceilf, default : ceil)(a)
#define copysign(a, b) _Generic((a), float : copysignf, default : copysign)(a, b)
#define cos(a) _Generic((a), float : cosf, default : cos)(a)
#define cosh(a) _Generic((a), float : coshf, default : cosh)(a)
#define erf(a) _Generic((a), float : erff, default : erf)(a)
#define erfc(a) _Generic((a), float : erfcf, default : erfc)(a)
#define exp(a) _Generic((a), float : expf, default : exp)(a)
#define exp2(a) _Generic((a), float : exp2f, default : exp2)(a)
#define expm1(a) _Generic((a), float : expm1f, default : expm1)(a)
#define floor(a) _Generic((a), float : floorf, default : floor)(a)
#define hypot(a, b) _Generic((a), float : hypotf, default : hypot)(a, b)
#define ldexp(a, b) _Generic((a), float : ldexpf, default : ldexp)(a, b)
#define log(a) _Generic((a), float : logf, default : log)(a)
#define log10(a) _Generic((a), float : log10f, default : log10)(a)
#define log1p(a) _Generic((a), float : log1pf, default : log1p)(a)
#define log2(a) _Generic((a), float : log2f, default : log2)(a)
#define nextafter(a, b) _Generic((a), float : nextafterf, default : nextafter)(a, b)
#define rint(a) _Generic((a), float : rintf, default : rint)(a)
#define sin(a) _Generic((a), float : sinf, default : sin)(a)
#define sinh(a) _Generic((a), float : sinhf, default : sinh)(a)
#define sqrt(a) _Generic((a), float : sqrtf, default : sqrt)(a)
#define tan(a) _Generic((a), float : tanf, default : tan)(a)
#define tanh(a) _Generic((a), float : tanhf, default : tanh)(a)
#define trunc(a) _Generic((a), float : truncf, default : trunc)(a)

#endif
