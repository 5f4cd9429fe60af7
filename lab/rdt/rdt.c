/*
 * Resource Director Technology for QEMU's emulated x86 processors.
 *
 * Registers only: no cache is modelled, so that nothing here has an effect on speed. All state is
 * in the file that QUELL_RDT names, so that a test sees from outside what a guest has programmed.
 * Whoever starts QEMU makes the file: what the machine offers is at its beginning, and counters
 * are what he writes into it, now or while the guest runs. kit/rdt.py knows the same layout.
 */
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/error-report.h"
#include <sys/mman.h>
#include "cpu.h"
#include "hw/i386/topology.h"
#include "rdt.h"

#define MSR_L3_QOS_CFG   0xc81
#define MSR_L2_QOS_CFG   0xc82
#define MSR_QM_EVTSEL    0xc8d
#define MSR_QM_CTR       0xc8e
#define MSR_PQR_ASSOC    0xc8f
#define MSR_L3_MASK      0xc90
#define MSR_L2_MASK      0xd10
#define MSR_MBA_THROTTLE 0xd50

#define QM_CTR_ERROR (1ULL << 63)

enum {
    RESOURCE_L3 = 1,
    RESOURCE_L2 = 2,
    RESOURCE_MBA = 3,
    CPUS = 256,
    DOMAINS = 64,
    CLASSES = 32,
    RMIDS = 256,
    EVENTS = 3,
};

/* What a cache offers. */
typedef struct Cache {
    uint64_t ways;              /* 0: it cannot be allotted */
    uint64_t classes;
    uint64_t shareable;         /* ways that I/O fills too */
    uint64_t cdp;
    uint64_t sparse;            /* masks may have holes */
} Cache;

typedef struct L3Domain {
    uint64_t cfg;               /* bit 0: CDP is on */
    uint64_t mask[CLASSES];
    uint64_t delay[CLASSES];    /* percent */
    uint64_t counter[RMIDS][EVENTS];
} L3Domain;

typedef struct L2Domain {
    uint64_t cfg;
    uint64_t mask[CLASSES];
} L2Domain;

typedef struct RdtFile {
    char magic[8];
    Cache l3, l2;
    uint64_t mba_classes;       /* 0: bandwidth cannot be allotted */
    uint64_t mba_max_delay;     /* percent */
    uint64_t rmids;             /* 0: nothing is counted */
    uint64_t scale;             /* bytes of a counter's unit */
    uint64_t events;            /* bits: occupancy, total, local */
    uint64_t pqr[CPUS];         /* by APIC id: class << 32 | RMID */
    L3Domain l3_domain[DOMAINS];
    L2Domain l2_domain[CPUS];
} RdtFile;

static RdtFile *rdt;
static uint64_t evtsel[CPUS];

