#pragma once

// The order of the rows of `top`. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "cli/show/jobs.h"

namespace adaptdl::cli {

// Names of orders for `--sort`; the first is the order of submission. Names and states are sorted
// by their letters, the time left from the shortest, other numbers from the largest.
const std::vector<std::string_view>& job_orders();

// Sorts the rows, which are in order of submission, by one of job_orders(). Rows without the value
// come last, also if `reverse`.
void sort_rows(std::vector<JobRow>& rows, std::string_view order, bool reverse);

}  // namespace adaptdl::cli
