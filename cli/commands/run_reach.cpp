#include "cli/commands/run_reach.h"

#include "core/base/error.h"

namespace adaptdl::cli {

PortRange given_ports(const Arguments& arguments) {
  if (!arguments.given("ports")) return {};
  try {
    return parse_ports(arguments.text("ports"));
  } catch (const Error& error) {
    throw UsageError(fmt::format("--ports: {}.", error.what()));
  }
}

Reach parse_reach(const Arguments& arguments) {
  Reach reach{.interface = arguments.text("interface"), .advertise = arguments.text("advertise")};
  reach.ports = given_ports(arguments);
  if (arguments.given("advertise") && !is_numeric_address(reach.advertise)) {
    throw UsageError(
        fmt::format("--advertise: {} is not an address, such as 203.0.113.7 or fd00::7.",
                    reach.advertise.empty() ? "''" : reach.advertise));
  }
  try {
    listening_address(reach);
  } catch (const Error& error) {
    fail("--interface: {}", error.what());
  }
  return reach;
}

void check_ports(const PortRange& ports, int replicas, bool leads) {
  const int needed = replicas + (leads ? 1 : 0);
  if (ports.any() || ports.count() >= needed) return;
  throw UsageError(fmt::format(
      "--ports {}-{}: {} port{}, but {} are needed: one for each of the {} replicas here{}.",
      ports.first, ports.last, ports.count(), ports.count() == 1 ? "" : "s", needed, replicas,
      leads ? ", and one for the launcher" : ""));
}

}  // namespace adaptdl::cli
