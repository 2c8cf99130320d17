#include "core/cluster/local/slot_ledger.h"

#include <doctest/doctest.h>

using namespace adaptdl::local;
using Slots = std::vector<int>;

TEST_CASE("slots go to one job at a time, the lowest first") {
  SlotLedger slots(4);
  CHECK(slots.take("a", 2) == Slots{0, 1});
  CHECK(slots.take("b", 1) == Slots{2});
  CHECK(slots.free() == 1);
  slots.keep_only("a", {1});
  CHECK(slots.held_by("a") == Slots{1});
  CHECK(slots.take("b", 2) == Slots{0, 3});
  CHECK(slots.held_by("b") == Slots{0, 2, 3});
  slots.keep_only("b", {});
  CHECK(slots.free() == 3);
}

TEST_CASE("a job found running does not get what is another's, or is not there any more") {
  SlotLedger slots(3);
  slots.hold("a", {0, 1});
  slots.hold("b", {1, 2, 7, -1});
  CHECK(slots.held_by("a") == Slots{0, 1});
  CHECK(slots.held_by("b") == Slots{2});
}
