/* Stands in for NVIDIA's libnvidia-ml.so.1 and libcuda.so.1: says what the file named by STANDIN_GPUS says.
 *
 * The file has a name and a value a line; it is read at every call, so tests change it while a program runs.
 *   driver 550.54.15          gpus 2            init 999 (the error that nvmlInit returns)
 *   gpu0.uuid GPU-…           gpu0.power 350000
 *   gpu0.power !4             that call returns error 4
 *   gpu0.power ~600           that call takes 600 seconds
 *   gpu0.lost 15              all calls for that GPU return error 15
 *   gpu0.mig 2                divided into two instances, gpu0.mig0.uuid, gpu0.mig0.used, …
 *   xid1 0 79                 the first event: XID 79 on GPU 0
 * A figure that is not there is not supported. The layouts and names are those of NVIDIA's public nvml.h.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9,
       TIMEOUT = 10 };
enum { GPUS = 16, INSTANCES = 8 };

typedef struct Device { int gpu, instance; } Device; /* instance -1: the whole GPU */

static Device devices[GPUS][INSTANCES + 1];
static int initialised, samples, events_seen;

/* The text after a name in the file; 0 where there is none. */
static int look_up(const char *name, char *text, int size) {
    const char *path = getenv("STANDIN_GPUS");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    size_t length = strlen(name);
    int found = 0;
    while (file && !found && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, length) == 0 && line[length] == ' ') {
            line[strcspn(line, "\n")] = 0;
            snprintf(text, size, "%s", line + length + 1);
            found = 1;
        }
    }
    if (file) fclose(file);
    return found;
}

static int number(const char *name, double *value) {
    char text[256];
    if (!look_up(name, text, sizeof text)) return NOT_SUPPORTED;
    if (text[0] == '!') return atoi(text + 1);
    if (text[0] == '~') {
        sleep(atoi(text + 1));
        return TIMEOUT;
    }
    *value = atof(text);
    return SUCCESS;
}

static void full_name(Device *device, const char *figure, char *name) {
    if (device->instance < 0) sprintf(name, "gpu%d.%s", device->gpu, figure);
    else sprintf(name, "gpu%d.mig%d.%s", device->gpu, device->instance, figure);
}

/* A figure of a device, or why there is none. */
static int figure(Device *device, const char *what, double *value) {
    char name[128];
    double lost;
    if (!initialised) return UNINITIALIZED;
    sprintf(name, "gpu%d.lost", device->gpu);
    if (number(name, &lost) == SUCCESS && lost) return (int)lost;
    full_name(device, what, name);
    return number(name, value);
}

static int as_uint(Device *device, const char *what, unsigned *out) {
    double value = 0;
    int status = figure(device, what, &value);
    if (status == SUCCESS) *out = (unsigned)value;
    return status;
}

static int as_text(Device *device, const char *what, char *out, unsigned size) {
    char name[128];
    double ignored;
    int status = figure(device, "any", &ignored);
    if (status != SUCCESS && status != NOT_SUPPORTED) return status;
    full_name(device, what, name);
    return look_up(name, out, size) ? SUCCESS : NOT_SUPPORTED;
}

static int whole_number(const char *name, int otherwise) {
    double value;
    return number(name, &value) == SUCCESS ? (int)value : otherwise;
}

/* The library */

int nvmlInitWithFlags(unsigned flags) {
    double error = 0;
    (void)flags;
    if (!getenv("STANDIN_GPUS")) return DRIVER_NOT_LOADED;
    number("init", &error); /* may take its time */
    if (error) return (int)error;
    initialised++;
    return SUCCESS;
}

int nvmlShutdown(void) {
    if (!initialised) return UNINITIALIZED;
    initialised--;
    return SUCCESS;
}

const char *nvmlErrorString(int error) {
    return error == 999 ? "Unknown Error" : "Error of the stand-in";
}

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    return look_up("driver", version, size) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    if (!initialised) return UNINITIALIZED;
    *count = whole_number("gpus", 0);
    return SUCCESS;
}

