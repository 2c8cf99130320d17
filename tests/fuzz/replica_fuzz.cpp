// The messages of a run's replicas, as the launcher obeys them, with the rendezvous deciding
// between: lines of JSON, by turns from the first replica and from the second.

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/formats/json.h"
#include "core/launch/run/conversation.h"
#include "core/launch/run/rendezvous.h"
#include "core/net/socket.h"
#include "tests/fuzz/fuzz.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace {

class NoProcess : public ReplicaProcess {
 public:
  pid_t pid() const override { return 1; }
  void kill() override { killed = true; }
  std::optional<ExitStatus> poll() override { return std::nullopt; }
  std::optional<bool> stop_change() override { return std::nullopt; }
  int descriptor() const override { return -1; }

  bool killed = false;
};

RunOptions run_options(const std::string& folder) {
  RunOptions options;
  options.name = "fuzz";
  options.program = options.worker_path = "/bin/true";
  options.log_dir = folder;
  options.replicas = {1, 2, 4};
  return options;
}

// What lives as long as the program: threads, and a set without a replica.
struct Surroundings {
  TemporaryDirectory folder{"adaptdl-fuzz"};
  RunOptions options = run_options(folder.path());
  OutputQueue output{{[](const Json& event) { dump_json(event); }}, [](const std::string&) {}};
  RunReport report = new_report();
  ReplicaSet replicas{options, report, {}};

  RunReport new_report() {
    return {{.name = "fuzz"}, output, [](const Json&, bool) {}};
  }
};

// A run of two replicas that train together.
class Run {
 public:
  explicit Run(Surroundings& around)
      : around_(around),
        report_(around.new_report()),
        stream_(report_, false, [this](int64_t) { step_finished(view_, Monotonic::now()); }),
        hung_(300, true, "", report_),
        stragglers_(true, {view_, rendezvous_, around.replicas, report_}),
        slow_links_(view_, around.replicas, report_),
        failures_(3, "/", view_, around.replicas, report_),
        end_(around.options, view_, around.replicas, stream_, report_),
        conversation_(around.options, {view_, around.replicas, stream_, hung_, stragglers_,
                                       slow_links_, failures_, end_, report_, nullptr}) {
    const TimePoint now = Monotonic::now();
    for (const MemberId id : {0, 1}) {
      auto [ours, theirs] = socket_pair();
      replicas_.push_back({id, std::make_unique<NoProcess>(), Channel(std::move(ours))});
      started(view_, id, now);
    }
    next_id_ = 2;
    view_.target = 2;
    rendezvous_.max = 4;
    for (size_t i = 0; i < 2; ++i) {
      hear(i, {{"type", "hello"}, {"protocol", 1}, {"endpoint", Json::object()}});
    }
    for (size_t i = 0; i < 2; ++i) {
      hear(i, {{"type", "connected"}, {"generation", view_.last_generation}});
      hear(i, {{"type", "switched"}, {"generation", view_.last_generation}, {"step", 0}});
    }
    ADAPTDL_CHECK(view_.trained() == 2);
  }

  void hear(size_t from, const Json& message) {
    Replica& replica = replicas_[from];
    if (!replica.open) return;
    try {
      conversation_.on_message(replica, message);
    } catch (const std::exception&) {  // as in ReplicaSet: ends the replica
      replica.open = false;
      conversation_.on_closed(replica);
    }
    decide_all();
    stream_.advance(view_);
  }

  void finish() {
    for (Replica& replica : replicas_) {
      if (replica.open) conversation_.on_closed(replica);
      conversation_.on_stop(replica, true);
    }
    decide_all();
    stream_.advance(view_, true);
    StatusFacts facts;
    facts.hints = conversation_.hints();
    facts.step = stream_.last_step();
    facts.epoch = stream_.newest("epoch");
    facts.loss = stream_.newest("loss");
    dump_json(report_.status(facts));
    report_.end({.result = "failed",
                 .exit = 1,
                 .steps = stream_.last_step(),
                 .rescales = stream_.rescales(),
                 .lost_s = stream_.lost_s(),
                 .from_replicas = stream_.worker_end()});
    dump_json(conversation_.summary());
  }

