#pragma once

// Shares of something of which each name may have a limited number. One thread.

#include <cstddef>
#include <map>
#include <memory>
#include <string>

namespace adaptdl {

class Quota {
 public:
  // A share is returned when its last copy is destroyed; the quota outlives it.
  using Share = std::shared_ptr<const void>;

  // `most` >= 0: shares of each name.
  explicit Quota(size_t most) : most_(most) {}
  Quota(const Quota&) = delete;
  Quota& operator=(const Quota&) = delete;

  // Null if the name has `most` shares.
  Share take(const std::string& name) {
    const auto given = given_.try_emplace(name, 0).first;
    if (given->second >= most_) {
      if (given->second == 0) given_.erase(given);
      return nullptr;
    }
    ++given->second;
    return {this, [this, given](const void*) {
              if (--given->second == 0) given_.erase(given);
            }};
  }

 private:
  const size_t most_;
  std::map<std::string, size_t> given_;
};

}  // namespace adaptdl