static Device *device_at(int gpu, int instance) {
    Device *device = &devices[gpu][instance + 1];
    device->gpu = gpu;
    device->instance = instance;
    return device;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    double lost;
    char name[32];
    if ((int)index >= whole_number("gpus", 0)) return INVALID;
    sprintf(name, "gpu%u.lost", index);
    if (number(name, &lost) == SUCCESS && lost) return (int)lost;
    *device = device_at(index, -1);
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device **device) {
    char found[128];
    int status;
    for (int gpu = 0; gpu < whole_number("gpus", 0); gpu++) {
        for (int instance = -1; instance < INSTANCES; instance++) {
            Device *one = device_at(gpu, instance);
            status = as_text(one, "uuid", found, sizeof found);
            if (status != SUCCESS && status != NOT_SUPPORTED) return status; /* any lost GPU, as documented */
            if (status == SUCCESS && strcmp(found, uuid) == 0) {
                *device = one;
                return SUCCESS;
            }
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(Device *device, char *uuid, unsigned size) { return as_text(device, "uuid", uuid, size); }
int nvmlDeviceGetName(Device *device, char *name, unsigned size) { return as_text(device, "name", name, size); }

int nvmlDeviceGetIndex(Device *device, unsigned *index) {
    *index = device->gpu;
    return SUCCESS;
}

typedef struct Pci { char legacy[16]; unsigned numbers[5]; char bus[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(Device *device, Pci *pci) {
    memset(pci, 0, sizeof *pci);
    return as_text(device, "bus", pci->bus, sizeof pci->bus);
}

/* Figures */

int nvmlDeviceGetUtilizationRates(Device *device, unsigned *rates) {
    int status = as_uint(device, "util", &rates[0]);
    as_uint(device, "memutil", &rates[1]);
    return status;
}

int nvmlDeviceGetMemoryInfo(Device *device, unsigned long long *memory) { /* total, free, used */
    double total, used;
    int status = figure(device, "total", &total);
    if (status == SUCCESS) status = figure(device, "used", &used);
    if (status != SUCCESS) return status;
    memory[0] = total;
    memory[2] = used;
    memory[1] = total - used;
    return SUCCESS;
}

typedef struct Memory { unsigned version; unsigned long long total, reserved, free, used; } Memory;
int nvmlDeviceGetMemoryInfo_v2(Device *device, Memory *memory) {
    unsigned long long plain[3];
    double reserved = 0;
    if (memory->version != (sizeof *memory | 2u << 24)) return 25;
    int status = figure(device, "reserved", &reserved);
    if (status != SUCCESS) return status == NOT_SUPPORTED ? 13 : status;
    status = nvmlDeviceGetMemoryInfo(device, plain);
    if (status != SUCCESS) return status;
    memory->total = plain[0];
    memory->reserved = reserved;
    memory->used = plain[2] - memory->reserved;
    memory->free = plain[1];
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(Device *device, unsigned *out) { return as_uint(device, "power", out); }
int nvmlDeviceGetEnforcedPowerLimit(Device *device, unsigned *out) { return as_uint(device, "power_limit", out); }
int nvmlDeviceGetTemperature(Device *device, int sensor, unsigned *out) {
    return sensor ? INVALID : as_uint(device, "temperature", out);
}
int nvmlDeviceGetTemperatureThreshold(Device *device, int which, unsigned *out) {
    return as_uint(device, which == 1 ? "slowdown" : which == 3 ? "temperature_max" : "?", out);
}
int nvmlDeviceGetClockInfo(Device *device, int which, unsigned *out) {
    return as_uint(device, which == 1 ? "clock" : which == 2 ? "memory_clock" : "?", out);
}
int nvmlDeviceGetMaxClockInfo(Device *device, int which, unsigned *out) {
    return as_uint(device, which == 1 ? "clock_max" : "?", out);
}
int nvmlDeviceGetPcieThroughput(Device *device, int which, unsigned *out) {
    return as_uint(device, which == 0 ? "pcie_tx" : "pcie_rx", out);
}

static int as_long(Device *device, const char *what, unsigned long long *out) {
    double value = 0;
    int status = figure(device, what, &value);
    if (status == SUCCESS) *out = value;
    return status;
}

int nvmlDeviceGetTotalEnergyConsumption(Device *device, unsigned long long *out) {
    return as_long(device, "energy", out);
}
int nvmlDeviceGetTotalEccErrors(Device *device, int type, int counter, unsigned long long *out) {
    return counter ? INVALID : as_long(device, type ? "uncorrected" : "corrected", out);
}
int nvmlDeviceGetCurrentClocksEventReasons(Device *device, unsigned long long *out) {
    int status = as_long(device, "reasons", out);
    return status == NOT_SUPPORTED ? 13 : status;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, unsigned long long *out) {
    return as_long(device, "throttle", out);
}

typedef struct Field {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type, status;
    union { double d; unsigned u; unsigned long long ull; } value;
} Field;
int nvmlDeviceGetFieldValues(Device *device, int count, Field *fields) {
    double value = 0, now = 0;
    for (int i = 0; i < count; i++) {
        char name[64];
        sprintf(name, "field%u%s", fields[i].id, fields[i].scope == 0xFFFFFFFF ? ".all" : "");
        fields[i].status = figure(device, name, &value);
        if (fields[i].status == 15) return 15;
        figure(device, "now_us", &now);
        fields[i].timestamp = now;
        fields[i].type = fields[i].scope == 0xFFFFFFFF ? 3 : whole_number("pcie_type", 1);
        fields[i].value.ull = value;
    }
    return SUCCESS;
}

/* Instances */

int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    int status = as_uint(device, "mig", current);
    if (status == SUCCESS) *pending = *current = !!*current;
    return status;
}
int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *count) {
    (void)device;
    *count = INSTANCES - 1;
    return SUCCESS;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **found) {
    unsigned there = 0;
    as_uint(device, "mig", &there);
    if (index >= there) return NOT_FOUND;
    *found = device_at(device->gpu, index);
    return SUCCESS;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device *instance, Device **device) {
    *device = device_at(instance->gpu, -1);
    return SUCCESS;
}
int nvmlDeviceGetGpuInstanceId(Device *device, unsigned *id) {
    if (device->instance < 0) return INVALID;
    *id = device->instance + 1;
    return SUCCESS;
}

/* What a GPU did between two samples */

typedef struct Sample { int taken, gpu, instance; } Sample;
int nvmlGpmQueryDeviceSupport(Device *device, unsigned *support) { return as_uint(device, "gpm", &support[1]); }
int nvmlGpmSampleAlloc(Sample **sample) {
    *sample = calloc(1, sizeof **sample);
    samples++;
    return SUCCESS;
}
int nvmlGpmSampleFree(Sample *sample) {
    free(sample);
    samples--;
    return SUCCESS;
}
int standin_samples(void) { return samples; }
static int take(Device *device, int instance, Sample *sample) {
    unsigned there;
    int status = as_uint(device, "gpm", &there);
    if (status == SUCCESS) *sample = (Sample){sample->taken + 1, device->gpu, instance};
    return status;
}
int nvmlGpmSampleGet(Device *device, Sample *sample) { return take(device, -1, sample); }
int nvmlGpmMigSampleGet(Device *device, unsigned instance, Sample *sample) {
    return take(device, (int)instance - 1, sample);
}
typedef struct Metric { unsigned id, status; double value; char *names[3]; } Metric;
typedef struct Metrics { unsigned version, count; Sample *first, *second; Metric metrics[]; } Metrics;
int nvmlGpmMetricsGet(Metrics *metrics) {
    Sample *first = metrics->first, *second = metrics->second;
    if (metrics->version != 1 || first == second || !first->taken || !second->taken) return INVALID;
    if (first->gpu != second->gpu || first->instance != second->instance) return INVALID;
    for (unsigned i = 0; i < metrics->count; i++) {
        char name[32];
        sprintf(name, "gpm%u", metrics->metrics[i].id);
        metrics->metrics[i].status =
            figure(device_at(first->gpu, first->instance), name, &metrics->metrics[i].value);
    }
    return SUCCESS;
}

/* Events */

typedef struct Event { Device *device; unsigned long long type, data; unsigned gi, ci; } Event;
int nvmlEventSetCreate(void **set) {
    *set = &events_seen;
    events_seen = 0;
    return whole_number("events", SUCCESS);
}
int nvmlEventSetFree(void *set) { return set == &events_seen ? SUCCESS : INVALID; }
int nvmlDeviceRegisterEvents(Device *device, unsigned long long types, void *set) {
    double ignored;
    int status = figure(device, "register", &ignored);
    return types != 8 || set != &events_seen ? INVALID : status == NOT_SUPPORTED ? SUCCESS : status;
}
int nvmlEventSetWait_v2(void *set, Event *event, unsigned timeout) {
    char name[32], text[64];
    int gpu, xid;
    double lost;
    if (set != &events_seen) return INVALID;
    if (!initialised) return UNINITIALIZED;
    sprintf(name, "xid%d", events_seen + 1);
    for (gpu = 0; !look_up(name, text, sizeof text) && gpu < whole_number("gpus", 0); gpu++) {
        sprintf(text, "gpu%d.lost", gpu); /* then the wait fails at once, for all */
        if (number(text, &lost) == SUCCESS && lost) return (int)lost;
    }
    if (!look_up(name, text, sizeof text) || sscanf(text, "%d %d", &gpu, &xid) != 2) {
        usleep(timeout * 1000);
        return TIMEOUT;
    }
    events_seen++;
    *event = (Event){device_at(gpu, -1), 8, xid, 0, 0};
    return SUCCESS;
}

/* CUDA: numbers the devices that this process sees. */

int cuDeviceGetCount(int *count) {
    *count = whole_number("cuda", -1);
    return *count < 0 ? 3 : 0; /* not initialised */
}
int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return 0;
}
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    char name[32], text[64], *at = text;
    sprintf(name, "cuda%d", device);
    if (!look_up(name, text, sizeof text)) return 101;
    for (int i = 0; i < 16; i++, at += 2) {
        unsigned byte;
        if (*at == '-') at++;
        if (sscanf(at, "%2x", &byte) != 1) return 101;
        uuid[i] = byte;
    }
    return 0;
}
