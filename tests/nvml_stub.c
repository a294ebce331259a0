/* A libnvidia-ml.so.1 for tests: the functions Sentinel asks, answered from a text file that the test rewrites at will.
 *
 * NVML_STUB names the file. Its lines are `key number`; gpu keys begin with the index, as in `0.ecc_uncorrected 3`:
 *   gpus N            how many there are                     init N       what nvmlInit returns
 *   event N           a number above the last one delivered delivers an Xid event: xid N on GPU event_gpu N
 *   hang 1            every call blocks for ever             I.lost 1     GPU I is gone
 *   I.recovery N      the recovery action                    I.throttle N clocks event reasons
 *   I.ecc_uncorrected I.ecc_corrected I.pending I.failure I.temperature I.nvlink I.pid
 *   I.busy I.memory I.used (bytes) I.power (mW)
 * A key that is not there is not supported. Structures are laid out as in NVIDIA's nvml.h (API version 13).
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, GPU_IS_LOST = 15 };
#define XID_EVENT 8ULL
#define GPUS_MAX 16

typedef struct { int index; } Device;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { Device *device; unsigned long long type, data; unsigned instance, compute; } Event;
typedef struct { unsigned pid; unsigned long long memory; unsigned instance, compute; } Process;
typedef struct {
    uint32_t field, scope; int64_t time_us, latency_us; uint32_t type, status;
    union { double d; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; } value;
} Field;

static Device devices[GPUS_MAX];
static long long delivered;

static int find(const char *key, long long *value) {
    const char *path = getenv("NVML_STUB");
    FILE *file = path ? fopen(path, "r") : NULL;
    char name[64];
    int found = 0;
    if (!file) return 0;
    while (!found && fscanf(file, "%63s %lld", name, value) == 2) found = !strcmp(name, key);
    fclose(file);
    return found;
}

static long long value_of(const char *key, long long otherwise) {
    long long value;
    return find(key, &value) ? value : otherwise;
}

static void stand_still(void) {
    char name[512];
    while (value_of("hang", 0)) {
        snprintf(name, sizeof name, "%s.stuck", getenv("NVML_STUB"));
        FILE *file = fopen(name, "w"); /* tells the test that a call is in it now */
        if (file) fclose(file);
        poll(NULL, 0, 20);
    }
}

static int ask(const Device *gpu, const char *key, long long *value) {
    char name[64];
    stand_still();
    snprintf(name, sizeof name, "%d.lost", gpu->index);
    if (value_of(name, 0)) return GPU_IS_LOST;
    snprintf(name, sizeof name, "%d.%s", gpu->index, key);
    return find(name, value) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; stand_still(); return (int)value_of("init", SUCCESS); }
int nvmlDeviceGetCount_v2(unsigned *count) { stand_still(); *count = (unsigned)value_of("gpus", 0); return SUCCESS; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.00"); return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the stub"; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **gpu) {
    long long unused;
    devices[index].index = (int)index;
    *gpu = &devices[index];
    return ask(*gpu, "lost", &unused) == GPU_IS_LOST ? GPU_IS_LOST : SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(Device *gpu, Pci *pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x3b + (unsigned)gpu->index;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return SUCCESS;
}

int nvmlDeviceGetUUID(Device *gpu, char *text, unsigned size) { snprintf(text, size, "GPU-0000000%d", gpu->index); return SUCCESS; }
int nvmlDeviceGetName(Device *gpu, char *text, unsigned size) { (void)gpu; snprintf(text, size, "Stub 9000"); return SUCCESS; }

static int count32(Device *gpu, const char *key, unsigned *out) {
    long long value;
    int code = ask(gpu, key, &value);
    if (code == SUCCESS) *out = (unsigned)value;
    return code;
}

int nvmlDeviceGetTemperature(Device *gpu, unsigned sensor, unsigned *out) { (void)sensor; return count32(gpu, "temperature", out); }

int nvmlDeviceGetPowerUsage(Device *gpu, unsigned *out) { return count32(gpu, "power", out); }

int nvmlDeviceGetUtilizationRates(Device *gpu, unsigned out[2]) { out[1] = 0; return count32(gpu, "busy", out); }

int nvmlDeviceGetMemoryInfo(Device *gpu, unsigned long long out[3]) { /* total, free, used */
    long long total, used;
    int code = ask(gpu, "memory", &total);
    if (code != SUCCESS) return code;
    if (ask(gpu, "used", &used) != SUCCESS) used = 0;
    out[0] = (unsigned long long)total;
    out[1] = (unsigned long long)(total - used);
    out[2] = (unsigned long long)used;
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(Device *gpu, unsigned type, unsigned counter, unsigned long long *out) {
    long long value;
    int code = ask(gpu, type ? "ecc_uncorrected" : "ecc_corrected", &value);
    (void)counter;
    if (code == SUCCESS) *out = (unsigned long long)value;
    return code;
}

int nvmlDeviceGetRemappedRows(Device *gpu, unsigned *mended, unsigned *bad, unsigned *pending, unsigned *failure) {
    int code = count32(gpu, "pending", pending);
    *mended = *bad = *failure = 0;
    if (code == SUCCESS) count32(gpu, "failure", failure);
    return code;
}

int nvmlDeviceGetCurrentClocksEventReasons(Device *gpu, unsigned long long *out) {
    long long value;
    int code = ask(gpu, "throttle", &value);
    if (code == SUCCESS) *out = (unsigned long long)value;
    return code;
}

int nvmlDeviceGetFieldValues(Device *gpu, int count, Field *fields) {
    for (int i = 0; i < count; i++) {
        unsigned field = fields[i].field;
        long long value = 0;
        int code = ask(gpu, field == 230 ? "recovery" : "nvlink", &value);
        if (code == GPU_IS_LOST) return code;
        fields[i].status = (uint32_t)code;
        fields[i].type = 1;
        fields[i].value.ui = (unsigned)value;
    }
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *gpu, unsigned *count, Process *found) {
    long long pid;
    int code = ask(gpu, "pid", &pid);
    if (code != SUCCESS) return code;
    if (!found || *count < 1) { *count = 1; return INSUFFICIENT_SIZE; }
    memset(found, 0, sizeof *found);
    found->pid = (unsigned)pid;
    *count = 1;
    return SUCCESS;
}

int nvmlEventSetCreate(void **set) { *set = devices; return value_of("no_events", 0) ? NOT_SUPPORTED : SUCCESS; }
int nvmlDeviceGetSupportedEventTypes(Device *gpu, unsigned long long *types) { (void)gpu; *types = XID_EVENT; return SUCCESS; }
int nvmlDeviceRegisterEvents(Device *gpu, unsigned long long types, void *set) { (void)gpu; (void)types; (void)set; return SUCCESS; }

int nvmlEventSetWait_v2(void *set, Event *event, unsigned timeout_ms) {
    (void)set;
    for (unsigned waited = 0;; waited += 5) {
        long long number = value_of("event", 0);
        stand_still();
        if (number > delivered) {
            delivered = number;
            memset(event, 0, sizeof *event);
            event->device = &devices[value_of("event_gpu", 0)];
            event->type = XID_EVENT;
            event->data = (unsigned long long)value_of("xid", 79);
            return SUCCESS;
        }
        if (waited >= timeout_ms) return TIMEOUT;
        poll(NULL, 0, 5);
    }
}
