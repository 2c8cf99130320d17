// The shipped worker with faults and recorded step times added. Tests that need them set
// ADAPTDL_WORKER to it.

#include <memory>

#include "runtime/worker/archive_worker.h"
#include "tests/elastic/worker/faults.h"
#include "tests/elastic/worker/stretch.h"

namespace {

using namespace adaptdl;

class TestHooks : public StepHooks {
 public:
  void program(Program& program) override { faults_.program(program); }
  void reached(Point point, int64_t step, uint64_t member) override {
    faults_.reached(point, step, member);
  }
  void computed(const Pass& pass) override {
    if (!stretch_) return;
    const Stretch::Times times = times_of(pass);
    sleep_until_passed(pass.begun, times.step - times.sync);
  }
  void synchronised(const Pass& pass) override {
    if (stretch_) sleep_until_passed(pass.begun, times_of(pass).step);
  }

 private:
  Stretch::Times times_of(const Pass& pass) const {
    return stretch_->at(pass.replicas, static_cast<double>(pass.samples));
  }

  Faults faults_;
  const std::unique_ptr<Stretch> stretch_ = Stretch::from_environment();
};

}  // namespace

int main() {
  return run_archive_worker(std::make_shared<TestHooks>());
}
