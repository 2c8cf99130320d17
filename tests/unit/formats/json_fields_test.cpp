#include "core/formats/json_fields.h"

#include <doctest/doctest.h>

namespace adaptdl {
namespace {

TEST_CASE("what is missing or of another type reads as empty") {
  const Json object = {{"text", "a"}, {"list", {1, 2}}, {"inner", {{"key", "b"}}}, {"number", 3}};
  CHECK(text_at(object, "text") == "a");
  CHECK(text_at(object_at(object, "inner"), "key") == "b");
  CHECK(list_at(object, "list").size() == 2);
  CHECK(member(object, "number") == 3);
  for (const Json& other : {object, Json(), Json(3), Json("text"), Json::array({1})}) {
    CHECK(text_at(other, "number").empty());
    CHECK(member(other, "missing").is_null());
    CHECK(object_at(other, "list") == Json::object());
    CHECK(list_at(other, "inner") == Json::array());
  }
}

TEST_CASE("values by a pointer") {
  const Json object = {{"a/b", {{"list", {1, {{"name", "x"}}}}}}};
  CHECK(text_at_pointer(object, "/a~1b/list/1/name") == "x");
  CHECK(value_at_pointer(object, "/a~1b/list/0") == 1);
  for (const char* nothing : {"/a", "/a~1b/list/2", "/a~1b/list/0/name"}) {
    CHECK(value_at_pointer(object, nothing).is_null());
    CHECK(text_at_pointer(object, nothing).empty());
  }
}

}  // namespace
}  // namespace adaptdl
