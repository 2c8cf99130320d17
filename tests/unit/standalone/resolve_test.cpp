// Where rank 0 listens, by the names that its host has.

#include "runtime/standalone/resolve.h"

#include <doctest/doctest.h>

using namespace adaptdl::standalone;

namespace {

// Numeric addresses as those of the name.
std::vector<std::string> listening(const std::string& name,
                                   const std::vector<std::string>& addresses) {
  std::vector<Address> resolved;
  for (const std::string& text : addresses) resolved.push_back(resolve(text, 80).front());
  std::vector<std::string> texts;
  for (const Address& address : where_to_listen(name, resolved)) texts.push_back(address.text());
  return texts;
}

}  // namespace

TEST_CASE("a name that is loopback on its own host only stands for all of its addresses") {
  using Texts = std::vector<std::string>;
  CHECK(listening("node1", {"127.0.1.1"}) == Texts{"0.0.0.0"});
  CHECK(listening("node1", {"::1"}) == Texts{"::"});
  CHECK(listening("node1", {"127.0.1.1", "192.0.2.1"}) == Texts{"192.0.2.1"});
  CHECK(listening("node1", {"192.0.2.1", "192.0.2.2"}) == Texts{"192.0.2.1", "192.0.2.2"});
  CHECK(listening("0.0.0.0", {"0.0.0.0"}) == Texts{"0.0.0.0"});
}

TEST_CASE("who says loopback means this host alone") {
  for (const char* name : {"localhost", "localhost.localdomain", "ip6-localhost", "127.0.0.1",
                           "127.0.1.1", "127.1", "::1"}) {
    CAPTURE(name);
    CHECK(names_loopback(name));
    CHECK(listening(name, {"127.0.0.1"}) == std::vector<std::string>{"127.0.0.1"});
  }
  for (const char* name : {"node1", "192.0.2.1", "0.0.0.0", "2001:db8::1", ""}) {
    CAPTURE(name);
    CHECK(!names_loopback(name));
  }
}
