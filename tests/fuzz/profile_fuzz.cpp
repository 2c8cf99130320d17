#include <cmath>
#include <cstdlib>

#include "core/base/error.h"
#include "core/sim/profiles/profile_folder.h"
#include "core/sim/profiles/profile_yaml.h"
#include "core/sim/workload.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// Asks a profile that was accepted everything there is.
void use(const Profile& profile) {
  for (const Placement& gpus : {Placement{1}, {4}, {4, 4}, {1, 2, 3}, {9, 9, 9, 9, 9, 9}}) {
    for (const double atomic : {1.0, 7.5, 1e6}) {
      if (!profile.times().measured(gpus) && !profile.times().interpolation()) continue;
      const StepTime time = profile.times().at(gpus, atomic);
      require(std::isfinite(time.step_s) && std::isfinite(time.sync_s));
    }
  }
  for (int e = 0; e < profile.epochs(); ++e) {
    for (const double batch : {1.0, 100.0, 1e6}) {
      require(std::isfinite(profile.iterations(e, batch)));
      require(profile.grad(e, batch).sqr >= 0);
    }
  }
  require(profile.max_replicas() >= 1);
}

// The first character tells the format, as in the seeds; tables of one profile follow each other
// behind '@'.
void read(char kind, const std::string& text) {
  if (kind == 'w' || kind == 'W') {
    parse_workload(text, kind == 'w' ? "fuzz.csv" : "fuzz.yaml", {"bert", "ncf"});
    return;
  }
  ProfileData data;
  if (kind == 'y') {
    data = parse_profile_yaml(text, "fuzz.yaml");
  } else {
    data.application = "fuzz";
    const size_t sizes = std::min(text.find('@'), text.size());
    const size_t runs = std::min(text.find('@', sizes + 1), text.size());
    const auto part = [&](size_t begin, size_t end) {
      return text.substr(std::min(begin, end), end - std::min(begin, end));
    };
    parse_placements_csv(part(0, sizes), "placements.csv", data);
    parse_scalability_csv(part(sizes + 1, runs), "scalability.csv", data);
    parse_validation_csv(part(runs + 1, text.size()), "validation.csv", 12, data);
  }
  use(Profile(std::move(data)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  try {
    read(static_cast<char>(data[0]), std::string(fuzz_text(data + 1, size - 1)));
  } catch (const Error&) {
    // refused
  }
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {
      {
          "wname,time,application,num_replicas,batch_size\nncf-0,29,ncf,1,32768\nb,30,bert,2,24\n",
          "Wjobs:\n  - {name: a, submitted_s: 5m, application: ncf, replicas: 2, batch_size: 64, "
          "min_replicas: 1, max_replicas: 4, preemptible: false}\n",
          "yatomic_max: 8\nplacements:\n"
          "  - {gpus: [1], atomic: 4, step_s: 0.4, sync_s: 0}\n"
          "  - {gpus: [2], atomic: 4, step_s: 0.4, sync_s: 0.1}\n"
          "  - {gpus: [1, 1], atomic: 4, step_s: 0.4, sync_s: 0.1}\n"
          "  - {gpus: [1], atomic: 8, step_s: 0.5, sync_s: 0}\n"
          "  - {gpus: [4, 4], atomic: 8, step_s: 0.5, sync_s: 0.1}\n"
          "sizes:\n  - {nodes: 3, replicas: 9, atomic: 8, step_s: 0.7, sync_s: 0.3}\n"
          "validation:\n  - batch: 12\n"
          "    epochs: [{progress: 10, iterations: 10, grad_sqr: 1, grad_var: 2}]\n",
          "pplacement,local_bsz,step_time,sync_time\n1,4,0.4,0\n2,4,0.5,0.1\n11,4,0.5,0.1\n"
          "1,8,0.8,0\n2,8,0.9,0.1\n11,8,0.9,0.1\n44,8,1,0.2\n"
          "@num_nodes,num_replicas,local_bsz,step_time,sync_time\n3,3,4,1,0.5\n3,9,8,2,0.5\n"
          "@progress,iteration,metric,grad_sqr,grad_var\n10.5,10,1,1,2\n20,20,2,3,4\n",
      },
      {"gpus",          "atomic",     "step_s", "sync_s", "nodes", "replicas",    "1e308",
       "1099511627776", "2147483647", "\n",     ",",      "@",     "1,4,0.4,0\n", "4444",
       "0.1",           "nan",        "-1",     "{",      "}",     "[1, 1]"},
  };
}
