#pragma once

// The kinds of vectors files. Each check reads a parsed file, prints a line for each section of it,
// and returns whether everything was within tolerance. Throws Error when the file has not the
// kind's format.

#include <nlohmann/json_fwd.hpp>

namespace adaptdl::vectors {

bool check_goodput(const nlohmann::json& file);
bool check_pollux(const nlohmann::json& file);
bool check_sia(const nlohmann::json& file);

// Need the profiles and workloads in $ADAPTDL_TEST_DATA/data/osdi21.
bool check_sim(const nlohmann::json& file);
bool check_sim_delaunay(const nlohmann::json& file);

// Needs LibTorch, whose optimizers do the updates.
bool check_gradient_statistics(const nlohmann::json& file);

}  // namespace adaptdl::vectors
