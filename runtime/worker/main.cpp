#include "runtime/worker/archive_worker.h"

int main() {
  return adaptdl::run_archive_worker();
}
