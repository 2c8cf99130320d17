#include "core/policy/configuration.h"

#include <doctest/doctest.h>

namespace adaptdl::configuration_test {
namespace {

using List = std::vector<Configuration>;

struct Room {
  int whole_nodes, per_node, single;
};

List all(const std::vector<Room>& kinds, int least, int most) {
  std::vector<KindRoom> rooms;
  for (const auto& [whole_nodes, per_node, single] : kinds) {
    rooms.push_back({whole_nodes, per_node, single, {}});
    if (whole_nodes > 0) rooms.back().shares = {{whole_nodes, per_node}};
  }
  return list_configurations(rooms, least, most);
}

TEST_CASE("configurations are powers of two on a node, and whole nodes") {
  CHECK(all({{3, 4, 4}}, 1, 100) == List{{0, 1, 1}, {0, 1, 2}, {0, 1, 4}, {0, 2, 8}, {0, 3, 12}});
  CHECK(all({{2, 6, 6}}, 1, 100) == List{{0, 1, 1}, {0, 1, 2}, {0, 1, 4}, {0, 1, 6}, {0, 2, 12}});
  CHECK(all({{2, 4, 4}, {2, 8, 8}}, 2, 8) ==
        List{{0, 1, 2}, {0, 1, 4}, {0, 2, 8}, {1, 1, 2}, {1, 1, 4}, {1, 1, 8}});
  CHECK(all({{2, 1, 1}}, 1, 2) == List{{0, 1, 1}, {0, 2, 2}});
}

TEST_CASE("nodes that are partly taken hold small configurations only") {
  CHECK(all({{1, 4, 4}}, 1, 100) == List{{0, 1, 1}, {0, 1, 2}, {0, 1, 4}});
  CHECK(all({{0, 4, 2}}, 1, 100) == List{{0, 1, 1}, {0, 1, 2}});
  CHECK(all({{0, 4, 0}}, 1, 100).empty());
  CHECK(all({{0, 0, 0}}, 1, 100).empty());
}

TEST_CASE("bounds that no regular configuration meets still leave one") {
  CHECK(all({{2, 4, 4}}, 3, 3) == List{{0, 1, 3}});
  CHECK(all({{2, 4, 4}}, 5, 7) == List{{0, 2, 5}});
  CHECK(all({{2, 4, 4}, {2, 8, 8}}, 5, 7) == List{{0, 2, 5}, {1, 1, 5}});
  CHECK(all({{2, 4, 4}}, 4, 1) == List{{0, 1, 4}});  // has measured little, but needs four
  CHECK(all({{2, 4, 4}}, 9, 16).empty());
}

TEST_CASE("nodes that differ hold the least replicas in equal shares") {
  const std::vector<KindRoom> rooms = {{1, 8, 8, {{1, 8}, {1, 7}}}};
  CHECK(list_configurations(rooms, 8, 100) == List{{0, 1, 8}});
  CHECK(list_configurations(rooms, 10, 100) == List{{0, 2, 10}});
  CHECK(list_configurations(rooms, 14, 100) == List{{0, 2, 14}});
  CHECK(list_configurations(rooms, 15, 100).empty());  // 8 and 7 are no equal shares
  CHECK(list_configurations(std::vector<KindRoom>{{0, 4, 3, {{2, 3}}}}, 5, 6) == List{{0, 2, 5}});
}

}  // namespace
}  // namespace adaptdl::configuration_test
