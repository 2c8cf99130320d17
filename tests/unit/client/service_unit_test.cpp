#include "core/client/local/service_unit.h"

#include <doctest/doctest.h>

namespace adaptdl::client {
namespace {

bool has_line(const std::string& text, const std::string& line) {
  return text.find("\n" + line + "\n") != std::string::npos;
}

TEST_CASE("the unit waits for the end of a service that runs already") {
  const std::string unit = service_unit("/usr/bin/adaptdl", {});
  for (const char* line : {"Restart=on-failure", "RestartSec=5", "StartLimitIntervalSec=0"}) {
    CAPTURE(line);
    CHECK(has_line(unit, line));
  }
  // Elsewhere systemd ignores it.
  CHECK(unit.find("StartLimitIntervalSec") < unit.find("[Service]"));
}

TEST_CASE("the unit starts the service with its flags, as systemd reads them") {
  CHECK(has_line(service_unit("/usr/bin/adaptdl", {}), R"(ExecStart="/usr/bin/adaptdl" serve)"));
  const std::string unit =
      service_unit("/a b/adaptdl", {"--slots=fast=2,slow=6", R"(--policy=a "%$\)"});
  CHECK(has_line(
      unit, R"(ExecStart="/a b/adaptdl" serve "--slots=fast=2,slow=6" "--policy=a \"%%$$\\")"));
}

}  // namespace
}  // namespace adaptdl::client
