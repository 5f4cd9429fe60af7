/*
 * Resource Director Technology for QEMU's emulated x86 processors: cache allocation of L3 and L2
 * (CAT, CDP), memory bandwidth allocation (MBA), and monitoring (CMT, MBM).
 */
#ifndef TARGET_I386_RDT_H
#define TARGET_I386_RDT_H

#define CPUID_7_0_EBX_RDT_M (1U << 12)
#define CPUID_7_0_EBX_RDT_A (1U << 15)

/* The leaves 0xF (monitoring) and 0x10 (allocation). */
void rdt_cpuid(CPUX86State *env, uint32_t leaf, uint32_t count,
               uint32_t *eax, uint32_t *ebx, uint32_t *ecx, uint32_t *edx);

/* 1: done; 0: no register of RDT; -1: a general protection fault. */
int rdt_wrmsr(CPUX86State *env, uint32_t msr, uint64_t val);
int rdt_rdmsr(CPUX86State *env, uint32_t msr, uint64_t *val);

#endif
