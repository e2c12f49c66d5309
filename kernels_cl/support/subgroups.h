/* Sums over sub-groups where SUBGROUPS is 1: the extension is there and was found right
 * (backend/opencl/launch/instructions.c). */
#ifndef SUBGROUPS
#define SUBGROUPS 0
#endif
#if SUBGROUPS
#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#elif defined(cl_intel_subgroups)
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#endif
#endif