 private:
  void decide_all() {
    for (int i = 0; end_.members_matter(); ++i) {
      ADAPTDL_CHECK(i < 1000);
      const Decision decision = decide(Monotonic::now(), view_, rendezvous_);
      if (decision.action == Action::wait) return;
      ADAPTDL_CHECK(decision.generation.members.size() <= 4);
      if (decision.action == Action::give_up) return end_.begin({.result = "failed", .exit = 1});
      for (int n = 0; n < decision.count; ++n) started(view_, next_id_++, Monotonic::now());
      apply(view_, decision, Monotonic::now());
    }
  }

  Surroundings& around_;
  RunReport report_;
  View view_;
  RendezvousOptions rendezvous_;
  EventStream stream_;
  HungReplicas hung_;
  Stragglers stragglers_;
  SlowLinks slow_links_;
  Failures failures_;
  RunEnd end_;
  Conversation conversation_;
  std::vector<Replica> replicas_;
  MemberId next_id_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Surroundings& around = *new Surroundings;
  Run run(around);
  std::string_view text = fuzz_text(data, size);
  for (size_t turn = 0; !text.empty(); ++turn) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    try {
      const Json message = parse_json(line, "fuzz");
      // What else is no message for a channel.
      if (message.is_object() && message.contains("type") && message["type"].is_string()) {
        run.hear(turn % 2, message);
      }
    } catch (const Error&) {
    }
  }
  run.finish();
  return 0;
}

FuzzSeeds fuzz_seeds() {
  return {{R"({"type":"event","event":{"event":"step","step":1,"loss":0.5,"step_s":0.1,"epoch":1}}
{"type":"waiting","generation":1,"waiting":true}
{"type":"event","event":{"event":"rescale","generation":1,"pause_s":0.1}}
{"type":"passes","samples":32}
{"type":"pace","generation":1,"seconds":5,"replicas":[{"compute_s":1,"samples":64,"waited_s":0},{"compute_s":4,"samples":64,"waited_s":3}]}
{"type":"links","generation":1,"seconds":3,"to":[{"rank":1,"bytes":5e6,"busy_s":2}]}
{"type":"lost","generation":2,"reason":"r","connecting":true,"unreachable":0}
{"type":"gpu","id":"GPU-1","name":"H","busy_percent":9,"memory_bytes":8,"temperature_c":60,"power_w":7.5}
{"type":"saving","saving":true}
{"type":"leaving","reason":"r"}
{"type":"hints","hints":{"initBatchSize":8,"maxBatchSize":64}}
{"type":"bye","result":"left"}
{"type":"bye","result":"finished","checkpoint":true,"summary":{"loss":1}})",
           R"({"type":"lost","generation":1,"reason":"r","connecting":false}
{"type":"lost","generation":1,"reason":"r","connecting":false}
{"type":"connected","generation":2}
{"type":"connected","generation":2}
{"type":"switched","generation":2,"step":5}
{"type":"switched","generation":2,"step":5}
{"type":"event","event":{"event":"resume","step":4}})",
           R"({"type":"fatal","message":"m","exit":3,"others_too":false}
{"type":"fatal","message":"m","step":7}
{"type":"hello","protocol":2,"endpoint":null,"accelerator":"T4"}
{"type":"event","event":{"event":"end","steps":3}})"},
          {"\"generation\":",
           "\"step\":",
           "\"step_s\":",
           "\"loss\":",
           "1e300",
           "-1e300",
           "-1",
           "9223372036854775807",
           "18446744073709551615",
           "null",
           "[]",
           "{}",
           "\"\"",
           "true",
           "\n",
           "\n\n",
           "\"event\":\"step\"",
           "\"event\":\"epoch\"",
           "\"event\":\"checkpoint\"",
           "\"event\":\"validation\"",
           "\"pause_s\":",
           "\"message\":"}};
}
