// A replica without Torch, for the launcher's tests: real processes that speak the real protocol
// and keep step with each other over sockets, with a number in place of a model.
//
// Arguments (after -- of a run; MEMBER is a member number, * all):
//   steps=N          the training is finished after N steps
//   step_ms=T        one step takes that long
//   gather=N         ... but much longer from step 20 on, until N members have trained together
//   dir=DIR          where the members meet
//   hello_ms=T       start-up takes that long
//   checkpoint=K     a checkpoint every K steps (a folder step-N in the checkpoint folder)
//   die=MEMBER:STEP  aborts at that step; die=*:STEP every member at every attempt
//   hang=MEMBER:STEP hangs before that step, in the first of its attempts; hangs=MEMBER:STEP in all
//                    of them, and hang-all=STEP all members of the first attempt
//   orphan=1         leaves a process behind whose parent is gone, and which soon ends
//   kinds=1          says hello from an accelerator of kind-MEMBER
//   held=MEMBER      does not go on from there before there is a file DIR/go
//   silent=MEMBER    never says hello
//   crash=MEMBER     prints something and exits with 7 before hello
//   fatal=MEMBER     cannot train
//   garbage=MEMBER   talks nonsense
//   newer=1          speaks a newer protocol
//   after=MS:CODE    its main() goes on for so long after the training, and ends with that code
//   old=1            bye says nothing of a checkpoint, as in older programs
//   full=1           bye says that the checkpoint of the end could not be written
//   gpu=MEMBER       has a GPU, of which it tells after each step; the others tell nonsense
//   hints=1          rank 0 sends hints after each step; wrong ones after every second
//   frail=N          members that join others die N steps later
//   atomic=N         computes N samples at once, or as few as it is told; never less than least=N
//   memory=MEMBER:N  memory suffices for N samples at once; for more, "the system" kills it when it
//                    starts or, with memory_step=S, in step S: it counts that in root=DIR
//   late_end=MS      ... and its process ends that long after its channel
//   saves=STEP:MS    rank 0 writes something for so long after that step
//   busy=MEMBER:STEP:MS  computes for so long before that step
//   validate=K:MS    all validate after every K steps, member N idly for N times so long

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <optional>
#include <poll.h>
#include <signal.h>
#include <string>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "core/base/clock.h"
#include "core/base/files.h"
#include "core/base/poll.h"
#include "core/launch/io/protocol.h"
#include "core/net/socket.h"

