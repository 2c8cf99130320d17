#include <unistd.h>

#include "cli/commands.h"
#include "cli/commands/doctor_checks.h"
#include "cli/commands/doctor_hosts.h"
#include "cli/commands/run_reach.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/launch/hosts/ssh_client.h"
#include "core/launch/hosts/ssh_hosts.h"
#include "core/net/tcp.h"

namespace adaptdl::cli {
namespace {

int check_network(const Arguments& arguments) {
  launch::HostCheckOptions options;
  for (const auto& host : launch::parse_ssh_hosts(arguments.text("hosts"), 1)) {
    options.hosts.push_back(host.name);
  }
  if (options.hosts.size() < 2) throw UsageError("--hosts: name two hosts at least.");
  options.ssh = launch::ssh_words();
  options.reach = {.interface = arguments.text("interface"), .ports = given_ports(arguments)};
  options.links = static_cast<int>(arguments.integer("links"));
  const bool quiet = arguments.quiet();
  const launch::HostCheck check = launch::check_hosts(options, [quiet](const std::string& line) {
    if (!quiet) talk("adaptdl: " + printable(line));
  });
  if (arguments.json()) {
    print_json(to_json(check, options.hosts));
  } else {
    print(describe(check, options.hosts));
  }
  return launch::all_reach(check) ? 0 : 1;
}

int run_doctor(const Arguments& arguments) {
  if (arguments.given("hosts")) return check_network(arguments);
  for (const char* flag : {"interface", "ports", "links"}) {
    if (arguments.given(flag)) throw UsageError(fmt::format("--{}: only with --hosts.", flag));
  }
  const std::vector<Finding> findings = examine_machine();
  if (arguments.json()) {
    print_json(to_json(findings));
  } else {
    print(describe(findings, is_fancy(STDOUT_FILENO, arguments.flag("no-color"))));
  }
  return all_fine(findings) ? 0 : 1;
}

}  // namespace

Command doctor_command() {
  return {
      .name = "doctor",
      .summary = "Check this machine for training, and show how to get what is missing",
      .text = embedded("doctor.md"),
      .options = {{.name = "hosts",
                   .kind = Kind::text,
                   .value = "HOST,...",
                   .doc =
                       "Check the network between these hosts instead, which are reached over ssh "
                       "as by `adaptdl run --hosts`; this machine may be one."},
                  {.name = "interface",
                   .kind = Kind::text,
                   .value = "NAME",
                   .doc = "With --hosts: the network interface of each host. Default: any that "
                          "answers, first that of the default route."},
                  {.name = "ports",
                   .kind = Kind::text,
                   .value = "FIRST-LAST",
                   .doc = "With --hosts: each host listens at one of these TCP ports. Default: any "
                          "that is free."},
                  {.name = "links",
                   .kind = Kind::integer,
                   .value = "N",
                   .fallback = "1",
                   .doc = "With --hosts: measure the bandwidth with so many connections between "
                          "two hosts, as with --links of `adaptdl run`.",
                   .min = 1,
                   .max = kMaxLinks},
                  format_option()},
      .examples = {{"adaptdl doctor", "Check this machine."},
                   {"adaptdl doctor --hosts localhost,node2,node3",
                    "Measure the network between three hosts."}},
      .run = run_doctor};
}

}  // namespace adaptdl::cli
