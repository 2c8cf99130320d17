// Stands in for the driver's libnvidia-ml.so.1: a whole GPU, and one that is divided (MIG) and does
// not tell its power. NVLink joins them.

#include <cstdio>

namespace {

struct Fake {
  const char* name;
  const char* uuid;
  unsigned long long total, used;
  unsigned busy, celsius, milliwatts;  // no milliwatts: it does not tell
  bool divided;
};
Fake fakes[] = {
    {"NVIDIA H200", "GPU-11111111-aaaa", 150ull << 30, 34ull << 30, 87, 61, 512300, false},
    {"NVIDIA A30", "GPU-22222222-bbbb", 24ull << 30, 1ull << 30, 3, 40, 0, true},
};
Fake parts[] = {{"", "MIG-1", 0, 0, 0, 0, 0, false}, {"", "MIG-2", 0, 0, 0, 0, 0, false}};

constexpr int kSuccess = 0, kNotSupported = 3, kNotFound = 6;

Fake* fake(void* device) {
  return static_cast<Fake*>(device);
}

int tell(const char* text, char* to, unsigned size) {
  std::snprintf(to, size, "%s", text);
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return kSuccess;
}
int nvmlShutdown() {
  return kSuccess;
}
int nvmlSystemGetDriverVersion(char* to, unsigned size) {
  return tell("580.95.05", to, size);
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return kSuccess;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= 2) return kNotFound;
  *device = &fakes[index];
  return kSuccess;
}
int nvmlDeviceGetName(void* device, char* to, unsigned size) {
  return tell(fake(device)->name, to, size);
}
int nvmlDeviceGetUUID(void* device, char* to, unsigned size) {
  return tell(fake(device)->uuid, to, size);
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* total_free_used) {
  const Fake& gpu = *fake(device);
  total_free_used[0] = gpu.total;
  total_free_used[1] = gpu.total - gpu.used;
  total_free_used[2] = gpu.used;
  return kSuccess;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* gpu_memory) {
  gpu_memory[0] = fake(device)->busy;
  gpu_memory[1] = 0;
  return kSuccess;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  *celsius = fake(device)->celsius;
  return sensor == 0 ? kSuccess : kNotFound;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = fake(device)->milliwatts;
  return *milliwatts == 0 ? kNotSupported : kSuccess;
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  *current = *pending = fake(device)->divided ? 1 : 0;
  return kSuccess;
}
int nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* count) {
  *count = 4;
  return kSuccess;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void*, unsigned index, void** device) {
  if (index >= 2) return kNotFound;
  *device = &parts[index];
  return kSuccess;
}
int nvmlDeviceGetP2PStatus(void* one, void* other, int what, int* status) {
  constexpr int kNvlink = 2;
  *status = one != other && what == kNvlink ? 0 : 1;
  return kSuccess;
}

}  // extern "C"
