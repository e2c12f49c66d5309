/* Enables sums over sub-groups if SUBGROUPS is 1: then the device has the extension, and a probe
 * found it correct (backend/opencl/launch/instructions.c). */
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