static void rdt_open(void)
{
    const char *path = getenv("QUELL_RDT");
    int fd = path ? open(path, O_RDWR) : -1;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size != sizeof(RdtFile)) {
        error_report("QUELL_RDT names no file of %zu bytes: %s", sizeof(RdtFile),
                     path ? path : "it is not set");
        exit(1);
    }
    rdt = mmap(NULL, sizeof(RdtFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (rdt == MAP_FAILED || memcmp(rdt->magic, "QUELRDT1", 8) != 0) {
        error_report("%s is no file of RDT's state", path);
        exit(1);
    }
    close(fd);
}

/* Whether the processor has any of it; maps the file when first asked. */
static bool rdt_has(CPUX86State *env, uint32_t features)
{
    static gsize once;

    if (!(env->features[FEAT_7_0_EBX] & features)) {
        return false;
    }
    if (g_once_init_enter(&once)) {
        rdt_open();
        g_once_init_leave(&once, 1);
    }
    return true;
}

static uint32_t apic_id(CPUX86State *env)
{
    return env_archcpu(env)->apic_id % CPUS;
}

static X86CPUTopoInfo topology(CPUX86State *env)
{
    CPUState *cs = env_cpu(env);
    X86CPUTopoInfo info = {
        .dies_per_pkg = env->nr_dies,
        .cores_per_die = cs->nr_cores,
        .threads_per_core = cs->nr_threads,
    };
    return info;
}

static L3Domain *l3_domain(CPUX86State *env)
{
    X86CPUTopoInfo info = topology(env);
    return &rdt->l3_domain[(apic_id(env) >> apicid_die_offset(&info)) % DOMAINS];
}

static L2Domain *l2_domain(CPUX86State *env)
{
    X86CPUTopoInfo info = topology(env);
    return &rdt->l2_domain[apic_id(env) >> apicid_core_offset(&info)];
}

static void cache_cpuid(const Cache *cache, uint32_t *eax, uint32_t *ebx, uint32_t *ecx,
                        uint32_t *edx)
{
    *eax = cache->ways - 1;
    *ebx = cache->shareable;
    *ecx = (cache->cdp ? 1 << 2 : 0) | (cache->sparse ? 1 << 3 : 0);
    *edx = cache->classes - 1;
}

static void monitoring_cpuid(uint32_t count, uint32_t *eax, uint32_t *ebx, uint32_t *ecx,
                             uint32_t *edx)
{
    if (count == 0) {
        *ebx = rdt->rmids - 1;
        *edx = 1 << RESOURCE_L3;
    } else if (count == RESOURCE_L3) {
        *eax = 62 - 24;         /* width of a counter, beyond 24 */
        *ebx = rdt->scale;
        *ecx = rdt->rmids - 1;
        *edx = rdt->events;
    }
}

static void allocation_cpuid(uint32_t count, uint32_t *eax, uint32_t *ebx, uint32_t *ecx,
                             uint32_t *edx)
{
    if (count == 0) {
        *ebx = (rdt->l3.ways ? 1 << RESOURCE_L3 : 0) | (rdt->l2.ways ? 1 << RESOURCE_L2 : 0) |
               (rdt->mba_classes ? 1 << RESOURCE_MBA : 0);
    } else if (count == RESOURCE_L3 && rdt->l3.ways) {
        cache_cpuid(&rdt->l3, eax, ebx, ecx, edx);
    } else if (count == RESOURCE_L2 && rdt->l2.ways) {
        cache_cpuid(&rdt->l2, eax, ebx, ecx, edx);
    } else if (count == RESOURCE_MBA && rdt->mba_classes) {
        *eax = rdt->mba_max_delay - 1;
        *ecx = 1 << 2;          /* linear */
        *edx = rdt->mba_classes - 1;
    }
}

void rdt_cpuid(CPUX86State *env, uint32_t leaf, uint32_t count,
               uint32_t *eax, uint32_t *ebx, uint32_t *ecx, uint32_t *edx)
{
    *eax = *ebx = *ecx = *edx = 0;
    if (leaf == 0xf && rdt_has(env, CPUID_7_0_EBX_RDT_M)) {
        monitoring_cpuid(count, eax, ebx, ecx, edx);
    } else if (leaf == 0x10 && rdt_has(env, CPUID_7_0_EBX_RDT_A)) {
        allocation_cpuid(count, eax, ebx, ecx, edx);
    }
}

/* The register of a class in a bank of registers; NULL if it is none of them. */
static uint64_t *banked(uint64_t *bank, uint32_t first, uint64_t classes, uint32_t msr)
{
    return msr >= first && msr - first < MIN(classes, CLASSES) ? &bank[msr - first] : NULL;
}

/* As the manual says: no empty mask, no bit beyond the ways, and no holes where none are taken. */
static int set_mask(const Cache *cache, uint64_t *mask, uint64_t val)
{
    uint64_t run = val ? val >> ctz64(val) : 0;

    if (!val || val >> cache->ways || (!cache->sparse && (run & (run + 1)))) {
        return -1;
    }
    qatomic_set(mask, val);
    return 1;
}

static int set_class_register(CPUX86State *env, uint32_t msr, uint64_t val)
{
    uint64_t *at;

    at = banked(l3_domain(env)->mask, MSR_L3_MASK, rdt->l3.ways ? rdt->l3.classes : 0, msr);
    if (at) {
        return set_mask(&rdt->l3, at, val);
    }
    at = banked(l2_domain(env)->mask, MSR_L2_MASK, rdt->l2.ways ? rdt->l2.classes : 0, msr);
    if (at) {
        return set_mask(&rdt->l2, at, val);
    }
    at = banked(l3_domain(env)->delay, MSR_MBA_THROTTLE, rdt->mba_classes, msr);
    if (at) {
        if (val > rdt->mba_max_delay) {
            return -1;
        }
        qatomic_set(at, val);
        return 1;
    }
    return 0;
}

static int get_class_register(CPUX86State *env, uint32_t msr, uint64_t *val)
{
    uint64_t *at;

    at = banked(l3_domain(env)->mask, MSR_L3_MASK, rdt->l3.ways ? rdt->l3.classes : 0, msr);
    if (!at) {
        at = banked(l2_domain(env)->mask, MSR_L2_MASK, rdt->l2.ways ? rdt->l2.classes : 0, msr);
    }
    if (!at) {
        at = banked(l3_domain(env)->delay, MSR_MBA_THROTTLE, rdt->mba_classes, msr);
    }
    if (!at) {
        return 0;
    }
    *val = qatomic_read(at);
    return 1;
}

static int set_cdp(const Cache *cache, uint64_t *cfg, uint64_t val)
{
    if (val > (cache->cdp ? 1 : 0)) {
        return -1;
    }
    qatomic_set(cfg, val);
    return 1;
}

static int set_association(CPUX86State *env, uint64_t val)
{
    uint64_t classes = MAX(MAX(rdt->l3.classes, rdt->l2.classes), rdt->mba_classes);

    if (val >> 32 >= MAX(classes, 1) || (uint32_t)val >= MAX(rdt->rmids, 1)) {
        return -1;
    }
    qatomic_set(&rdt->pqr[apic_id(env)], val);
    return 1;
}

/* The counter that this processor has chosen, in units of the scale. */
static uint64_t counter(CPUX86State *env)
{
    uint64_t chosen = evtsel[apic_id(env)], rmid = chosen >> 32, event = chosen & 0xff;

    if (rmid >= MIN(rdt->rmids, RMIDS) || event < 1 || event > EVENTS) {
        return QM_CTR_ERROR;
    }
    return qatomic_read(&l3_domain(env)->counter[rmid][event - 1]);
}

int rdt_wrmsr(CPUX86State *env, uint32_t msr, uint64_t val)
{
    if (!rdt_has(env, CPUID_7_0_EBX_RDT_M | CPUID_7_0_EBX_RDT_A)) {
        return 0;
    }
    switch (msr) {
    case MSR_PQR_ASSOC:
        return set_association(env, val);
    case MSR_QM_EVTSEL:
        evtsel[apic_id(env)] = val;
        return 1;
    case MSR_L3_QOS_CFG:
        return set_cdp(&rdt->l3, &l3_domain(env)->cfg, val);
    case MSR_L2_QOS_CFG:
        return set_cdp(&rdt->l2, &l2_domain(env)->cfg, val);
    default:
        return set_class_register(env, msr, val);
    }
}

int rdt_rdmsr(CPUX86State *env, uint32_t msr, uint64_t *val)
{
    if (!rdt_has(env, CPUID_7_0_EBX_RDT_M | CPUID_7_0_EBX_RDT_A)) {
        return 0;
    }
    switch (msr) {
    case MSR_PQR_ASSOC:
        *val = rdt->pqr[apic_id(env)];
        return 1;
    case MSR_QM_EVTSEL:
        *val = evtsel[apic_id(env)];
        return 1;
    case MSR_QM_CTR:
        *val = counter(env);
        return 1;
    case MSR_L3_QOS_CFG:
        *val = l3_domain(env)->cfg;
        return 1;
    case MSR_L2_QOS_CFG:
        *val = l2_domain(env)->cfg;
        return 1;
    default:
        return get_class_register(env, msr, val);
    }
}
