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
  CHECK(slots.take("b", 2, 0, {2}) == Slots{0, 3});
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

TEST_CASE("slots of a kind, and those that a job gives up") {
  SlotLedger slots(5, {0, 1, 0, 1, 1});
  CHECK(slots.take("a", 2, 1) == Slots{1, 3});
  CHECK(slots.available("b", {}, 1) == Slots{4});
  CHECK(slots.available("b", {}, 0) == Slots{0, 2});
  CHECK(slots.available("a", {3}, 1) == Slots{4, 1});
  CHECK(slots.available("a", {0}, 1) == Slots{1, 3, 4});  // back to them
  CHECK(slots.take("a", 1, 1, {0}) == Slots{1});
  CHECK(slots.free() == 3);
  CHECK(slots.of_kind({0, 1, 3}, 1) == Slots{1, 3});
}