namespace {

using namespace adaptdl;
using nlohmann::json;

std::map<std::string, std::string> settings;
volatile sig_atomic_t terminated = 0;

int64_t number(const std::string& key, int64_t otherwise) {
  return settings.count(key) ? std::atoll(settings[key].c_str()) : otherwise;
}

// The number after so many separators.
int64_t part_of(const std::string& text, char separator, int index) {
  size_t at = 0;
  for (int i = 0; i < index; ++i) at = text.find(separator, at) + 1;
  return std::atoll(text.c_str() + at);
}
int64_t part(const std::string& key, int index) {
  return part_of(settings[key], ':', index);
}

bool names_step(const std::string& key, int64_t step) {
  const std::string& text = settings[key];
  return step == std::atoll(text.substr(text.find(':') + 1).c_str());
}

bool names_member(const std::string& key, uint64_t member) {
  if (!settings.count(key)) return false;
  const std::string text = settings[key].substr(0, settings[key].find(':'));
  return text == "*" || text == std::to_string(member);
}

void sleep_ms(int64_t ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

struct Mark {
  int64_t step = -1;   // applied; -1: no state
  uint64_t offer = 0;  // generation it could switch to
  int64_t stop = 0;
};

// The members of one generation: rank 0 in the middle, all others connected to it.
class Group {
 public:
  Group(const json& message, uint64_t self, const std::string& dir)
      : number(message["generation"]),
        immediate(message["immediate"]),
        path_(dir + "/g" + std::to_string(number)) {
    for (const auto& entry : message["members"]) {
      if (entry["member"] == self) rank = size;
      ++size;
    }
  }
  ~Group() {
    if (rank == 0) ::unlink(path_.c_str());
  }

  // Goes on connecting; true once all are there.
  bool connected() {
    if (rank < 0 || size == 1 || up_) return true;
    if (rank == 0) {
      if (!listener_) {
        listener_ = listen_unix(path_);
        set_nonblocking(listener_.get());
      }
      while (auto peer = accept_same_user(listener_.get())) peers_.push_back(std::move(*peer));
      if (static_cast<int>(peers_.size()) < size - 1) return false;
      for (const Fd& peer : peers_) send_all(peer.get(), "R");
      return up_ = true;
    }
    if (peers_.empty()) {
      auto peer = try_connect_unix(path_);
      if (!peer) return false;
      peers_.push_back(std::move(*peer));
    }
    char ready;
    if (::recv(peers_[0].get(), &ready, 1, MSG_DONTWAIT) != 1) return false;
    return up_ = true;
  }

  // Everybody gives a mark and gets rank 0's answer; false: the generation broke.
  // `wait` is called while nothing comes; false from it gives up.
  template <typename Merge, typename Wait>
  bool exchange(Mark& mine, Merge&& merge, Wait&& wait) {
    if (size == 1) {
      merge(std::vector<Mark>{mine}, mine);
      return true;
    }
    const auto get = [&](int fd, Mark& mark) {
      size_t got = 0;
      while (got < sizeof mark) {
        const ssize_t n =
            ::recv(fd, reinterpret_cast<char*>(&mark) + got, sizeof mark - got, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
        if (n > 0) got += static_cast<size_t>(n);
        if (n < 0) {
          pollfd waiting{fd, POLLIN, 0};
          ::poll(&waiting, 1, 5);
          if (!wait()) return false;
        }
      }
      return true;
    };
    const auto put = [](int fd, const Mark& mark) {
      return send_all(fd, {reinterpret_cast<const char*>(&mark), sizeof mark});
    };
    if (rank != 0) return put(peers_[0].get(), mine) && get(peers_[0].get(), mine);
    std::vector<Mark> all{mine};
    for (const Fd& peer : peers_) {
      all.emplace_back();
      if (!get(peer.get(), all.back())) return false;
    }
    merge(all, mine);
    for (const Fd& peer : peers_) put(peer.get(), mine);
    return true;
  }

  uint64_t number;
  bool immediate;
  int rank = -1, size = 0;

 private:
  std::string path_;
  Fd listener_;
  std::vector<Fd> peers_;
  bool up_ = false;
};

class Worker {
 public:
  explicit Worker(Fd control) : channel_(std::move(control)) {
    const auto welcome = channel_.receive();
    if (!welcome) _exit(1);
    member_ = (*welcome)["member"];
    checkpoints_ = (*welcome)["settings"]["checkpoint_dir"];
    output_ = (*welcome)["settings"]["output_dir"];
    atomic_limit_ = (*welcome)["settings"]["atomic_limit"];
    step_ms_ = number("step_ms", 5);
  }

  int run() {
    std::printf("member %llu here\n", static_cast<unsigned long long>(member_));
    std::fflush(stdout);
    if (settings.count("orphan")) leave_orphan();
    sleep_ms(number("hello_ms", 20));
    while (names_member("held", member_) && !path_exists(join_path(settings["dir"], "go"))) {
      sleep_ms(2);
    }
    if (names_member("silent", member_)) pause();
    if (names_member("garbage", member_)) {
      send_all(channel_.fd(), "this is no frame at all");
      pause();
    }
    if (names_member("crash", member_)) {
      std::fprintf(stderr, "member %d cannot find its hat\n", static_cast<int>(member_));
      return 7;
    }
    if (names_member("fatal", member_)) {
      channel_.send({{"type", "fatal"}, {"message", "train.pt: no training_step"}, {"exit", 1}});
      return 1;
    }
    if (!settings.count("memory_step")) use_memory();
    channel_.send(
        {{"type", "hello"},
         {"protocol", settings.count("newer") ? 99 : launch::kProtocol},
         {"pid", getpid()},
         {"endpoint", {{"member", member_}}},
         {"accelerator", settings.count("kinds") ? fmt::format("kind-{}", member_) : ""}});
    for (;;) {
      if (auto code = come_in()) return *code;
      if (auto code = train()) return *code;
    }
  }

 private:
  void listen() {
    if (terminated == 1) {
      terminated = 2;
      channel_.send({{"type", "leaving"}, {"reason", "SIGTERM"}});
    }
    const bool open = channel_.drain([&](const json& message) {
      if (message["type"] == "stop") {
        if (message["mode"] == "now") _exit(1);
        stop_ = true;
      } else if (message["type"] == "generation" && message["generation"] > newest_) {
        newest_ = message["generation"];
        atomic_limit_ = message["atomic_limit"];
        next_ = std::make_unique<Group>(message, member_, settings["dir"]);
        told_ = false;
        if (next_->immediate || step_ < 0) current_.reset();
      }
    });
    if (!open) _exit(1);
    if (next_ && !told_ && next_->connected()) {
      told_ = true;
      if (next_->rank >= 0) send("connected", next_->number);
    }
  }

  void send(const char* type, uint64_t generation) {
    channel_.send(
        {{"type", type}, {"generation", generation}, {"step", std::max<int64_t>(step_, 0)}});
  }
  void tell_gpu() {
    channel_.send({{"type", "gpu"},
                   {"id", fmt::format("GPU-{}", member_)},
                   {"name", "Fake"},
                   {"busy_percent", settings["gpu"] == std::to_string(member_) ? json(87) : "much"},
                   {"memory_bytes", 1000},
                   {"memory_used_bytes", 500},
                   {"temperature_c", 61},
                   {"power_w", nullptr}});
  }
  void emit(const json& event) { channel_.send({{"type", "event"}, {"event", event}}); }

  int bye(const char* result, int code) {
    json message = {{"type", "bye"}, {"result", result}, {"summary", {{"model", output_}}}};
    if (!settings.count("old")) {
      const bool unwritten = settings.count("full") > 0;
      message["checkpoint"] = !unwritten && std::string(result) != "left";
    }
    channel_.send(message);
    return code;
  }

  int go_on(int code) {
    const auto after = settings.find("after");
    if (after == settings.end()) return code;
    const size_t colon = after->second.find(':');
    sleep_ms(std::stoi(after->second.substr(0, colon)));
    return std::stoi(after->second.substr(colon + 1));
  }

  bool wait() {
    listen();
    return current_ != nullptr;
  }

  // Waits for a generation to be in, and gets its state.
  std::optional<int> come_in() {
    while (!current_) {
      listen();
      if (next_ && told_ && (next_->immediate || step_ < 0)) {
        if (next_->rank < 0) return bye("left", 0);
        current_ = std::move(next_);
      } else {
        sleep_ms(1);
      }
    }
    return std::nullopt;
  }

  bool lost() {
    if (current_) send("lost", current_->number);
    current_.reset();
    return false;
  }

  bool exchange(Mark& mark) {
    const auto merge = [&](const std::vector<Mark>& all, Mark& result) {
      for (const Mark& other : all) {
        result.step = std::max(result.step, other.step);
        if (other.offer != result.offer) result.offer = 0;
        result.stop = std::max(result.stop, other.stop);
      }
    };
    // Kept alive even if listen() drops it.
    const std::shared_ptr<Group> group = current_;
    const TimePoint begun = Monotonic::now();
    bool told = false;
    const auto say = [&](bool waiting) {
      told = waiting;
      channel_.send({{"type", "waiting"}, {"generation", group->number}, {"waiting", waiting}});
    };
    const bool good = group->exchange(mark, merge, [&] {
      if (!told && seconds_since(begun) > 0.2) say(true);
      return wait();
    });
    if (told) say(false);
    return good;
  }

  bool get_state() {
    Mark mark;
    mark.step = step_;
    if (!exchange(mark)) return lost();
    const bool anew = mark.step < 0;
    if (!anew && step_ < 0) joined_at_ = mark.step;
    step_ = anew ? newest_checkpoint() : mark.step;
    if (!current_) return false;
    if (current_->rank == 0 && anew && step_ > 0) emit({{"event", "resume"}, {"step", step_}});
    send("switched", current_->number);
    first_ = true;
    if (current_->rank == 0 && !anew && step_ > 0) emit_step();  // perhaps nobody had said so
    return true;
  }

  void emit_step() {
    emit({{"event", "step"},
          {"step", step_},
          {"loss", 1.0 / static_cast<double>(step_)},
          {"epoch", 0},
          {"replicas", current_->size},
          {"atomic", atomic()},
          {"batch", 32}});
  }

  std::optional<int> train() {
    if (!get_state()) return std::nullopt;
    const int64_t steps = number("steps", 100), every = number("checkpoint", 10);
    while (current_) {
      gathered_ = gathered_ || current_->size >= number("gather", 0);
      sleep_ms(gathered_ || step_ < 20 ? step_ms_ : 200);
      listen();
      if (!current_) break;
      maybe_die();
      maybe_hang();
      maybe_compute();
      Mark mark;
      mark.step = step_ + 1;
      mark.offer = told_ && next_ ? next_->number : 0;
      mark.stop = stop_;
      if (!exchange(mark)) {
        lost();
        break;
      }
      step_ = mark.step;
      if (!current_) break;
      if (settings.count("gpu")) tell_gpu();
      if (current_->rank == 0) {
        emit_step();
        if (settings.count("hints")) {
          json hints = {{"initBatchSize", 32}, {"remainingProgress", steps - step_}};
          if (step_ % 2 == 0) hints["initBatchSize"] = "many";
          channel_.send({{"type", "hints"}, {"hints", hints}});
        }
        if (first_) {
          emit({{"event", "rescale"}, {"generation", current_->number}, {"pause_s", 0.001}});
        }
        if (step_ % every == 0 || mark.stop) save();
        if (settings.count("saves") && part("saves", 0) == step_) write_for_long();
      }
      if (settings.count("validate") && step_ % std::atoll(settings["validate"].c_str()) == 0) {
        if (!validate()) break;
      }
      first_ = false;
      if (step_ >= steps) {
        if (current_->rank == 0) {
          write_file_atomic(join_path(output_, "model.pt"), "model");
          save();
        }
        return go_on(bye("finished", 0));
      }
      if (mark.stop) return bye("stopped", 143);
      if (mark.offer != 0) {
        if (next_->rank < 0) return bye("left", 0);
        current_ = std::move(next_);
        if (!get_state()) break;
      }
    }
    return std::nullopt;
  }

  static void leave_orphan() {
    const pid_t child = fork();
    if (child == 0) {
      if (fork() == 0) sleep_ms(100);
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  }

  bool validate() {
    if (current_->rank == 0) emit({{"event", "epoch"}, {"step", step_}});
    sleep_ms(part("validate", 1) * static_cast<int64_t>(member_));
    Mark mark;
    mark.step = step_;
    if (!exchange(mark)) return lost();
    if (current_->rank == 0) emit({{"event", "validation"}, {"step", step_}});
    return true;
  }

  void write_for_long() {
    channel_.send({{"type", "saving"}, {"saving", true}});
    sleep_ms(part("saves", 1));
    channel_.send({{"type", "saving"}, {"saving", false}});
  }

  int64_t atomic() {
    const int64_t most = number("atomic", 1);
    return atomic_limit_ == 0 ? most : std::max(number("least", 1), std::min(most, atomic_limit_));
  }

  void use_memory() {
    channel_.send({{"type", "passes"}, {"samples", atomic()}});
    if (!names_member("memory", member_) || atomic() <= part("memory", 1)) return;
    count_kill(join_path(settings["root"], "proc/vmstat"));
    if (settings.count("late_end")) {
      ::shutdown(channel_.fd(), SHUT_RDWR);
      sleep_ms(number("late_end", 0));
    }
    raise(SIGKILL);
  }

  static void count_kill(const std::string& path) {
    const Fd lock = open_file(path + ".lock", O_RDWR | O_CREAT, 0600);
    ::flock(lock.get(), LOCK_EX);  // others may be killed at the same time
    const int64_t before = part_of(read_file(path, 100), ' ', 1);
    write_file_atomic(path, fmt::format("oom_kill {}\n", before + 1));
  }

  void maybe_compute() {
    if (settings.count("memory_step") && step_ + 1 == number("memory_step", 0)) use_memory();
    if (!names_member("busy", member_) || !names_step("busy", step_ + 1)) return;
    const TimePoint begun = Monotonic::now();
    while (seconds_since(begun) * 1e3 < static_cast<double>(part("busy", 2))) {
    }
  }

  void maybe_die() {
    if (joined_at_ && settings.count("frail") && step_ >= *joined_at_ + number("frail", 0)) {
      raise(SIGKILL);
    }
    if (!names_member("die", member_)) return;
    if (!names_step("die", step_ + 1)) return;
    std::fprintf(stderr, "member %d dies before step %lld\n", static_cast<int>(member_),
                 static_cast<long long>(step_) + 1);
    raise(SIGKILL);
  }

  void maybe_hang() {
    const auto size = static_cast<uint64_t>(current_->size);
    const bool first = settings.count("hang-all") && names_step("hang-all", step_ + 1) &&
                       member_ < size;  // later ones have larger numbers
    if (first || (names_member("hangs", member_) && names_step("hangs", step_ + 1))) {
      std::printf("member %d hangs\n", static_cast<int>(member_));
      std::fflush(stdout);
      for (;;) pause();
    }
    if (!names_member("hang", member_) || !names_step("hang", step_ + 1)) return;
    const std::string once = join_path(settings["dir"], "hung");
    if (path_exists(once)) return;
    write_file_atomic(once, "");
    for (;;) pause();
  }

  void save() { make_directories(join_path(checkpoints_, fmt::format("step-{:012}", step_))); }
  int64_t newest_checkpoint() {
    int64_t newest = 0;
    for (const std::string& name : list_directory(checkpoints_)) {
      const int64_t step = name.starts_with("step-") ? std::atoll(&name[5]) : 0;
      if (name == fmt::format("step-{:012}", step)) newest = std::max(newest, step);
    }
    return newest;
  }

  launch::Channel channel_;
  uint64_t member_ = 0, newest_ = 0;
  std::string checkpoints_, output_;
  std::shared_ptr<Group> current_;
  std::unique_ptr<Group> next_;
  bool told_ = false, first_ = false, stop_ = false, gathered_ = false;
  int64_t step_ = -1, step_ms_ = 5, atomic_limit_ = 0;
  std::optional<int64_t> joined_at_;  // the step
};

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    settings[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  signal(SIGTERM, [](int) { terminated = 1; });
  signal(SIGPIPE, SIG_IGN);
  const char* control = std::getenv(launch::kControlFdVariable);
  return Worker(Fd(control != nullptr ? std::atoi(control) : -1)).run();
}
