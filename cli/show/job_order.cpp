#include "cli/show/job_order.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "core/base/error.h"

namespace adaptdl::cli {
namespace {

struct JobOrder {
  const char* name;
  bool from_largest;
  std::string JobRow::*text;                       // sorts by it, or
  std::optional<double> (*number)(const JobRow&);  // by this
};

// "1 -> 2" during a rescale counts as 1.
std::optional<double> replica_number(const JobRow& row) {
  int64_t value = 0;
  const std::string& text = row.replicas;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(static_cast<double>(value)) : std::nullopt;
}

std::optional<double> batch_number(const JobRow& row) {
  const auto& batch = row.training.batch;
  return batch ? std::optional(static_cast<double>(*batch)) : std::nullopt;
}

constexpr JobOrder kOrders[] = {
    {"submitted", false, nullptr, nullptr},
    {"name", false, &JobRow::name, nullptr},
    {"status", false, &JobRow::status, nullptr},
    {"replicas", true, nullptr, replica_number},
    {"loss", true, nullptr, [](const JobRow& row) { return row.training.loss; }},
    {"done", true, nullptr, [](const JobRow& row) { return row.training.done(); }},
    {"left", false, nullptr, [](const JobRow& row) { return row.training.seconds_left; }},
    {"goodput", true, nullptr, [](const JobRow& row) { return row.training.goodput; }},
    {"batch", true, nullptr, batch_number}};

}  // namespace

const std::vector<std::string_view>& job_orders() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const JobOrder& order : kOrders) all.emplace_back(order.name);
    return all;
  }();
  return names;
}

void sort_rows(std::vector<JobRow>& rows, std::string_view order, bool reverse) {
  const auto* by = std::find_if(std::begin(kOrders), std::end(kOrders),
                                [&](const JobOrder& each) { return each.name == order; });
  ADAPTDL_CHECK(by != std::end(kOrders));
  if (by->text != nullptr) {
    std::stable_sort(rows.begin(), rows.end(), [&](const JobRow& a, const JobRow& b) {
      return reverse ? b.*by->text < a.*by->text : a.*by->text < b.*by->text;
    });
  } else if (by->number != nullptr) {
    const bool falling = by->from_largest != reverse;
    std::stable_sort(rows.begin(), rows.end(), [&](const JobRow& a, const JobRow& b) {
      const auto first = by->number(a), second = by->number(b);
      if (!first || !second) return first.has_value() && !second.has_value();
      return falling ? *first > *second : *first < *second;
    });
  } else if (reverse) {
    std::reverse(rows.begin(), rows.end());
  }
}

}  // namespace adaptdl::cli
