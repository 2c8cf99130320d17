// Feeds a fuzz target with mutations of its seeds, for compilers without libFuzzer.
//
//   fuzz_X [--seconds S] [--seed N] [--corpus DIR] [--only I]
//
// First every seed, as it is; the files of --corpus are seeds, too. Input I of seed N depends on N,
// I and the seeds alone, so that a failure is repeated by its two numbers: --seed N --only I also
// prints the input. Nothing is written to disk.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sys/time.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

// There when a sanitizer is linked in.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the sanitizer's name
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

// Of processor time: on a busy machine an input may wait for long. One that waits for ever is
// ended, and named, by the test's own limit (SIGTERM).
constexpr time_t kHangSeconds = 20;
constexpr size_t kMaxInput = 1u << 16;

unsigned long long g_seed = 0, g_iteration = 0;
const char* g_replayed = nullptr;  // the name of the seed that is fed as it is

// Async-signal-safe enough: the process is about to die.
void say_where() {
  char text[512];
  const int size = g_replayed != nullptr
                       ? std::snprintf(text, sizeof text, "\nfuzz: failed with %s\n", g_replayed)
                       : std::snprintf(text, sizeof text,
                                       "\nfuzz: failed; repeat with --seed %llu --only %llu\n",
                                       g_seed, g_iteration);
  if (::write(STDERR_FILENO, text, std::min(static_cast<size_t>(size), sizeof text - 1)) < 0)
    return;
}

void on_signal(int number) {
  if (number == SIGPROF) {
    const char text[] = "fuzz: an input takes too long\n";
    if (::write(STDERR_FILENO, text, sizeof text - 1) < 0) ::_exit(1);
  }
  say_where();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

class Mutator {
 public:
  Mutator(const FuzzSeeds& seeds, unsigned long long seed, unsigned long long iteration)
      : seeds_(seeds) {
    std::seed_seq sequence{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                           static_cast<uint32_t>(iteration),
                           static_cast<uint32_t>(iteration >> 32)};
    random_.seed(sequence);
  }

  std::string run() {
    std::string input = seeds_.inputs.empty() ? "" : pick(seeds_.inputs);
    const size_t changes = 1 + below(below(4) == 0 ? 32 : 6);
    for (size_t i = 0; i < changes; ++i) change(input);
    if (input.size() > kMaxInput) input.resize(kMaxInput);
    return input;
  }

 private:
  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  const std::string& pick(const std::vector<std::string>& from) { return from[below(from.size())]; }

  void change(std::string& text) {
    const size_t at = below(text.size() + 1), size = std::min(below(64), text.size() - at);
    switch (below(10)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        return;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        return;
      case 2:
        text.insert(at, 1 + below(8), static_cast<char>(below(256)));
        return;
      case 3:
        text.erase(at, size);
        return;
      case 4:
        text.insert(below(text.size() + 1), text.substr(at, size));
        return;
      case 5:
        if (!seeds_.words.empty()) text.insert(at, pick(seeds_.words));
        return;
      case 6:
        if (!seeds_.words.empty()) text.replace(at, size, pick(seeds_.words));
        return;
      case 7:
        return extreme(text, at);
      case 8: {
        if (seeds_.inputs.empty()) return;
        const std::string& other = pick(seeds_.inputs);
        text = text.substr(0, at) + other.substr(below(other.size() + 1));
        return;
      }
      default:
        text.resize(at);
    }
  }

  // Numbers at the edges, little-endian.
  void extreme(std::string& text, size_t at) {
    static constexpr uint64_t kEdges[] = {0,
                                          1,
                                          0x7f,
                                          0x80,
                                          0xff,
                                          0x7fff,
                                          0xffff,
                                          0x7fffffff,
                                          0xffffffff,
                                          0x7fffffffffffffff,
                                          0xffffffffffffffff,
                                          0x100000000};
    const uint64_t edge = kEdges[below(std::size(kEdges))];
    const size_t width = std::min(size_t{1} << below(4), text.size() - at);
    std::memcpy(text.data() + at, &edge, width);
  }

  const FuzzSeeds& seeds_;
  std::mt19937_64 random_;
};

void feed(const std::string& input) {
  // A copy of just its size, so that a sanitizer notices a read past the end.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  const itimerval limit = {{0, 0}, {kHangSeconds, 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

void print_escaped(const std::string& input) {
  for (const char c : input) {
    if (c >= 0x20 && c < 0x7f && c != '\\') {
      std::putchar(c);
    } else {
      std::printf("\\x%02x", static_cast<unsigned char>(c));
    }
  }
  std::putchar('\n');
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 2.0;
  g_seed =
      static_cast<unsigned long long>(std::chrono::system_clock::now().time_since_epoch().count());
  long long only = -1;
  FuzzSeeds seeds = fuzz_seeds();
  std::vector<std::string> names;
  for (size_t i = 0; i < seeds.inputs.size(); ++i) names.push_back("seed " + std::to_string(i));
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--seconds") {
      seconds = std::atof(argv[i + 1]);
    } else if (flag == "--seed") {
      g_seed = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (flag == "--only") {
      only = std::atoll(argv[i + 1]);
    } else if (flag == "--corpus") {
      std::vector<std::filesystem::path> files;
      for (const auto& entry : std::filesystem::directory_iterator(argv[i + 1])) {
        if (entry.is_regular_file()) files.push_back(entry.path());
      }
      std::sort(files.begin(), files.end());
      for (const auto& file : files) {
        names.push_back(file.string());
        std::ifstream stream(file, std::ios::binary);
        seeds.inputs.emplace_back(std::istreambuf_iterator<char>(stream),
                                  std::istreambuf_iterator<char>());
      }
    } else {
      std::fprintf(stderr, "usage: %s [--seconds S] [--seed N] [--corpus DIR] [--only I]\n",
                   argv[0]);
      return 2;
    }
  }
  for (const int number : {SIGABRT, SIGFPE, SIGILL, SIGPROF, SIGTERM}) ::signal(number, on_signal);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(say_where);
  } else {
    ::signal(SIGSEGV, on_signal);
    ::signal(SIGBUS, on_signal);
  }

  if (only >= 0) {
    g_iteration = static_cast<unsigned long long>(only);
    const std::string input = Mutator(seeds, g_seed, g_iteration).run();
    print_escaped(input);
    std::fflush(stdout);
    feed(input);
    return 0;
  }
  for (size_t i = 0; i < seeds.inputs.size(); ++i) {
    g_replayed = names[i].c_str();
    feed(seeds.inputs[i]);
  }
  g_replayed = nullptr;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (g_iteration = 0; std::chrono::steady_clock::now() < end; ++g_iteration) {
    feed(Mutator(seeds, g_seed, g_iteration).run());
  }
  std::printf("fuzz: %llu inputs of seed %llu, nothing found\n", g_iteration, g_seed);
  return 0;
}
