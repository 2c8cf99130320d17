#include "core/launch/io/replica_console.h"

#include <csignal>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"

using namespace adaptdl;
using namespace adaptdl::launch;

namespace {

struct OutputPipe {
  Fd reader, writer;

  OutputPipe() {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    reader = Fd(ends[0]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    writer = Fd(ends[1]);
  }
  std::string read() {
    char text[1 << 16];
    const ssize_t n = ::read(reader.get(), text, sizeof text);
    return {text, static_cast<size_t>(std::max<ssize_t>(n, 0))};
  }
};

bool drained(ReplicaConsole& console) {
  return console.drain(Monotonic::now() + std::chrono::seconds(10));
}

}  // namespace

TEST_CASE("streams: a number, or one for each rank") {
  const StreamChoice both = parse_streams("3", "--tee");
  CHECK(both.has(0, 1));
  CHECK(both.has(7, 2));
  CHECK_FALSE(parse_streams("2", "--tee").has(0, 1));
  const StreamChoice some = parse_streams("0:1,2:2", "--tee");
  CHECK(some.has(0, 1));
  CHECK_FALSE(some.has(0, 2));
  CHECK_FALSE(some.has(1, 1));
  CHECK(some.has(2, 2));
  for (const char* wrong : {"", "4", "-1", "x", "0:", "0:9", ":1", "0:1,", "a:1"}) {
    CHECK_THROWS_AS(parse_streams(wrong, "--tee"), UsageError);
  }
}

TEST_CASE("lines: whole, with a prefix, and of a progress bar the last state") {
  LineSplitter lines;
  CHECK(lines.take("a\nb", "> ") == "> a\n");
  CHECK(lines.take("c\n\n", "> ") == "> bc\n> \n");
  CHECK(lines.take("10 %\r20 %\r", "> ").empty());
  CHECK(lines.take("30 %\r\nd", "> ") == "> 30 %\n");
  CHECK(lines.take("", "> ") == "> d\n");
  CHECK(lines.take("", "> ").empty());
  CHECK(lines.take(std::string(70'000, 'x'), "> ").size() > 60'000);
  CHECK(lines.take("\ny\n", "> ") == "> y\n");  // the end of the long line, which was cut
  // On a terminal a progress bar moves.
  CHECK(lines.take("10 %\r20 %\r3", "> ", true) == "> 20 %\r");
  CHECK(lines.take("0 %\n", "> ", true) == "> 30 %\n");
}

TEST_CASE("console: one replica as if it wrote here, several with their ranks") {
  OutputPipe out, err;
  ConsoleOptions options;
  options.role = "trainer";
  options.prefix = "${role_name}-${rank}-${local_rank} ";
  options.ranks = {0, 1};
  options.shown = [](int rank, int stream) { return rank != 1 || stream == 2; };
  options.out = out.writer.get();
  options.err = err.writer.get();
  ReplicaConsole console(options);
  console.replicas(1);
  console.take(0, 1, "no newline");
  CHECK(drained(console));
  CHECK(out.read() == "no newline");
  console.replicas(3);
  console.take(0, 1, "\nmore");
  console.take(1, 1, "hidden\n");
  console.take(2, 1, "hidden\n");
  console.take(1, 2, "shown\n");
  console.take(0, 1, {});
  CHECK(drained(console));
  CHECK(out.read() == "trainer-0-0 \ntrainer-0-0 more\n");
  CHECK(err.read() == "trainer-1-1 shown\n");
}

TEST_CASE("console: on a host of several its replicas are chosen by their number there") {
  OutputPipe out;
  ConsoleOptions options;
  options.prefix = "${rank}-${local_rank} ";
  options.ranks = {0, 1};
  options.shown = [](int rank, int) { return rank != 1; };
  options.prefixed = [](int rank, int stream) { return rank == 0 && stream == 1; };
  options.out = out.writer.get();
  ReplicaConsole console(options);
  console.replicas(8, 4);
  console.take(4, 1, "first\n");
  console.take(5, 1, "hidden\n");
  console.take(6, 1, "filtered\n");
  CHECK(drained(console));
  CHECK(out.read() == "4-0 first\n");
}

TEST_CASE("console: a reader that does not read holds up nobody, and hears of it") {
  OutputPipe out, err;
  ConsoleOptions options;
  options.out = out.writer.get();
  options.err = err.writer.get();
  auto console = std::make_unique<ReplicaConsole>(options);
  const std::string block(1 << 20, 'x');
  for (int i = 0; i < 40; ++i) console->take(0, 1, block);  // far more than it keeps
  CHECK_FALSE(console->drain(Monotonic::now() + std::chrono::milliseconds(50)));
  const auto read_all = [&] {
    while (!console->drain(Monotonic::now() + std::chrono::milliseconds(1))) out.read();
  };
  read_all();
  console->take(0, 1, "x");
  read_all();
  CHECK(err.read().find("of output are not shown") != std::string::npos);
}

TEST_CASE("console: what is shown and what is told are all, though nothing comes after it") {
  OutputPipe out, err;
  ConsoleOptions options;
  options.out = out.writer.get();
  options.err = err.writer.get();
  ReplicaConsole console(options);
  const std::string block(1 << 20, 'x');
  for (int i = 0; i < 40; ++i) console.take(0, 1, block);
  size_t shown = 0;
  while (!console.drain(Monotonic::now() + std::chrono::milliseconds(1))) {
    for (std::string text = out.read(); !text.empty(); text = out.read()) shown += text.size();
  }
  shown += out.read().size();
  double told = 0;  // MiB
  for (const std::string& line : split(err.read(), '\n')) {
    if (line.empty()) continue;
    REQUIRE(line.starts_with("adaptdl: "));
    REQUIRE(line.find(" MiB of output are not shown") != std::string::npos);
    told += std::stod(line.substr(9));
  }
  CHECK(told > 0);
  CHECK(static_cast<double>(shown) / (1 << 20) + told == 40);
}

TEST_CASE("console: a full disk is told once, on the other output") {
  OutputPipe err;
  const Fd full = open_file("/dev/full", O_WRONLY);
  int broken = 0;
  ConsoleOptions options;
  options.out = full.get();
  options.err = err.writer.get();
  options.broken = [&broken] { ++broken; };
  ReplicaConsole console(options);
  console.take(0, 1, "x");
  console.take(0, 1, "y");
  CHECK(drained(console));
  CHECK(broken == 1);
  CHECK(err.read() ==
        "adaptdl: standard output: cannot write: No space left on device; the logs have all that "
        "the replicas write\n");
}

TEST_CASE("console: a reader that is gone ends nothing") {
  std::signal(SIGPIPE, SIG_IGN);
  OutputPipe out;
  ConsoleOptions options;
  options.out = out.writer.get();
  ReplicaConsole console(options);
  out.reader = Fd();
  console.take(0, 1, "x");
  CHECK(drained(console));
  std::signal(SIGPIPE, SIG_DFL);
}
